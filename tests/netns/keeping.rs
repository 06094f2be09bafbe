//! Sessions that outlive the host of their front end: one of their own hosts keeps them.

use std::time::{Duration, Instant};

use libi::{Detached, FrontEnd, LaunchOptions, Rules, Session};
use libi_testkit::labs::netns::Network;
use libi_testkit::labs::{Marked, within};
use libi_testkit::launching::is_every_case_asked_for;
use libi_testkit::local::{Heard, launch_with};
use libi_testkit::programs;

use crate::scene::SLACK;
use crate::{TIMEOUT, options};

/// The hosts of the session; another one is for the next front end.
const HOSTS: u32 = 5;
const MEMBERS: u32 = 2 * HOSTS;
/// After this time a front end whose host is silent counts as gone.
const SILENCE: Duration = Duration::from_secs(30);

struct Kept {
    network: Network,
    mark: Marked,
    session: Session,
    _front: FrontEnd,
    ticket: String,
}

impl Kept {
    /// A session that the first of its hosts keeps, for so long without a front end.
    fn launch(network: Network, limit: Duration) -> Self {
        let keeper = network.bring(programs::agent(), "keeper");
        let ticket = programs::scratch().join(format!("netns-{}.ticket", std::process::id()));
        let ticket = ticket.to_str().unwrap().to_owned();
        let _ = std::fs::remove_file(&ticket);
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let members = mark.program(&network.member(), &format!("h[1-{HOSTS}]:2"), &["join", "talk:orders"]);
        let options =
            Self::options(&network).detached(Detached::new(&ticket, limit).host("h1").program(keeper));
        let session = launch_with(&front, &[members], &options);
        Self { network, mark, session, _front: front, ticket }
    }

    fn options(network: &Network) -> LaunchOptions {
        options(network.backend()).rules(Rules { peer_timeout: Duration::from_secs(10), ..Rules::default() })
    }

    /// The processes that keep sessions, on the first host.
    fn keepers(&self) -> usize {
        let is_keeper = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|it| it.contains("--libi-keeper"))
        };
        self.network.processes("h1").iter().filter(|pid| is_keeper(pid)).count()
    }

    fn nothing_is_left(self) {
        self.mark.nothing_is_left();
        within(TIMEOUT, "the keeper has ended", || self.keepers() == 0);
        let _ = std::fs::remove_file(&self.ticket);
    }
}

/// All members answer an order.
fn all_answer(session: &Session, order: &str) {
    session.broadcast(order.to_owned()).wait(TIMEOUT).unwrap();
    let answers = session.gather().wait(TIMEOUT).unwrap();
    let expected: Vec<String> = (0..MEMBERS).map(|rank| format!("{rank}:{order}")).collect();
    assert_eq!(answers.iter().map(|it| String::from_utf8_lossy(it)).collect::<Vec<_>>(), expected);
}

#[test]
fn a_front_end_on_another_host_takes_a_session_over_whose_front_end_has_no_power() {
    let Some(network) = Network::of(HOSTS + 1) else { return };
    let kept = Kept::launch(network, Duration::from_secs(600));
    let report = kept.session.report().unwrap();
    assert!(report.hosts().iter().all(|host| host.failure.is_none()), "{report}");
    assert_eq!(kept.keepers(), 1);
    all_answer(&kept.session, "first");
    kept.network.cut("front");
    let since = Instant::now();
    let heard = kept.network.inside(&format!("h{}", HOSTS + 1), || {
        let front = FrontEnd::new().unwrap();
        let session = front.attach(&kept.ticket, TIMEOUT).unwrap_or_else(|error| panic!("{error}"));
        println!("another front end has the session after {:?}", since.elapsed());
        assert_eq!(session.report().unwrap().to_string(), report.to_string());
        all_answer(&session, "second");
        session.broadcast("end").wait(TIMEOUT).unwrap();
        Heard::all(&front)
    });
    assert_eq!(heard.exits.len() as u32, MEMBERS, "{}", heard.described());
    assert!(heard.lost.is_empty(), "{}", heard.described());
    for rank in 0..MEMBERS {
        assert!(heard.out(rank).ends_with("second\nmaster: rank 0\n"), "{}", heard.described());
    }
    kept.network.heal();
    kept.nothing_is_left();
}

#[test]
fn a_session_without_a_front_end_ends_also_where_that_has_no_power() {
    if !is_every_case_asked_for() {
        return;
    }
    let Some(network) = Network::of(HOSTS) else { return };
    let limit = Duration::from_secs(3);
    let kept = Kept::launch(network, limit);
    kept.network.cut("front");
    let since = Instant::now();
    within(SILENCE + limit + 2 * SLACK, "the keeper has ended", || kept.keepers() == 0);
    println!("the session has ended after {:?}", since.elapsed());
    assert!(since.elapsed() > limit, "it does not know at once");
    kept.network.heal();
    kept.nothing_is_left();
}
