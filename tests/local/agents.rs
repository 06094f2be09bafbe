//! Sessions led by agents: a member may end in whichever way, at whichever place of the tree, and
//! costs nothing but its own rank.

use libi::{Agent, Delivery, Distribution, Exit, FrontEnd, LaunchOptions, OsBytes, Policy, Programs};
use libi_testkit::local::{Heard, Lab, eventually, kill, launch_with, status};
use libi_testkit::programs;

/// Hosts in a tree of several levels, two members on each.
const HOSTS: &str = "n[0-11]:2";
const SIZE: u32 = 24;

fn options(programs: Programs) -> LaunchOptions {
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    LaunchOptions::local().agent(agent).programs(programs).strategy("kary:2".parse().unwrap())
}

/// Everything that is heard of a session in which one rank does this, and all others `others`.
fn heard_with(lab: &Lab, victim: u32, way: &str, others: &str) -> Heard {
    let script = format!("if [ $LIBI_RANK = {victim} ]; then echo victim; {way}; fi; {others}");
    let distribution = lab.program("/bin/sh", HOSTS, &["-c", &script]);
    let front = FrontEnd::new().unwrap();
    let session = launch_with(&front, &[distribution], &options(Programs::Any));
    let heard = Heard::all(&front);
    drop(session);
    heard
}

/// Only the victim's exit is this, and the output of all others has arrived.
pub(super) fn costs_only_its_rank(heard: &Heard, victim: u32, exit: Exit, way: &str) {
    assert!(heard.lost.is_empty(), "{way} at {victim}: {}", heard.described());
    for rank in (0..SIZE).filter(|rank| *rank != victim) {
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "{way} at {victim}: {}", heard.described());
        assert_eq!(heard.out(rank), "up\nlast\n", "{way} at {victim}: rank {rank}");
    }
    assert_eq!(heard.exits.get(&victim), Some(&exit), "{way} at {victim}: {}", heard.described());
}

/// Rank 0, a rank whose host launches others, and one at the end of the tree.
const PLACES: [u32; 3] = [0, 3, 23];

#[test]
fn a_plain_program_may_end_in_any_way_and_costs_only_its_rank() {
    let lab = Lab::new();
    for (way, exit) in [
        ("exit 0", Exit::Code(0)),
        ("exit 7", Exit::Code(7)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("kill -SEGV $$", Exit::Signal(11)),
        ("kill -ABRT $$", Exit::Signal(6)),
        ("exec false", Exit::Code(1)),
        ("exec 0<&- 1>&- 2>&- 3>&-; exit 5", Exit::Code(5)),
        ("(sleep 0.2; kill -CONT $$) & kill -STOP $$; exit 6", Exit::Code(6)),
    ] {
        for victim in PLACES {
            let heard = heard_with(&lab, victim, way, "echo up; echo last");
            costs_only_its_rank(&heard, victim, exit, way);
            assert_eq!(heard.out(victim), "victim\n", "{way}");
        }
    }
    lab.is_empty_within(std::time::Duration::from_secs(10));
}

#[test]
fn a_program_that_has_joined_may_end_in_any_way_and_costs_only_its_rank() {
    let lab = Lab::new();
    let member = programs::member();
    let others = format!("exec {member} join out:up out:last finish:30000");
    for (way, exit) in [
        ("exit:4", Exit::Code(4)),
        ("abort", Exit::Signal(6)),
        ("signal:9", Exit::Signal(9)),
        ("signal:15", Exit::Signal(15)),
        ("finish:30000", Exit::Code(0)),
    ] {
        for victim in PLACES {
            let heard = heard_with(&lab, victim, &format!("exec {member} join {way}"), &others);
            costs_only_its_rank(&heard, victim, exit, way);
        }
    }
    lab.is_empty_within(std::time::Duration::from_secs(10));
}

#[test]
fn programs_that_link_libi_may_be_required_to_join_under_agents() {
    let lab = Lab::new();
    let front = FrontEnd::new().unwrap();
    let words = ["join", "talk:barrier", "out:up", "only:0:exit:3", "out:last", "finish:30000"];
    let session = launch_with(&front, &[lab.members(HOSTS, &words)], &options(Programs::Linked));
    let heard = Heard::all(&front);
    for rank in 1..SIZE {
        assert_eq!((heard.exits[&rank], heard.out(rank)), (Exit::Code(0), "up\nlast\n".to_owned()));
    }
    assert_eq!((heard.exits[&0], heard.lost.len()), (Exit::Code(3), 0), "{}", heard.described());
    drop((session, front));
    lab.is_empty_within(std::time::Duration::from_secs(10));

    let front = FrontEnd::new().unwrap();
    let not_joining = lab.members("a,b", &["exit:5"]);
    let report = refused(&front, not_joining, &options(Programs::Linked));
    assert!(report.contains("exited 5 while joining"), "{report}");
}

/// The report of a launch that fails.
fn refused(front: &FrontEnd, distribution: Distribution, options: &LaunchOptions) -> String {
    match front.launch_all(&[distribution], options).map(drop) {
        Err(libi::Error::NotLaunched(report)) => report.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_that_is_killed_takes_its_programs_along_and_is_reported_as_a_lost_host() {
    let lab = Lab::new();
    let front = FrontEnd::new().unwrap();
    let distribution = lab.program("/bin/sleep", "a:2", &["1000"]);
    let own = options(Programs::Any).policy(Policy::AtLeast(1));
    let session = launch_with(&front, &[distribution], &own);
    eventually("both programs run", || lab.living().len() == 2);
    let agent = status(lab.living()[0].0, "PPid").unwrap();
    kill(agent.trim().parse().unwrap(), 9);
    let heard = Heard::all(&front);
    assert_eq!((heard.lost.len(), heard.exits.len()), (1, 0), "{}", heard.described());
    drop((session, front));
    eventually("all programs have ended", || lab.living().is_empty());
}

#[test]
fn a_program_serves_as_its_own_agent() {
    let lab = Lab::new();
    let front = FrontEnd::new().unwrap();
    // The test member is none: it does not call serve_if_asked, and fails like any other program.
    let agent = Agent::new(OsBytes::try_from(programs::member()).unwrap());
    let agent = agent.args(vec![OsBytes::try_from("exit:9").unwrap()]);
    let options = LaunchOptions::local().agent(agent).programs(Programs::Any);
    let report = refused(&front, lab.program("/bin/true", "a", &[]), &options);
    assert!(report.contains("exited 9 before joining"), "{report}");
    // A delivery has no effect on this machine.
    let file = std::fs::read(programs::agent()).unwrap();
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap()).delivery(Delivery::of(file));
    let options = LaunchOptions::local().agent(agent).programs(Programs::Any);
    let session = launch_with(&front, &[lab.program("/bin/true", "a,b", &[])], &options);
    let heard = Heard::all(&front);
    assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{}", heard.described());
    drop((session, front));
}
