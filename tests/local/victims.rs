//! In a session of many hosts, members at random places of the tree end one after the other, in random
//! ways. Each costs its own rank and nothing else: the front end hears of that end alone, and in the end
//! all others finish their work, and their output arrives.
//!
//! `LIBI_KILLS` is half the number of victims (50 by default), `LIBI_SEED` their seed.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use libi::{Agent, Distribution, Engine, Exit, FrontEnd, LaunchOptions, OsBytes, Programs};
use libi_testkit::kills::{moments, pick, seeded};
use libi_testkit::local::*;
use libi_testkit::programs;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

const HOSTS: &str = "n[0-127]";
const SIZE: u32 = 128;

/// What a member is told, and how it ends then.
type Way = (&'static str, Exit);

/// Each member reads from a pipe of its own what it is to do.
struct Orders<'a>(&'a Lab);

impl<'a> Orders<'a> {
    fn new(lab: &'a Lab) -> Self {
        for rank in 0..SIZE {
            mkfifo(lab.path(&rank.to_string()).as_str(), Mode::S_IRWXU).unwrap();
        }
        Self(lab)
    }

    fn tell(&self, rank: u32, what: &str) {
        let path = self.0.path(&rank.to_string());
        let open = || OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path).ok();
        let mut pipe = None;
        eventually("the member reads", || {
            pipe = open();
            pipe.is_some()
        });
        pipe.unwrap().write_all(what.as_bytes()).unwrap();
    }
}

/// Launches these members, ends victims in these ways, and lets all others do their last work.
fn costs_only_themselves(
    members: impl Fn(&Lab) -> Distribution,
    options: &LaunchOptions,
    ways: &[Way],
    last: &str,
) {
    let (lab, front, mut random) = (Lab::new(), FrontEnd::new().unwrap(), seeded());
    let orders = Orders::new(&lab);
    let options = options.clone().strategy("kary:3".parse().unwrap());
    let session = launch_with(&front, &[members(&lab)], &options);
    let (mut heard, mut left) = (Heard::default(), (0..SIZE).collect::<Vec<_>>());
    let victims = 2 * moments(50) as usize;
    for nth in 1..=victims.min(SIZE as usize - 1) {
        let victim = pick(&left, &mut random).unwrap();
        left.retain(|rank| *rank != victim);
        let (way, exit) = pick(ways, &mut random).unwrap();
        println!("{nth}: rank {victim}: {way:?}");
        orders.tell(victim, way);
        heard.until(&front, way, |heard| heard.exits.contains_key(&victim));
        assert_eq!(heard.exits[&victim], exit, "{}", heard.described());
        assert_eq!((heard.exits.len(), heard.lost.len()), (nth, 0), "{}", heard.described());
    }
    left.iter().for_each(|rank| orders.tell(*rank, last));
    heard.until(&front, "all have ended", |heard| heard.done);
    for rank in left {
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "{rank}: {}", heard.described());
        assert_eq!(heard.out(rank), "up\nlast\n", "rank {rank}");
    }
    assert!(heard.lost.is_empty(), "{}", heard.described());
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn linked_programs_that_end_in_any_way_cost_only_themselves() {
    let members =
        |lab: &Lab| lab.members(HOSTS, &["join", "out:up", &format!("obey:{}", lab.path("{rank}"))]);
    let ways = [
        ("exit:0\n", Exit::Code(0)),
        ("_exit:4\n", Exit::Code(4)),
        ("abort\n", Exit::Signal(6)),
        ("crash\n", Exit::Signal(11)),
        ("signal:9\n", Exit::Signal(9)),
        ("exec:/bin/false\n", Exit::Code(1)),
        ("close\n_exit:5\n", Exit::Code(5)),
        ("stop:100\n_exit:6\n", Exit::Code(6)),
        ("finish:30000\n", Exit::Code(0)),
    ];
    costs_only_themselves(
        members,
        &LaunchOptions::local().engine(Engine::Apart),
        &ways,
        "out:last\nfinish:30000\n",
    );
}

#[test]
fn plain_programs_that_end_in_any_way_cost_only_themselves() {
    let members = |lab: &Lab| {
        let script = format!("echo up; . {}$LIBI_RANK", lab.path(""));
        lab.program("/bin/sh", HOSTS, &["-c", &script])
    };
    let ways = [
        ("exit 0\n", Exit::Code(0)),
        ("exit 7\n", Exit::Code(7)),
        ("kill -ABRT $$\n", Exit::Signal(6)),
        ("kill -SEGV $$\n", Exit::Signal(11)),
        ("kill -KILL $$\n", Exit::Signal(9)),
        ("exec false\n", Exit::Code(1)),
        ("exec 0<&- 1>&- 2>&- 3>&-; exit 5\n", Exit::Code(5)),
        ("(sleep 0.1; kill -CONT $$) & kill -STOP $$; exit 6\n", Exit::Code(6)),
    ];
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    let options = LaunchOptions::local().agent(agent).programs(Programs::Any);
    costs_only_themselves(members, &options, &ways, "echo last\n");
}
