//! Sessions that outlive their front end: a keeper launches them, and front ends come and go.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use libi::{
    Agent, CommError, Command, Detached, Error, Event, Exit, FrontEnd, LaunchOptions, OnLoss, OsBytes,
    Output, Policy, Programs, Rank, RestartError, Session, Stage, StandardInput, Stream,
};
use libi_testkit::local::{Heard, Lab, SOON, TIMEOUT, eventually, kill, launch_with, ms};
use libi_testkit::programs;
use libi_testkit::roles::Front;

const LONG: Duration = Duration::from_secs(600);

/// The options of a session that waits for another front end so long.
fn detached_for(lab: &Lab, limit: Duration) -> LaunchOptions {
    let detached = Detached::new(lab.path("ticket"), limit).program(programs::agent());
    LaunchOptions::local().detached(detached)
}

fn detached(lab: &Lab) -> LaunchOptions {
    detached_for(lab, LONG)
}

fn attach(lab: &Lab, front: &FrontEnd) -> Session {
    front.attach(lab.path("ticket"), TIMEOUT).unwrap_or_else(|error| panic!("{error}"))
}

/// Why a session cannot be had.
fn refusal(lab: &Lab, front: &FrontEnd) -> String {
    match front.attach(lab.path("ticket"), TIMEOUT) {
        Err(error @ Error::NotAttached { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it can be had"),
    }
}

/// The process that keeps the session, as the ticket file says.
fn keeper(lab: &Lab) -> i32 {
    let text = std::fs::read_to_string(lab.path("ticket")).unwrap();
    let pid = text.lines().find_map(|line| line.strip_prefix("pid "));
    pid.unwrap().parse().unwrap()
}

/// Neither members nor the keeper nor its file are left.
fn nothing_is_left(lab: &Lab, keeper: i32) {
    lab.is_empty_within(SOON);
    eventually("the ticket file is removed", || !lab.has("ticket"));
    eventually("the keeper has ended", || !std::path::Path::new(&format!("/proc/{keeper}")).exists());
}

/// Waits for an event.
fn until(front: &FrontEnd, what: &str, mut is_it: impl FnMut(&Event) -> bool) -> Event {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match front.next_event(left) {
            Some(event) if is_it(&event) => return event,
            Some(_) => {}
            None => panic!("waited in vain for {what}"),
        }
    }
}

#[test]
fn a_session_goes_on_when_its_front_end_has_left() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let go = format!("await:{}", lab.path("go"));
    let words = ["join", "out:one", &go, "talk:allreduce:3", "out:two"];
    let session = launch_with(&front, &[lab.members("n[1-3]:2", &words)], &detached(&lab));
    let (report, keeper) = (session.report().unwrap(), keeper(&lab));
    assert!(report.is_up() && report.hosts().len() == 3);
    drop(session);
    drop(front);
    let front = FrontEnd::new().unwrap();
    let session = attach(&lab, &front);
    assert_eq!((session.size(), session.stage(), session.missed_output()), (6, Stage::Up, 0));
    assert_eq!(session.report().unwrap().to_string(), report.to_string());
    assert_eq!(session.wait_up(TIMEOUT).unwrap().hosts().len(), 3);
    assert_eq!(session.layout(), &session.current_layout());
    lab.touch("go");
    let heard = Heard::all(&front);
    for rank in 0..6 {
        assert_eq!((&*heard.out(rank), heard.exits.get(&rank)), ("one\ntwo\n", Some(&Exit::Code(0))));
    }
    assert_eq!(session.ended().len(), 6);
    drop(session);
    nothing_is_left(&lab, keeper);
    assert!(refusal(&lab, &front).contains("cannot be read"), "{}", refusal(&lab, &front));
}

#[test]
fn a_session_goes_on_when_its_front_end_is_killed_and_the_next_hears_the_rest() {
    let lab = Lab::new();
    let words = ["join", "out:{rank}", &format!("await:{}", lab.path("go")), "talk:barrier", "exit:7"];
    for moment in [0, 5, 20, 60] {
        let mut first = Front::start_detached(&lab, &lab.path("ticket"), "n[1-2]", &words);
        if moment == 0 {
            first.until("the session is up", |front| front.has_said("up"));
        } else {
            eventually("there is a keeper", || lab.has("ticket"));
            std::thread::sleep(ms(moment)); // in the middle of the launch
        }
        let keeper = keeper(&lab);
        first.kill();
        let front = FrontEnd::new().unwrap();
        let session = match front.attach(lab.path("ticket"), TIMEOUT) {
            Ok(session) => session,
            // It was killed before the launch: a keeper without a session does not wait for long.
            Err(error) => {
                assert!(error.to_string().contains("has not been launched"), "{error}");
                kill(keeper, libc::SIGTERM);
                nothing_is_left(&lab, keeper);
                continue;
            }
        };
        session.wait_up(TIMEOUT).unwrap();
        lab.touch("go");
        let heard = Heard::all(&front);
        assert_eq!(heard.exits.values().collect::<Vec<_>>(), [&Exit::Code(7); 4], "{}", heard.described());
        for rank in 0..4 {
            // The first may have taken it already, and printed it or not.
            assert!(["", &format!("{rank}\n")].contains(&&*heard.out(rank)), "{}", heard.described());
        }
        drop(session);
        nothing_is_left(&lab, keeper);
        std::fs::remove_file(lab.path("go")).unwrap();
    }
}

#[test]
fn a_session_ends_when_there_has_been_no_front_end_for_its_time() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session =
        launch_with(&front, &[lab.members("n[1-3]", &["join", "wait"])], &detached_for(&lab, ms(1500)));
    let keeper = keeper(&lab);
    drop(session);
    let left = Instant::now();
    let session = attach(&lab, &front);
    std::thread::sleep(ms(2000)); // longer than that, with a front end
    assert_eq!((session.stage(), lab.programs()), (Stage::Up, 3));
    drop(session);
    let again = Instant::now();
    nothing_is_left(&lab, keeper);
    assert!(again.elapsed() >= ms(1400), "{:?} after {:?}", again.elapsed(), left.elapsed());
}

#[test]
fn a_session_that_is_terminated_is_over_for_all() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch_with(&front, &[lab.members("n[1-3]:2", &["join", "wait"])], &detached(&lab));
    let keeper = keeper(&lab);
    session.terminate(ms(500)).unwrap();
    assert_eq!(session.stage(), Stage::Over);
    drop(session);
    nothing_is_left(&lab, keeper);
}

#[test]
fn a_keeper_that_is_told_to_end_ends_its_session_and_says_so() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch_with(&front, &[lab.members("n[1-2]", &["join", "wait"])], &detached(&lab));
    let keeper = keeper(&lab);
    kill(keeper, libc::SIGHUP);
    kill(keeper, libc::SIGINT);
    kill(keeper, libc::SIGTERM);
    let event = until(&front, "its end", |event| matches!(event, Event::Revoked { .. }));
    assert!(event.to_string().contains("told to end"), "{event}");
    let heard = Heard::all(&front);
    assert_eq!(heard.exits.values().collect::<Vec<_>>(), [&Exit::Signal(15); 2]);
    nothing_is_left(&lab, keeper);
    assert_eq!(session.stage(), Stage::Over);
}

#[test]
fn a_keeper_that_is_killed_takes_its_session_with_it_and_the_front_end_hears_of_it() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch_with(&front, &[lab.members("n[1-2]:2", &["join", "wait"])], &detached(&lab));
    let waiting = session.recv();
    let keeper = keeper(&lab);
    kill(keeper, libc::SIGKILL);
    let event = until(&front, "its end", |event| matches!(event, Event::Revoked { .. }));
    assert!(event.to_string().contains(&format!("process {keeper} on ")), "{event}");
    until(&front, "the last event", |event| matches!(event, Event::Done { .. }));
    assert_eq!(waiting.wait(TIMEOUT), Err(CommError::Ended));
    assert_eq!(session.stage(), Stage::Over);
    lab.is_empty_within(SOON);
    // The lock of the file is gone a little later than the connection.
    eventually("that is known", || refusal(&lab, &front).contains("has ended"));
    // The file is there, and another session may have it.
    let session = launch_with(&front, &[lab.members("n1", &["join"])], &detached(&lab));
    session.wait_done(TIMEOUT).unwrap();
}

#[test]
fn the_last_front_end_has_the_session() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch_with(&front, &[lab.members("n[1-2]", &["join", "talk:orders"])], &detached(&lab));
    let keeper = keeper(&lab);
    let waiting = session.recv();
    let second = FrontEnd::new().unwrap();
    let taken = attach(&lab, &second);
    let event = until(&front, "its end", |event| matches!(event, Event::Revoked { .. }));
    assert!(event.to_string().contains("another front end"), "{event}");
    assert_eq!(waiting.wait(TIMEOUT), Err(CommError::Ended));
    assert_eq!(session.send("late").wait(TIMEOUT), Err(CommError::Ended));
    drop(session);
    taken.broadcast("end").wait(TIMEOUT).unwrap();
    assert_eq!(Heard::all(&second).exits.len(), 2);
    drop(taken);
    nothing_is_left(&lab, keeper);
}

#[test]
fn messages_arrive_once_and_in_order_whoever_has_the_session() {
    let lab = Lab::new();
    let mut front = FrontEnd::new().unwrap();
    let members = lab.members("n[1-3]:2", &["join", "talk:orders"]);
    let mut session = launch_with(&front, &[members], &detached(&lab));
    let keeper = keeper(&lab);
    // Orders whose answers have not been taken, the oldest first.
    let mut open = std::collections::VecDeque::new();
    let check = |answers: Vec<libi::Bytes>, order: &str| {
        let texts: Vec<_> =
            answers.iter().map(|answer| String::from_utf8_lossy(answer).into_owned()).collect();
        let expected: Vec<_> = (0..6).map(|rank| format!("{rank}:{order}")).collect();
        assert_eq!(texts, expected);
    };
    for nth in 0..24 {
        let order = format!("order {nth}");
        session.broadcast(order.clone()).wait(TIMEOUT).unwrap();
        open.push_back(order);
        let mut pending = None;
        match nth % 4 {
            0 => pending = Some(session.gather()), // it may have arrived or not when this one leaves
            1 | 2 => {}
            _ => open.drain(..).for_each(|order| check(session.gather().wait(TIMEOUT).unwrap(), &order)),
        }
        drop(session);
        drop(front);
        if let Some(Ok(answers)) = pending.and_then(|mut pending| pending.poll()) {
            check(answers, &open.pop_front().unwrap());
        }
        front = FrontEnd::new().unwrap();
        session = attach(&lab, &front);
    }
    session.broadcast("end").wait(TIMEOUT).unwrap();
    let heard = Heard::all(&front);
    assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{}", heard.described());
    drop(session);
    nothing_is_left(&lab, keeper);
}

#[test]
fn output_is_kept_for_the_next_front_end_and_members_do_not_wait_for_it() {
    let lab = Lab::new();
    let (few, many) = (100_000, 1_500_000);
    let await_file = |file: &str| format!("await:{}", lab.path(file));
    let words = ["join", &format!("flood:{few}"), &await_file("go"), &format!("flood:{many}")];
    let front = FrontEnd::new().unwrap();
    let members = lab.members("n[1-2]:2", &words);
    drop(launch_with(&front, &[members], &detached(&lab)));
    let keeper = keeper(&lab);
    let session = attach(&lab, &front);
    let mut heard = Heard::default();
    heard.until(&front, "the first output", |heard| heard.bytes() >= 4 * few);
    assert_eq!((heard.bytes(), session.missed_output()), (4 * few, 0));
    drop(session);
    lab.touch("go");
    eventually("all members have ended", || lab.programs() == 0);
    let session = attach(&lab, &front);
    let heard = Heard::all(&front);
    let (bytes, missed) = (heard.bytes() as u64, session.missed_output());
    assert_eq!(bytes + missed, 4 * many as u64);
    assert!(missed > 0 && bytes > 900_000, "{bytes} bytes, {missed} missed");
    assert_eq!(heard.exits.len(), 4);
    drop(session);
    nothing_is_left(&lab, keeper);
}

#[test]
fn output_files_are_written_without_a_front_end() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = detached(&lab).output(Output::Files(lab.path("out").into()));
    let words = ["join", &format!("await:{}", lab.path("go")), "out:late"];
    drop(launch_with(&front, &[lab.members("n[1-2]", &words)], &options));
    lab.touch("go");
    for rank in 0..2 {
        let file = lab.path(&format!("out/{rank}.out"));
        eventually("it is written", || std::fs::read_to_string(&file).is_ok_and(|text| text == "late\n"));
    }
    let session = attach(&lab, &front);
    assert_eq!(Heard::all(&front).exits.len(), 2);
    assert_eq!(session.output_error(), None);
}

#[test]
fn standard_input_goes_on_with_the_next_front_end() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = detached(&lab).input(StandardInput::Master);
    let session = launch_with(&front, &[lab.members("n1", &["join", "read"])], &options);
    session.write(&[b'a'; 300_000], TIMEOUT).unwrap();
    drop(session);
    let session = attach(&lab, &front);
    session.write(&[b'b'; 400_000], TIMEOUT).unwrap();
    session.close_input();
    let heard = Heard::all(&front);
    assert!(heard.out(0).contains("700000"), "{}", heard.described());
}

#[test]
fn commands_run_in_a_session_whoever_has_it() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    let options = detached(&lab).agent(agent).programs(Programs::None);
    let session = launch_with(&front, &[lab.program("none", "n[1-3]", &[])], &options);
    let first = session.spawn(&Command::new("sh").args(["-c", "echo $LIBI_HOST; exit 3"])).unwrap();
    let report = first.wait(TIMEOUT).unwrap();
    assert_eq!(report.processes().len(), 3, "{report}");
    let script = format!("until [ -e {} ]; do sleep 0.01; done; echo late", lab.path("go"));
    let late = session.spawn(&Command::new("sh").args(["-c", &script]).hosts("n2")).unwrap();
    let late_id = late.id();
    drop((first, late, session));
    let session = attach(&lab, &front);
    let next = session.spawn(&Command::new("true")).unwrap();
    assert!(next.id() > late_id);
    assert!(next.wait(TIMEOUT).unwrap().is_success());
    lab.touch("go");
    until(
        &front,
        "its output",
        |event| matches!(event, Event::CommandOutput { command, bytes, .. } if *command == late_id && bytes == b"late\n"),
    );
    until(
        &front,
        "its end",
        |event| matches!(event, Event::CommandDone { command, .. } if *command == late_id),
    );
    session.terminate(ms(100)).unwrap();
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn a_session_grows_and_members_are_restarted_whoever_has_it() {
    let (lab, mut front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = detached(&lab).on_loss(OnLoss::Continue).policy(Policy::All);
    let words = ["join", "out:{rank}", &format!("await:{}", lab.path("go"))];
    let session = launch_with(&front, &[lab.members("n[1-2]", &words)], &options);
    let growth = session.add(&lab.members("m1:2", &words)).unwrap();
    assert_eq!((growth.ranks.clone(), session.size()), (2..4, 4));
    drop(session);
    let session = attach(&lab, &front);
    assert_eq!((session.size(), session.layout().size(), session.current_layout().hosts().len()), (4, 2, 3));
    let growth = session.add(&lab.members("m2", &words)).unwrap();
    assert_eq!((growth.ranks.clone(), session.size()), (4..5, 5));
    assert_eq!(session.report().unwrap().hosts().len(), 4);
    assert!(matches!(session.restart(Rank(9), TIMEOUT), Err(Error::NotRestarted { .. })));
    assert_eq!(lab.programs(), 5);
    drop(session);
    drop(front); // it has left when this returns
    lab.touch("go");
    lab.is_empty_within(SOON);
    front = FrontEnd::new().unwrap();
    let session = attach(&lab, &front);
    assert_eq!(session.ended().len(), 5);
    // All have ended, so that none can be restarted.
    let error = session.restart(Rank(1), TIMEOUT).unwrap_err();
    assert!(matches!(&error, Error::NotRestarted { why: RestartError::Ending, .. }), "{error}");
    session.terminate(ms(100)).unwrap();
}

#[test]
fn a_member_is_restarted_by_the_next_front_end() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = detached(&lab).on_loss(OnLoss::Continue);
    let words =
        ["join", "only:1:await:GO", "only:1:exit:5", "wait"].map(|word| word.replace("GO", &lab.path("go")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    drop(launch_with(&front, &[lab.members("n[1-3]", &words)], &options));
    lab.touch("go");
    let session = attach(&lab, &front);
    eventually("it has ended", || session.ended().contains(Rank(1)));
    std::fs::remove_file(lab.path("go")).unwrap();
    session.restart(Rank(1), TIMEOUT).unwrap();
    assert!(session.ended().is_empty());
    until(&front, "the event", |event| matches!(event, Event::Restarted { rank: Rank(1), .. }));
    session.set_on_loss(OnLoss::End).unwrap();
    drop(session);
    let session = attach(&lab, &front);
    lab.touch("go");
    // What follows a loss stays as it was chosen last.
    session.wait_done(TIMEOUT).unwrap();
    assert_eq!(session.ended().len(), 3);
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn a_launch_that_fails_is_reported_as_without_a_keeper() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let members = [lab.program("/no/such/program", "n[1-2]", &[])];
    let error = front.launch_all(&members, &detached(&lab)).err().unwrap();
    let Error::NotLaunched(report) = &error else { panic!("{error}") };
    assert_eq!(report.failed().count(), 2);
    let alone = front.launch_all(&members, &LaunchOptions::local()).err().unwrap();
    let cause =
        |error: &Error| error.to_string().lines().nth(1)?.split_once(", after").map(|it| it.0.to_owned());
    assert!(cause(&error).is_some());
    assert_eq!(cause(&error), cause(&alone));
    eventually("the ticket file is removed", || !lab.has("ticket"));
}

#[test]
fn what_cannot_be_kept_is_refused_before_anything_is_started() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let members = lab.members("n1", &["join", "wait"]);
    let refused = |options: &LaunchOptions| front.launch(&members, options).err().unwrap().to_string();
    let keeper = |program: &str| Detached::new(lab.path("ticket"), LONG).program(program);
    let with = |detached: Detached| LaunchOptions::local().detached(detached);
    let unnamed = Detached::new(lab.path("ticket"), LONG);
    assert!(refused(&with(unnamed)).contains("serve_if_asked"));
    assert!(refused(&with(keeper("/bin/true"))).contains("/bin/true has ended at once"));
    assert!(refused(&with(keeper("/no/such"))).contains("/no/such"));
    let elsewhere = refused(&with(keeper(programs::agent()).host("h1")));
    assert!(elsewhere.contains("local cannot start a keeper on h1"), "{elsewhere}");
    assert!(refused(&with(keeper(programs::agent()).host("h[1-2]"))).contains("is not one host"));
    assert!(refused(&with(keeper(programs::agent()).host("h[1"))).contains("h[1: "));
    let nowhere = Detached::new(lab.path("no/ticket"), LONG).program(programs::agent());
    let text = refused(&with(nowhere));
    assert!(text.contains("cannot write the ticket file") && text.contains("no/ticket"), "{text}");
    let mut other = members.clone();
    other = other.session(libi::SessionId(1));
    let two = front.launch_all(&[members.clone(), other], &detached(&lab)).err().unwrap();
    assert!(matches!(two, Error::OneDetached), "{two}");
    assert_eq!((lab.living().len(), lab.files()), (0, 0));
    let session = launch_with(&front, std::slice::from_ref(&members), &detached(&lab));
    let text = refused(&detached(&lab));
    assert!(text.contains("a session is kept that has this ticket file"), "{text}");
    assert_eq!(session.stage(), Stage::Up);
    session.terminate(ms(100)).unwrap();
}

#[test]
fn strangers_do_not_get_a_session_and_do_not_disturb_it() {
    use std::io::{Read, Write};
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch_with(&front, &[lab.members("n[1-2]", &["join", "talk:orders"])], &detached(&lab));
    let text = std::fs::read_to_string(lab.path("ticket")).unwrap();
    let address = text.lines().find_map(|line| line.strip_prefix("address ")).unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    for garbage in [&b""[..], b"GET / HTTP/1.0\r\n\r\n", &[0; 4096], &[0xff; 200_000]] {
        let mut stranger = std::net::TcpStream::connect(address).unwrap();
        let _ = stranger.write_all(garbage);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        stranger.set_read_timeout(Some(TIMEOUT)).unwrap();
        assert_eq!(stranger.read(&mut [0; 64]).unwrap_or(0), 0, "no byte is answered");
    }
    // A file with another secret.
    let last = text.trim_end().chars().last().unwrap();
    let other = format!(
        "{}{}\n",
        text.trim_end().trim_end_matches(last),
        if last == '0' { "1".repeat(9) } else { "0".repeat(9) }
    );
    let secret = other.lines().last().unwrap().chars().take("secret ".len() + 64).collect::<String>();
    let head: String =
        text.lines().filter(|line| !line.starts_with("secret")).map(|line| format!("{line}\n")).collect();
    std::fs::write(lab.path("forged"), head + &secret + "\n").unwrap();
    std::fs::set_permissions(lab.path("forged"), PermissionsExt::from_mode(0o600)).unwrap();
    let stranger = FrontEnd::new().unwrap();
    let error = stranger.attach(lab.path("forged"), ms(500)).err().unwrap();
    assert!(matches!(error, Error::NotAttached { .. }), "{error}");
    std::fs::set_permissions(lab.path("ticket"), PermissionsExt::from_mode(0o644)).unwrap();
    assert!(refusal(&lab, &stranger).contains("mode is 644"));
    session.broadcast("end").wait(TIMEOUT).unwrap();
    assert_eq!(Heard::all(&front).exits.len(), 2);
    assert!(Heard::default().text(0, Stream::Out).is_empty());
}
