//! The master is lost, and its host, the first: another member is the master, and the front end goes on. So do
//! members by which the session has grown before.
//!
//! `LIBI_SEED` is the seed of the moments.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use libi::{
    CommError, Engine, Event, Exit, FrontEnd, LinkPolicy, OnLoss, Rank, Rules, Session, Shape, Strategy,
    Stream,
};

use crate::scene::{Outcome, Process, Scene, What, members};
use libi_testkit::kills::seeded;
use libi_testkit::processes::parent;

const LONG: Duration = Duration::from_secs(30);
/// How many orders follow each loss.
const ORDERS: u32 = 20;

/// A front end that gives orders, and what it has heard.
struct Orders<'a> {
    front: &'a FrontEnd,
    session: &'a Session,
    outcome: Outcome,
    masters: Vec<Rank>,
}

impl Orders<'_> {
    fn note(&mut self, event: Event) {
        match event {
            Event::MasterReplaced { rank, .. } => self.masters.push(rank),
            event => self.outcome.note(event),
        }
    }

    /// Gives an order, and gives it again to another master until all that are left have answered it.
    fn give(&mut self, order: &str) {
        loop {
            let master = self.session.master();
            let Err(error) = self.try_to_give(order) else { return };
            assert!(matches!(error, CommError::PeerLost { .. }), "{error}");
            let until = Instant::now() + LONG;
            while self.session.master() == master {
                let left = until.saturating_duration_since(Instant::now());
                let event = self.front.next_event(left).unwrap_or_else(|| {
                    panic!(
                        "another is the master after {master}: {:?} {:?} exits {:?}",
                        self.masters, self.outcome.lost, self.outcome.exits
                    )
                });
                self.note(event);
            }
        }
    }

    fn try_to_give(&self, order: &str) -> Result<(), CommError> {
        self.session.broadcast(order.to_owned()).wait(LONG)?;
        loop {
            let (answers, missing) = self.session.gather().wait_with_missing(LONG)?;
            let is_of = |answer: &[u8], order: &str| answer.ends_with(format!(":{order}").as_bytes());
            let given = (0..).map(Rank).zip(&answers).filter(|(rank, _)| !missing.contains(*rank));
            let answered: Vec<_> = given.filter(|(_, answer)| !answer.is_empty()).collect();
            // An earlier order may have been answered to the next master.
            if answered.iter().all(|(_, answer)| is_of(answer, order)) {
                for (rank, answer) in answered {
                    assert_eq!(**answer, *format!("{}:{order}", rank.0).as_bytes());
                }
                return Ok(());
            }
        }
    }
}

/// The processes of the master's host, or the master alone.
fn victims(scene: &Scene, host: &str, is_host: bool) -> Vec<Process> {
    let processes: Vec<_> = scene.processes().into_iter().filter(|process| process.host == host).collect();
    if is_host {
        return processes;
    }
    let leader = processes.iter().find(|process| process.what == What::Leader).expect("a leader");
    let is_member =
        |process: &&Process| process.what == What::Other && parent(process.pid) == Some(leader.pid);
    processes.iter().filter(is_member).cloned().collect()
}

/// Masters are lost one after the other, while orders are given.
fn lose_masters(strategy: Strategy, links: LinkPolicy, hosts: bool) {
    let mut random = seeded();
    let scene = Scene::new("seq 1ms\nrem 5ms");
    let front = FrontEnd::new().unwrap();
    let options = scene.options().engine(Engine::Apart).strategy(strategy).loopback(true).links(links);
    let rules = Rules { hello_timeout: LONG, join_timeout: LONG, peer_timeout: LONG / 3, ..options.rules };
    let options = options.rules(rules).on_loss(OnLoss::Continue).replace_master(true);
    let words = ["join", "talk:orders"];
    let (session, report) = scene.launch(&front, "n[00-11]", &words, &options);
    assert!(report.is_up(), "{report}");
    let mut orders =
        Orders { front: &front, session: &session, outcome: Outcome::new(report), masters: vec![] };
    let (mut order, mut killed) = (0, BTreeSet::new());
    orders.give("begin");
    let growth = session.add(&members("n[12-15]", &words)).unwrap();
    assert_eq!((growth.ranks, growth.absent.is_empty()), (12..16, true));
    orders.give("grown");
    for _ in 0..3 {
        let master = session.master();
        killed.insert(master.0);
        println!("{strategy:?} {links:?}: master {master} is killed, order {order}");
        let kills = victims(&scene, &format!("n{:02}", master.0), hosts);
        assert!(!kills.is_empty());
        std::thread::scope(|scope| {
            let pause = Duration::from_micros(random.below(5_000));
            scope.spawn(move || {
                std::thread::sleep(pause);
                kills.iter().for_each(Process::kill);
            });
            for _ in 0..ORDERS {
                orders.give(&order.to_string());
                order += 1;
            }
        });
        // The loss may come after the last order.
        while session.master() == master {
            orders.give(&order.to_string());
            order += 1;
        }
    }
    session.broadcast("end").wait(LONG).unwrap();
    let until = Instant::now() + LONG;
    while !orders.outcome.done {
        let event = front.next_event(until.saturating_duration_since(Instant::now())).expect("all end");
        orders.note(event);
    }
    let Orders { outcome, masters, .. } = orders;
    // The last one ends like all others.
    assert!(masters.starts_with(&[1, 2, 3].map(Rank)), "{masters:?}");
    let left: Vec<u32> = (0..16).filter(|rank| !killed.contains(rank)).collect();
    let first = outcome.printed(left[0], Stream::Out);
    assert!(first.ends_with("master: rank 3\n"), "{first}");
    for rank in left {
        let why = outcome.printed(rank, Stream::Err);
        assert_eq!(outcome.exits.get(&Rank(rank)), Some(&Exit::Code(0)), "rank {rank}: {why}");
        let printed = outcome.printed(rank, Stream::Out);
        // New members have not heard the first order, and the second only if no other had waited for it.
        let is_right = match rank < 12 {
            true => printed == first,
            false => ["begin\n", "begin\ngrown\n"]
                .iter()
                .any(|unheard| first.strip_prefix(unheard) == Some(printed)),
        };
        assert!(is_right, "rank {rank}: {printed}, and others: {first}");
    }
    drop(session);
    scene.nothing_is_left();
}

#[test]
fn orders_go_on_when_the_first_host_is_lost_and_the_next() {
    lose_masters(Strategy::Late, LinkPolicy::Auto, true);
    lose_masters(Strategy::Static(Shape::Kary(2.try_into().unwrap())), LinkPolicy::Auto, true);
}

#[test]
fn orders_go_on_when_the_master_alone_is_lost_whatever_the_links() {
    lose_masters(Strategy::Late, LinkPolicy::Auto, false);
    lose_masters(Strategy::Late, LinkPolicy::Channel, false);
}
