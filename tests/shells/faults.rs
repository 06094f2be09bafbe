//! Everything that a remote shell may do wrong, to one host of 64 and to 18 of them: the launch
//! ends in time, with the right outcome for each host.

use std::collections::BTreeMap;

use libi::{Cause, Exit, Failure, HostReport, Phase, Rank};

use crate::scene::{Outcome, Scene};
use libi_testkit::kills::seeded;

const HOSTS: u32 = 64;
/// One host of 64, and three tenths of them. None is the master's.
const SHARES: [&[&str]; 2] = [&["n37"], &["*7", "*8", "*9"]];
const BAD: [&[u32]; 2] = [&[37], &[7, 8, 9]];

/// What is to become of a host that is befallen.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It joins, after so many attempts.
    Joins(u32),
    /// It is given up after so many attempts, in one of these phases, for this reason.
    Fails { attempts: u32, phases: &'static [Phase], why: Why },
    /// It is given up in this phase or a later one, or it joins and is lost, for this reason.
    Breaks(Phase, Why),
}

#[derive(Clone, Copy, Debug)]
enum Why {
    /// What was started has ended with one of these, and has said this.
    Exits(&'static [Exit], &'static str),
    /// Nothing was heard of it.
    Hangs,
}

type Case<'a> = (&'a str, Fate);

const WORK: [&str; 4] = ["join", "out:{host}", "flood:20000", "finish:30000"];

const fn fails(attempts: u32, phases: &'static [Phase], why: Why) -> Fate {
    Fate::Fails { attempts, phases, why }
}

/// The shell itself says that it has failed.
const fn refuses(attempts: u32, saying: &'static str) -> Fate {
    fails(attempts, &[Phase::Starting], Why::Exits(&[Exit::Code(255)], saying))
}

const HANGS: Fate = fails(2, &[Phase::Starting], Why::Hangs);
const CUT: Why = Why::Exits(&[Exit::Code(255)], "closed by remote host");

/// What is slow, or chatty, joins all the same.
const HARMLESS: &[Case<'_>] = &[
    ("delay 300ms", Fate::Joins(1)),
    ("slow x10", Fate::Joins(1)),
    ("banner-before Welcome to this host", Fate::Joins(1)),
    ("banner-after You are logged out", Fate::Joins(1)),
    ("warn Warning: Permanently added it to the list of known hosts.", Fate::Joins(1)),
    ("garbage 4000", Fate::Joins(1)),
    ("relay", Fate::Joins(1)),
    ("cut 1000000", Fate::Joins(1)),
    ("hang-after 1000000", Fate::Joins(1)),
];

/// What may pass is tried again, and joins.
const PASSING: &[Case<'_>] = &[
    ("once refuse", Fate::Joins(2)),
    ("once refuse timed-out after 100ms", Fate::Joins(2)),
    ("once refuse closed", Fate::Joins(2)),
    ("once refuse reset", Fate::Joins(2)),
    ("times 1 exit 255 after 50ms", Fate::Joins(2)),
    ("once hang", Fate::Joins(2)),
    ("once cut 0", Fate::Joins(2)),
    ("once cut 10", Fate::Joins(2)),
    ("once cut 40", Fate::Joins(2)),
    ("once hang-after 0", Fate::Joins(2)),
];

const REFUSED: &[Case<'_>] = &[
    ("refuse refused", refuses(2, "Connection refused")),
    ("refuse timed-out after 200ms", refuses(2, "Connection timed out")),
    // It may be overloaded.
    ("refuse closed", refuses(8, "Connection closed by")),
    ("refuse reset", refuses(8, "Connection reset by")),
    // Neither a name nor a permission comes by trying again.
    ("refuse unknown-host", refuses(1, "Could not resolve hostname")),
    ("refuse host-key", refuses(1, "Host key verification failed.")),
    ("refuse permission", refuses(1, "Permission denied (publickey).")),
];

const ENDED: &[Case<'_>] = &[
    ("not-found", fails(1, &[Phase::Starting], Why::Exits(&[Exit::Code(127)], ": not found"))),
    ("exit 0", fails(1, &[Phase::Starting], Why::Exits(&[Exit::Code(0)], ""))),
    ("exit 3 after 100ms", fails(1, &[Phase::Starting], Why::Exits(&[Exit::Code(3)], ""))),
    ("exit 255 after 100ms", fails(2, &[Phase::Starting], Why::Exits(&[Exit::Code(255)], ""))),
    // The program finds that its input has ended.
    (
        "close-stdin",
        fails(
            1,
            &[Phase::Starting, Phase::Handshaking],
            // The leader exits with 3 if its program has not said anything by then.
            Why::Exits(&[Exit::Code(70), Exit::Code(3)], ""),
        ),
    ),
    ("cut 0", fails(2, &[Phase::Starting], CUT)),
    ("cut 10", fails(2, &[Phase::Starting], CUT)),
    ("cut 40", fails(2, &[Phase::Handshaking], CUT)),
];

const HANGING: &[Case<'_>] = &[
    ("hang", HANGS),
    ("hang-after 0", HANGS),
    ("hang-after 10", HANGS),
    ("hang-after 40", fails(2, &[Phase::Handshaking], Why::Hangs)),
];

/// Its leader has said hello, and may launch others, when the connection breaks.
const BREAKING: &[Case<'_>] = &[
    ("cut 150", Fate::Breaks(Phase::Joining, CUT)),
    ("cut 1000", Fate::Breaks(Phase::Joining, CUT)),
    ("cut 10000", Fate::Breaks(Phase::Joining, CUT)),
    ("hang-after 150", Fate::Breaks(Phase::Joining, Why::Hangs)),
    ("hang-after 1000", Fate::Breaks(Phase::Joining, Why::Hangs)),
    ("hang-after 10000", Fate::Breaks(Phase::Joining, Why::Hangs)),
];

#[test]
fn what_is_slow_or_chatty_joins() {
    play_all(HARMLESS);
}

#[test]
fn what_may_pass_is_tried_again_and_joins() {
    play_all(PASSING);
}

#[test]
fn hosts_whose_shells_refuse_are_given_up_with_what_the_shells_said() {
    play_all(REFUSED);
}

#[test]
fn hosts_whose_commands_end_are_given_up_with_their_status() {
    play_all(ENDED);
}

#[test]
fn hosts_that_hang_are_given_up_in_time() {
    play_all(HANGING);
}

#[test]
fn hosts_whose_connections_break_take_no_others_out_of_the_launch() {
    play_all(BREAKING);
}

#[test]
fn connections_may_be_cut_after_any_number_of_bytes() {
    let mut rng = seeded();
    let draw = |_| format!("cut {}", (10_000f64.powf(rng.unit())) as u64);
    let faults: Vec<String> = (0..12).map(draw).collect();
    let cases: Vec<Case<'_>> =
        faults.iter().map(|fault| (fault.as_str(), Fate::Breaks(Phase::Starting, CUT))).collect();
    play_all(&cases);
}

#[test]
fn whatever_befalls_hosts_at_the_same_time_the_others_join() {
    let mut rng = seeded();
    let groups = [HARMLESS, PASSING, REFUSED, ENDED, HANGING, BREAKING];
    for _ in 0..2 {
        let mut drawn = BTreeMap::new();
        for host in 1..HOSTS {
            if !rng.chance(0.3) {
                continue;
            }
            let group = groups[rng.below(groups.len() as u64) as usize];
            drawn.insert(host, group[rng.below(group.len() as u64) as usize]);
        }
        let line = |(host, (fault, _)): (&u32, &Case<'_>)| format!("\nfault n{host:02} {fault}");
        let scene =
            Scene::new(&format!("seq 2ms\nrem 20ms~50%{}", drawn.iter().map(line).collect::<String>()));
        let outcome = scene.play("n[00-63]:2", &WORK, &scene.options());
        let report = &outcome.report;
        println!("{drawn:?}\n{report}");
        assert!(report.is_up() && outcome.done, "{report}");
        for (number, host) in (0..HOSTS).zip(report.hosts()) {
            let fate = drawn.get(&number);
            judge(fate.map(|(_, fate)| fate), host, 2 * number, &outcome, &format!("{fate:?}: {host:?}"));
        }
    }
}

/// Plays each case with one bad host, and meanwhile with many.
fn play_all(cases: &[Case<'_>]) {
    std::thread::scope(|scope| {
        let players: Vec<_> = SHARES
            .iter()
            .zip(BAD)
            .map(|(share, bad)| scope.spawn(move || cases.iter().for_each(|case| play(case, share, bad))))
            .collect();
        // All of them, before the first that has failed fails the test.
        let ends: Vec<_> = players.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        ends.into_iter().for_each(|end| end.unwrap());
    });
}

fn play((fault, fate): &Case<'_>, share: &[&str], bad: &[u32]) {
    let faults: String = share.iter().map(|hosts| format!("\nfault {hosts} {fault}")).collect();
    let scene = Scene::new(&format!("seq 2ms\nrem 20ms{faults}"));
    let began = std::time::Instant::now();
    let mut options = scene.options();
    if matches!(fate, Fate::Joins(1)) || !fault.contains("hang") {
        // No host is to be found silent, however busy this machine is.
        options.rules.hello_timeout = options.deadline;
    }
    let outcome = scene.play("n[00-63]", &WORK, &options);
    println!("{fault} at {share:?}: {:?} of {:?}", outcome.report.took(), began.elapsed());
    let (report, calls) = (&outcome.report, scene.calls());
    assert!(report.is_up() && outcome.done, "{fault}: {report}");
    for (number, host) in (0..HOSTS).zip(report.hosts()) {
        let is_bad = bad.contains(&number) || bad.contains(&(number % 10)) && bad.len() > 1;
        let about = format!("{fault} at {share:?}: {host:?}");
        judge(Some(fate).filter(|_| is_bad), host, number, &outcome, &about);
        if let Fate::Joins(attempts) | Fate::Fails { attempts, .. } = fate
            && is_bad
        {
            // A leader that has nothing but bad hosts leaves it to another to give them up.
            let spare = if matches!(fate, Fate::Fails { .. }) { 2 } else { 0 };
            let calls = calls.get(&host.name).copied().unwrap_or(0);
            // What was withdrawn is no attempt, but may have been the call that was to fail.
            let withdrawn = u32::from(host.withdrawn);
            let expected = attempts - withdrawn..=attempts + spare + withdrawn;
            let log = scene.lab.log().into_iter().filter(|call| call["host"] == host.name);
            assert!(expected.contains(&calls), "{calls} calls: {about}: {:#?}", log.collect::<Vec<_>>());
        }
    }
    match fate {
        Fate::Breaks(..) => {}
        _ => assert_eq!(outcome.lost.len(), 0, "{fault}: {:?}", outcome.lost),
    }
}

/// Checks what became of a host whose leader has this rank.
fn judge(fate: Option<&Fate>, host: &HostReport, rank: u32, outcome: &Outcome, about: &str) {
    match (fate, &host.failure) {
        (None | Some(Fate::Joins(_)), failure) => assert_eq!(*failure, None, "{about}"),
        (Some(Fate::Fails { phases, why, .. }), Some(failure)) => {
            assert!(phases.contains(&failure.phase) && why.explains(failure), "{about}");
        }
        (Some(Fate::Fails { .. }), None) => panic!("{about} has joined"),
        (Some(Fate::Breaks(phase, why)), Some(failure)) => {
            assert!(failure.phase >= *phase && why.explains(failure), "{about}");
        }
        (Some(Fate::Breaks(..)), None) => assert!(is_lost(rank, &host.name, outcome), "{about}"),
    }
}

/// Whether a host that had joined went without finishing well.
fn is_lost(rank: u32, name: &str, outcome: &Outcome) -> bool {
    outcome.lost.contains_key(name)
        || outcome.exits.get(&Rank(rank)).is_some_and(|exit| *exit != Exit::Code(0))
}

impl Why {
    fn explains(self, failure: &Failure) -> bool {
        match self {
            Self::Exits(exits, saying) => {
                let is_one = |exit: Exit| exits.contains(&exit) && failure.exit == Some(exit);
                matches!(failure.cause, Cause::Exited(exit) if is_one(exit)) && failure.tail.contains(saying)
            }
            Self::Hangs => matches!(failure.cause, Cause::TimedOut | Cause::HeartbeatLost),
        }
    }
}
