//! SIGKILL of launching processes, and launches that are given up: nothing is left on any host,
//! whether the session was up or on its way.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libi::{
    Agent, Delivery, Engine, Exit, FrontEnd, LaunchOptions, LinkPolicy, OnLoss, OsBytes, Policy, Programs,
    Shape, SshClient, Strategy,
};

use crate::{drawn_clients, options};
use libi_testkit::labs::{MARK, Marked, Process, Sshd, within};
use libi_testkit::local::{Heard, launch_with, status};
use libi_testkit::processes::environment;
use libi_testkit::programs;

const HOSTS: usize = 24;
const LIST: &str = "n[0-23]:2";
const ROLE: &str = "LIBI_TEST_ROLE";
const CLIENT: &str = "LIBI_TEST_CLIENT";
const TIMEOUT: Duration = Duration::from_secs(100);

/// A front end in a process of its own; it does not survive the test.
struct Front(Child);

impl Front {
    fn start(mark: &Marked, client: SshClient) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "--test-threads=1", "kills::plays_the_front_end"]);
        command.env(ROLE, &mark.0).env(CLIENT, client.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "is played for other tests, in a process of its own"]
fn plays_the_front_end() {
    let Ok(mark) = std::env::var(ROLE) else { return };
    // The laboratory is the other process's, and so is what is left.
    let mark = std::mem::ManuallyDrop::new(Marked(mark));
    let lab = Sshd::of_another_process();
    let front = FrontEnd::new().unwrap();
    let members = mark.program(&lab.member(), LIST, &["join", "wait"]);
    let client = std::env::var(CLIENT).unwrap().parse().unwrap();
    let _session = front.start_all(&[members], &options(lab.ssh("main", client))).unwrap();
    while front.next_event(Duration::from_secs(600)).is_some() {}
}

fn leaders(mark: &Marked) -> Vec<Process> {
    mark.processes().into_iter().filter(|process| process.is_leader).collect()
}

/// When so many members are there, which they may be long before the session is up.
fn front_end_is_killed_when(members: usize) {
    let Some(_lab) = Sshd::up() else { return };
    for client in drawn_clients() {
        let mark = Marked::new();
        let front = Front::start(&mark, *client);
        within(TIMEOUT, &format!("{members} members are there"), || {
            mark.processes().iter().filter(|process| process.is_member).count() >= members
        });
        drop(front);
        mark.nothing_is_left();
    }
}

#[test]
fn nothing_survives_a_front_end_that_is_killed_when_its_first_host_is_up() {
    front_end_is_killed_when(1);
}

#[test]
fn nothing_survives_a_front_end_that_is_killed_in_the_midst_of_its_launch() {
    front_end_is_killed_when(HOSTS / 2);
}

#[test]
fn nothing_survives_a_front_end_that_is_killed_when_all_is_up() {
    front_end_is_killed_when(2 * HOSTS);
}

#[test]
fn what_hangs_on_a_leader_that_is_killed_goes_with_it_and_the_rest_with_the_session() {
    let Some(lab) = Sshd::up() else { return };
    drawn_clients().iter().for_each(|client| what_hangs_on_a_leader_goes_with_it(&lab, *client));
}

fn what_hangs_on_a_leader_goes_with_it(lab: &Sshd, client: SshClient) {
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let members = mark.program(&lab.member(), LIST, &["join", "wait"]);
    let options = options(lab.ssh("main", client)).policy(Policy::AtLeast(1)).settle(Some(Duration::MAX));
    let session = front.launch(&members, &options).unwrap();
    let report = session.report().unwrap();
    assert_eq!(report.joined(), HOSTS, "{report}");
    let leaders = leaders(&mark);
    assert_eq!(leaders.len(), HOSTS);
    // Neither the first, which may be the master, nor one that certainly launches no host.
    leaders[HOSTS / 2].kill();
    let mut lost = Vec::new();
    within(TIMEOUT, "the loss is reported", || {
        while let Some(event) = front.next_event(Duration::from_millis(10)) {
            if let libi::Event::Exited { .. } | libi::Event::Lost { .. } = event {
                lost.push(event);
            }
        }
        !lost.is_empty()
    });
    drop(session);
    mark.nothing_is_left();
}

/// The host of a chain whose leader is killed.
const VICTIM: u32 = 3;

/// Kills the process that leads one of a chain of hosts while members make calls. Its ssh ends with it, and the
/// servers that have started the hosts below end their sessions: that does not end the hosts, which find another
/// parent.
fn a_killed_leader_costs_its_host_alone(
    lab: &Sshd,
    change: impl Fn(LaunchOptions) -> LaunchOptions,
    kill_leader: fn(&Marked),
) {
    for client in drawn_clients() {
        a_kill_costs_one_host(lab, change(options(lab.ssh("main", *client))), kill_leader);
    }
}

fn a_kill_costs_one_host(lab: &Sshd, options: LaunchOptions, kill_leader: fn(&Marked)) {
    const HOSTS: u32 = 6;
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let words = ["join", "talk:survive:2000:7:9999", "finish:60000"];
    let members = mark.program(&lab.member(), &format!("n[0-{}]", HOSTS - 1), &words);
    let options = options.on_loss(OnLoss::Continue).strategy(Strategy::Static(Shape::Chain));
    let session = launch_with(&front, &[members], &options);
    let mut heard = Heard::default();
    heard.until(&front, "all make calls", |heard| (0..HOSTS).all(|rank| heard.out(rank).contains('\n')));
    kill_leader(&mark);
    heard.until(&front, "all have ended", |heard| heard.done);
    let lost: Vec<u32> = heard.lost.keys().map(|host| host.0).collect();
    assert_eq!(lost, [VICTIM], "{}", heard.described());
    for rank in (0..HOSTS).filter(|rank| !lost.contains(rank)) {
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {}", heard.described());
        assert_eq!(heard.out(rank), heard.out(0), "rank {rank}");
    }
    drop((session, front));
    mark.nothing_is_left();
}

fn kill_leader(mark: &Marked) {
    let mut leaders = leaders(mark);
    leaders.sort_by_key(|leader| leader.pid); // in a chain they are started one after the other
    leaders[VICTIM as usize].kill();
}

/// The leader is an agent: the one that has started the member on that host.
fn kill_agent(mark: &Marked) {
    let host = format!("LIBI_HOST=n{VICTIM}");
    let is_there = |process: &Process| {
        let environment = environment(process.pid).unwrap_or_default();
        environment.split('\0').any(|variable| variable == host)
    };
    mark.processes().into_iter().find(is_there).expect("each host has a member").kill_parent();
}

#[test]
fn a_leader_that_is_killed_while_calls_go_on_costs_its_host_alone() {
    let Some(lab) = Sshd::up() else { return };
    a_killed_leader_costs_its_host_alone(&lab, |options| options.engine(Engine::Apart), kill_leader);
}

#[test]
fn where_links_stay_in_the_channels_of_ssh_a_killed_leader_costs_its_host_alone_as_well() {
    let Some(lab) = Sshd::up() else { return };
    let apart = |options: LaunchOptions| options.engine(Engine::Apart).links(LinkPolicy::Channel);
    a_killed_leader_costs_its_host_alone(&lab, apart, kill_leader);
}

/// The helpers that reach the hosts below it run from files that are sent there again.
#[test]
fn a_killed_agent_that_was_sent_to_its_host_costs_that_alone() {
    let Some(lab) = Sshd::up() else { return };
    let file = std::fs::read(programs::agent()).unwrap();
    let agent = Agent::new(OsBytes::try_from("/no/such/libi-agent").unwrap()).delivery(Delivery::of(file));
    let sent = |options: LaunchOptions| {
        options.agent(agent.clone()).programs(Programs::Any).links(LinkPolicy::Channel)
    };
    a_killed_leader_costs_its_host_alone(&lab, sent, kill_agent);
}

#[test]
fn a_front_end_that_ends_in_the_midst_of_its_launch_leaves_nothing() {
    let Some(lab) = Sshd::up() else { return };
    drawn_clients().iter().for_each(|client| a_front_end_that_ends_leaves_nothing(&lab, *client));
}

fn a_front_end_that_ends_leaves_nothing(lab: &Sshd, client: SshClient) {
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let members = mark.program(&lab.member(), LIST, &["join", "wait"]);
    let session = front.start_all(&[members], &options(lab.ssh("main", client))).unwrap();
    within(TIMEOUT, "some members are there", || leaders(&mark).len() >= HOSTS / 3);
    drop(session);
    mark.nothing_is_left();
    assert!(std::env::var_os(MARK).is_none(), "this process would count");
}

#[test]
fn a_program_that_never_joins_and_hears_nothing_ends_with_the_launch_that_is_given_up() {
    let Some(lab) = Sshd::up() else { return };
    drawn_clients().iter().for_each(|client| a_program_that_hears_nothing_ends(&lab, *client));
}

fn a_program_that_hears_nothing_ends(lab: &Sshd, client: SshClient) {
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let program = mark.program("/bin/sleep", "n[0-5]", &["1000"]);
    let options = options(lab.ssh("main", client)).deadline(Duration::from_secs(5));
    let session = front.start(&program, &options).unwrap();
    let sleeps = || {
        let named = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        mark.processes().iter().filter(|process| named(process.pid) == "sleep\n").count()
    };
    within(TIMEOUT, "one that was launched sleeps", || sleeps() > 0);
    let libi::Error::NotLaunched(report) = session.wait_up(TIMEOUT).unwrap_err() else {
        panic!("it was not launched, and not that is said")
    };
    assert_eq!(report.joined(), 0, "{report}");
    drop(session);
    mark.nothing_is_left();
}

#[test]
fn who_was_released_lives_on_when_nothing_else_is_left() {
    let Some(lab) = Sshd::up() else { return };
    drawn_clients().iter().for_each(|client| released_members_live_on(&lab, *client));
}

fn released_members_live_on(lab: &Sshd, client: SshClient) {
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let end = lab.path(&format!("end-{}", mark.0));
    let words = ["join", "finalize:60000", &format!("await:{end}")];
    let session = launch_with(
        &front,
        &[mark.program(&lab.member(), "n[0-3]", &words)],
        &options(lab.ssh("main", client)),
    );
    assert_eq!(Heard::all(&front).released.len(), 4);
    drop((session, front));
    mark.processes().iter().filter(|process| !process.is_leader).for_each(Process::kill);
    let is_servers = |member: &Process| {
        let parent = status(member.pid, "PPid").unwrap_or_default();
        std::fs::read_to_string(format!("/proc/{parent}/comm")).is_ok_and(|name| name == "sshd\n")
    };
    within(TIMEOUT, "their sessions of ssh are over", || !mark.processes().iter().any(is_servers));
    assert_eq!(leaders(&mark).len(), 4);
    std::fs::write(end, "").unwrap();
    mark.nothing_is_left();
}
