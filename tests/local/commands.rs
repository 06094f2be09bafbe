//! Commands in a session of agents: what they print, how they end, what they cost when a host is
//! lost, and that nothing is left of them.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use libi::{
    Agent, Command, CommandId, Distribution, Error, Event, Exit, FrontEnd, HostIndex, LaunchOptions, OsBytes,
    ProcessOutcome, Programs, Session, Spawned, Stream,
};
use libi_testkit::local::{Lab, MARK, SOON, TIMEOUT, eventually, kill, status};
use libi_testkit::programs;

/// Hosts in a tree of several levels.
const HOSTS: &str = "n[0-11]";
const SIZE: usize = 12;

/// A session of agents alone, in a tree in which the first host launches two others, and so on.
struct Warm {
    lab: Lab,
    session: Session,
    front: FrontEnd,
}

/// What was heard of a command.
#[derive(Debug, Default)]
struct Heard {
    texts: BTreeMap<(String, u32), Vec<u8>>,
    outcomes: BTreeMap<(String, u32), ProcessOutcome>,
    lost: Vec<String>,
    is_done: bool,
}

impl Warm {
    fn new() -> Self {
        let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
        let options = LaunchOptions::local().agent(agent).programs(Programs::None);
        let options = options.strategy("kary:2".parse().unwrap());
        let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
        let session = front.launch(&Distribution::idle(HOSTS), &options).unwrap();
        Self { lab, session, front }
    }

    /// A script whose processes bear the mark of this test.
    fn script(&self, text: &str) -> Command {
        Command::new("/bin/sh").args(["-c", text]).env(MARK, self.lab.mark())
    }

    fn spawn(&self, command: &Command) -> Spawned {
        self.session.spawn(command).unwrap()
    }

    /// Everything that is heard of a command until it is done.
    fn heard(&self, id: CommandId) -> Heard {
        let mut heard = Heard::default();
        while !heard.is_done {
            let event = self.front.next_event(TIMEOUT).unwrap_or_else(|| panic!("in vain: {heard:?}"));
            heard.note(id, event);
        }
        heard
    }

    /// Runs a script on all hosts.
    fn run(&self, text: &str) -> Heard {
        let spawned = self.spawn(&self.script(text));
        self.heard(spawned.id())
    }

    /// The agent of a host, as the parent of a process that the host runs.
    fn agent_of(&self, host: &str) -> i32 {
        let spawned = self.spawn(&self.script("echo $PPID").hosts(host));
        self.heard(spawned.id()).text(host, 0).trim().parse().unwrap()
    }

    fn nothing_is_left(self) {
        let Self { lab, session, front } = self;
        drop((session, front));
        lab.is_empty_within(SOON);
    }
}

impl Heard {
    fn note(&mut self, id: CommandId, event: Event) {
        match event {
            Event::CommandOutput { command, host_name, index, bytes, .. } if command == id => {
                let place = (host_name, index);
                assert!(!self.outcomes.contains_key(&place), "{place:?} prints after its end");
                self.texts.entry(place).or_default().extend(bytes);
            }
            Event::CommandEnded { command, host_name, index, outcome, .. } if command == id => {
                assert_eq!(self.outcomes.insert((host_name, index), outcome), None);
            }
            Event::CommandDone { command, .. } => self.is_done |= command == id,
            Event::Lost { name, .. } => self.lost.push(name),
            _ => {}
        }
    }

    fn text(&self, host: &str, index: u32) -> String {
        let text = self.texts.get(&(host.to_owned(), index)).cloned().unwrap_or_default();
        String::from_utf8(text).unwrap()
    }

    /// How many processes have ended like this.
    fn count(&self, outcome: &ProcessOutcome) -> usize {
        self.outcomes.values().filter(|known| *known == outcome).count()
    }
}

const SUCCESS: ProcessOutcome = ProcessOutcome::Exited(Exit::Code(0));

#[test]
fn a_command_runs_on_each_host_and_what_it_prints_comes_before_its_end() {
    let warm = Warm::new();
    for round in 0..3 {
        let heard = warm.run(&format!("echo $LIBI_HOST: {round}; exit {round}"));
        let exited = ProcessOutcome::Exited(Exit::Code(round));
        assert_eq!((heard.outcomes.len(), heard.count(&exited)), (SIZE, SIZE), "{heard:?}");
        for number in 0..SIZE {
            let host = format!("n{number}");
            assert_eq!(heard.text(&host, 0), format!("{host}: {round}\n"));
        }
    }
    warm.nothing_is_left();
}

#[test]
fn chosen_hosts_run_as_many_processes_as_asked_for() {
    let warm = Warm::new();
    let script = "echo $LIBI_LOCAL_RANK of $LIBI_LOCAL_SIZE; pwd; cat; exit $((5 + LIBI_LOCAL_RANK))";
    let three = warm.script(script).hosts("n[3-4,11],n3").per_host(NonZeroU16::new(3).unwrap());
    let spawned = warm.spawn(&three.current_dir("/"));
    assert_eq!(spawned.hosts(), [3, 4, 11].map(HostIndex));
    let heard = warm.heard(spawned.id());
    assert_eq!(heard.outcomes.len(), 9, "{heard:?}");
    for ((host, index), outcome) in &heard.outcomes {
        assert_eq!(*outcome, ProcessOutcome::Exited(Exit::Code(5 + *index as i32)));
        assert_eq!(heard.text(host, *index), format!("{index} of 3\n/\n"), "its input is empty");
    }
    let report = spawned.wait(TIMEOUT).unwrap();
    let places: Vec<_> = report.processes().iter().map(|it| (it.host.0, it.index)).collect();
    assert_eq!(
        places,
        [3, 4, 11].into_iter().flat_map(|host| (0..3).map(move |i| (host, i))).collect::<Vec<_>>()
    );
    assert!(!report.is_success() && report.to_string().starts_with("n3: process 0 exited 5\n"), "{report}");
    warm.nothing_is_left();
}

#[test]
fn commands_run_side_by_side_and_each_byte_arrives() {
    let warm = Warm::new();
    let long = warm.spawn(&warm.script("i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i + 1)); done"));
    let short = warm.spawn(&warm.script("head -c 300000 /dev/zero; echo; echo error >&2").hosts("n7"));
    let (mut of_long, mut of_short) = (Heard::default(), Heard::default());
    while !of_long.is_done || !of_short.is_done {
        let event = warm.front.next_event(TIMEOUT).unwrap();
        of_long.note(long.id(), event.clone());
        of_short.note(short.id(), event);
    }
    let expected: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    for number in 0..SIZE {
        assert!(of_long.text(&format!("n{number}"), 0) == expected, "n{number}");
    }
    assert_eq!(of_long.count(&SUCCESS), SIZE);
    assert_eq!((of_short.text("n7", 0).len(), of_short.count(&SUCCESS)), (300_007, 1));
    warm.nothing_is_left();
}

#[test]
fn streams_are_told_apart() {
    let warm = Warm::new();
    let spawned = warm.spawn(&warm.script("echo out; echo err >&2").hosts("n5"));
    let (mut streams, mut is_done) = (Vec::new(), false);
    while !is_done {
        match warm.front.next_event(TIMEOUT).unwrap() {
            Event::CommandOutput { stream, bytes, .. } => streams.push((stream, bytes)),
            Event::CommandDone { command, .. } => is_done = command == spawned.id(),
            _ => {}
        }
    }
    streams.sort();
    assert_eq!(streams, [(Stream::Out, b"out\n".to_vec()), (Stream::Err, b"err\n".to_vec())]);
    warm.nothing_is_left();
}

#[test]
fn a_program_that_cannot_be_started_is_an_outcome_with_its_reason() {
    let warm = Warm::new();
    let spawned = warm.spawn(&Command::new("/no/such/program"));
    let heard = warm.heard(spawned.id());
    for outcome in heard.outcomes.values() {
        let ProcessOutcome::NotStarted(why) = outcome else { panic!("{outcome:?}") };
        assert!(why.contains("/no/such/program: No such file"), "{why}");
    }
    assert_eq!(heard.outcomes.len(), SIZE);
    assert_eq!(warm.run("exit 0").count(&SUCCESS), SIZE, "the session goes on");
    warm.nothing_is_left();
}

#[test]
fn a_signal_goes_to_the_processes_of_one_command_on_the_hosts_that_are_meant() {
    let warm = Warm::new();
    let script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done";
    let (first, second) = (warm.spawn(&warm.script(script)), warm.spawn(&warm.script("exec sleep 1000")));
    let mut heard = Heard::default();
    while heard.texts.len() < SIZE {
        heard.note(first.id(), warm.front.next_event(TIMEOUT).unwrap());
    }
    first.kill_on(&[HostIndex(2), HostIndex(9)], 15).unwrap();
    while heard.outcomes.len() < 2 {
        heard.note(first.id(), warm.front.next_event(TIMEOUT).unwrap());
    }
    let ended: Vec<_> = heard.outcomes.keys().map(|(host, _)| host.as_str()).collect();
    assert_eq!((ended, heard.count(&ProcessOutcome::Exited(Exit::Code(7)))), (vec!["n2", "n9"], 2));
    first.kill(9).unwrap();
    while !heard.is_done {
        heard.note(first.id(), warm.front.next_event(TIMEOUT).unwrap());
    }
    assert_eq!(heard.count(&ProcessOutcome::Exited(Exit::Signal(9))), SIZE - 2);
    assert!(matches!(first.kill(65), Err(Error::NoSignal(65))));
    second.kill(2).unwrap();
    assert_eq!(warm.heard(second.id()).count(&ProcessOutcome::Exited(Exit::Signal(2))), SIZE);
    warm.nothing_is_left();
}

#[test]
fn late_processes_are_killed_and_their_hosts_are_named() {
    let warm = Warm::new();
    let script = "case $LIBI_HOST in n4|n10) trap '' TERM INT; sleep 1000 & exec sleep 1000;; esac";
    let began = Instant::now();
    let spawned = warm.spawn(&warm.script(script).timeout(Duration::from_millis(700)));
    let heard = warm.heard(spawned.id());
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    assert_eq!((heard.count(&SUCCESS), heard.count(&ProcessOutcome::TimedOut)), (SIZE - 2, 2));
    let report = spawned.wait(TIMEOUT).unwrap();
    assert_eq!(report.late_hosts(), ["n4", "n10"]);
    eventually("the late processes have ended", || warm.lab.living().is_empty());
    warm.nothing_is_left();
}

#[test]
fn a_killed_agent_costs_its_host_and_those_below_and_the_session_goes_on() {
    let warm = Warm::new();
    let agent = warm.agent_of("n11");
    let spawned = warm.spawn(&warm.script("[ $LIBI_HOST = n11 ] && exec sleep 1000; exit 0"));
    let mut heard = Heard::default();
    eventually("the last process runs", || warm.lab.living().len() == 1);
    kill(agent, 9);
    while !heard.is_done || heard.lost.is_empty() {
        heard.note(spawned.id(), warm.front.next_event(TIMEOUT).unwrap());
    }
    assert_eq!((heard.count(&SUCCESS), heard.lost.as_slice()), (SIZE - 1, &["n11".to_owned()][..]));
    let report = spawned.wait(TIMEOUT).unwrap();
    assert_eq!(report.lost_hosts(), ["n11"]);
    eventually("its process was killed", || warm.lab.living().is_empty());
    assert_eq!(warm.session.live_hosts(), (0..11).map(HostIndex).collect::<Vec<_>>());
    let refused = warm.session.spawn(&Command::new("true").hosts("n[10-11]"));
    assert!(matches!(refused, Err(Error::NotInSession(host)) if host == "n11"));
    assert_eq!(warm.run("exit 0").count(&SUCCESS), SIZE - 1);
    warm.nothing_is_left();
}

#[test]
fn processes_die_with_the_session_and_with_its_front_end() {
    let ignoring = "trap '' TERM INT HUP; echo up; sleep 1000 & while :; do sleep 0.05; done";
    for ends in [true, false] {
        let warm = Warm::new();
        let spawned = warm.spawn(&warm.script(ignoring));
        let mut heard = Heard::default();
        while heard.texts.len() < SIZE {
            heard.note(spawned.id(), warm.front.next_event(TIMEOUT).unwrap());
        }
        if ends {
            warm.session.terminate(Duration::from_millis(100)).unwrap();
            let heard = warm.heard(spawned.id());
            assert_eq!(heard.outcomes.len(), SIZE, "{heard:?}");
            assert!(matches!(warm.session.spawn(&Command::new("true")), Err(Error::Closed)));
        }
        warm.nothing_is_left();
    }
}

#[test]
fn a_command_needs_agents_and_a_session_that_is_up() {
    let front = FrontEnd::new().unwrap();
    let lab = Lab::new();
    let words = ["join", "finish:20000"];
    let session = front.launch(&lab.members("a,b", &words), &LaunchOptions::local()).unwrap();
    assert!(matches!(session.spawn(&Command::new("true")), Err(Error::NoAgents)));
    assert!(matches!(session.spawn(&Command::new("a\0b")), Err(Error::Distribution(_))));
    drop((session, front));
    let warm = Warm::new();
    let wrong = warm.session.spawn(&Command::new("true").hosts("n["));
    assert!(matches!(wrong, Err(Error::Distribution(_))));
    assert!(status(warm.agent_of("n0"), "Name").is_some());
    warm.nothing_is_left();
}

#[test]
fn commands_run_beside_the_programs_of_a_session_and_after_them() {
    let lab = Lab::new();
    let front = FrontEnd::new().unwrap();
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    let options = LaunchOptions::local().agent(agent).programs(Programs::Any);
    let session = front.launch(&lab.program("/bin/cat", "a,b", &[]), &options).unwrap();
    session.wait_done(TIMEOUT).unwrap();
    let spawned = session.spawn(&Command::new("true")).unwrap();
    let report = spawned.wait(TIMEOUT).unwrap();
    assert!(report.is_success() && report.processes().len() == 2, "{report}");
    drop((session, front));
    lab.is_empty_within(SOON);
}
