use super::*;
use libi_launch::transcript::LoginError;

use crate::doctor::finding::{Noise, ProcessEnd};

const TIMEOUT: Duration = Duration::from_secs(10);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// An examination and a scripted host.
struct Scene {
    exam: Exam,
    effects: Vec<Effect>,
}

impl Scene {
    fn new(options: ExamOptions) -> Self {
        let tokens = options.addresses.iter().map(|address| format!("token{}", address.port())).collect();
        Self { exam: Exam::begin(Rc::new(options), tokens, at(0), TIMEOUT), effects: Vec::new() }
    }

    fn stdout(&mut self, text: &str, millis: u64) -> &mut Self {
        self.exam.on_stdout(text.as_bytes(), at(millis), &mut self.effects);
        self
    }

    fn tick(&mut self, millis: u64) -> &mut Self {
        self.exam.on_tick(at(millis), &mut self.effects);
        self
    }

    fn exit(&mut self, code: i32, millis: u64) -> &mut Self {
        self.exam.on_exit(ExitStatus::Code(code), at(millis), &mut self.effects);
        self
    }

    /// What has been sent since the last call.
    fn sent(&mut self) -> String {
        let sent = self.effects.drain(..).map(|effect| match effect {
            Effect::Send(text) => text,
            Effect::CloseInput => "(closed)".to_owned(),
            Effect::End => "(end)".to_owned(),
        });
        sent.collect()
    }

    /// Plays a login at 100 ms, then echoes and clocks with a millisecond each way.
    fn healthy(&mut self) -> u64 {
        self.stdout(
            "\nlibi-doctor 1\nkernel Linux 6\nmachine x86_64\nfiles 1024\nshell /bin/bash\ntool bash\n",
            100,
        );
        self.stdout("ready\n", 101);
        let mut now = 101;
        for number in 0..ECHO_COUNT {
            assert_eq!(self.sent(), format!("echo {number}\n"));
            now += 2;
            self.stdout(&format!("echo {number}\n"), now);
        }
        for number in 0..CLOCK_COUNT {
            assert_eq!(self.sent(), format!("clock {number}\n"));
            now += 2;
            // One second ahead of the local clock.
            let time = 1_700_000_001_000_000_000 + u128::from(now - 1) * 1_000_000;
            self.stdout(&format!("clock {number} {time}\n"), now);
        }
        now
    }

    fn problem(self) -> Option<(Problem, String)> {
        assert!(self.exam.is_finished());
        self.exam.finding().problem
    }
}

fn options(ports: &[u16]) -> ExamOptions {
    let addresses = ports.iter().map(|port| SocketAddr::from(([10, 0, 0, 1], *port))).collect();
    ExamOptions { addresses, epoch_ns: 1_700_000_000_000_000_000, ..ExamOptions::default() }
}

#[test]
fn a_healthy_host_is_measured_and_closed() {
    let mut scene = Scene::new(options(&[]));
    let now = scene.healthy();
    assert_eq!(scene.sent(), "end\n(closed)");
    scene.exit(0, now + 1);
    let found = scene.exam.finding();
    assert_eq!((found.problem, found.reached), (None, LoginStage::Shell));
    assert_eq!(found.round_trips, [Duration::from_millis(2); ECHO_COUNT as usize]);
    let clock = found.clock.unwrap();
    assert_eq!((clock.ahead_ns, clock.within), (1_000_000_000, Duration::from_millis(1)));
    assert_eq!(found.set_up, Some(Duration::from_millis(100)));
    assert_eq!((found.shell.as_deref(), found.files.as_deref()), (Some("/bin/bash"), Some("1024")));
}

#[test]
fn a_clock_of_whole_seconds_is_exact_to_half_a_second() {
    let mut scene = Scene::new(options(&[]));
    scene.exam.state = ExamState::Clock { number: 0, sent: at(0) };
    scene.stdout("clock 0 1700000003N\n", 10);
    let clock = scene.exam.finding.clock.unwrap();
    assert_eq!(clock.ahead_ns, 3_495_000_000);
    assert_eq!(clock.within, Duration::from_millis(505));
}

#[test]
fn of_several_addresses_all_that_work_are_known_in_the_order_of_the_list() {
    let mut scene = Scene::new(options(&[1, 2, 3]));
    let now = scene.healthy();
    assert_eq!(
        scene.sent(),
        "dial 0 10.0.0.1 1 token1\ndial 1 10.0.0.1 2 token2\ndial 2 10.0.0.1 3 token3\n"
    );
    scene.exam.on_callback(2, at(now + 3), &mut scene.effects);
    scene.exam.on_callback(1, at(now + 5), &mut scene.effects);
    // A connection that is reported as made, but whose token never arrived, does not count.
    scene.stdout("dialled 0 yes\n", now + 6);
    scene.tick(now + 502);
    assert_eq!(scene.sent(), "");
    scene.tick(now + 503);
    assert_eq!(scene.sent(), "end\n(closed)");
    let address = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
    assert_eq!(scene.exam.finding.direct, Direct::Works(vec![address(2), address(3)]));
}

#[test]
fn a_host_that_cannot_connect_has_no_problem() {
    for refused in [true, false] {
        let mut scene = Scene::new(options(&[1, 2]));
        let mut now = scene.healthy();
        scene.sent();
        if refused {
            scene.stdout("dialled 0 no\ndialled 1 no\n", now);
        } else {
            now += 2_500;
            scene.tick(now);
        }
        assert_eq!(scene.sent(), "end\n(closed)");
        assert_eq!(scene.exam.finding.direct, Direct::Blocked);
        scene.tick(now + 1_000);
        assert_eq!((scene.sent().as_str(), scene.problem()), ("(end)", None));
    }
}

#[test]
fn a_program_that_is_missing_is_a_problem() {
    let mut scene = Scene::new(ExamOptions { program: Some("./a b".to_owned()), ..options(&[1]) });
    let now = scene.healthy();
    assert_eq!(scene.sent(), "program ./a b\n");
    scene.stdout("program missing\n", now).exit(0, now);
    assert_eq!(scene.problem(), Some((Problem::Program(ProgramCheck::Missing), "./a b".to_owned())));
}

#[test]
fn what_comes_before_the_marker_is_noise() {
    let mut scene = Scene::new(options(&[]));
    // The second line is not a marker; the third looks like a reply but precedes the marker.
    scene.stdout("Welcome\u{7} to n1\nlibi-doctor 1 no\nready\nno end", 90);
    scene.healthy();
    let line = "Welcome\u{fffd} to n1".to_owned();
    assert_eq!(scene.exam.finding.noise, Noise { bytes: 15 + 17 + 6 + 7, line });
}

#[test]
fn every_failure_is_classified() {
    type Case<'a> = (&'a dyn Fn(&mut Scene), Problem, &'a str);
    let cases: [Case<'_>; 9] = [
        (
            &|scene| {
                scene.exam.on_stderr(b"ssh: connect to host n1 port 22: Connection refused\r\n", at(1));
                scene.exit(255, 2);
            },
            Problem::Login(LoginError::ConnectionRefused),
            "ssh: connect to host n1 port 22: Connection refused",
        ),
        (
            &|scene| _ = scene.stdout("This account is currently not available.\n", 1).exit(1, 2),
            Problem::Ended(ProcessEnd::Code(1)),
            "This account is currently not available.",
        ),
        (
            &|scene| {
                // Without a line terminator.
                scene.exam.on_stderr(b"sh: exec: not found", at(1));
                scene.exit(127, 2);
            },
            Problem::Ended(ProcessEnd::Code(127)),
            "sh: exec: not found",
        ),
        (&|scene| _ = scene.tick(10_000), Problem::TimedOut(LoginStage::Nothing), ""),
        (
            &|scene| {
                scene.exam.on_stderr(b"debug1: Connection established.\n", at(1));
                scene.tick(10_000);
            },
            Problem::TimedOut(LoginStage::Connection),
            "",
        ),
        (
            &|scene| _ = scene.stdout("libi-doctor 1\n", 1).tick(10_000),
            Problem::TimedOut(LoginStage::Shell),
            "",
        ),
        (&|scene| _ = scene.stdout("libi-doctor 1\nready\n", 1).exit(0, 2), Problem::InputLost, ""),
        (
            &|scene| _ = scene.stdout("libi-doctor 1\nready\necho 0\n", 1).exit(0, 2),
            Problem::ConnectionLost,
            "",
        ),
        (&|scene| _ = scene.stdout("libi-doctor 1\r\nterminal\r\n", 1), Problem::Terminal, ""),
    ];
    for (happens, problem, evidence) in cases {
        let mut scene = Scene::new(options(&[]));
        happens(&mut scene);
        assert!(scene.sent().ends_with("(end)"));
        assert_eq!(scene.problem(), Some((problem, evidence.to_owned())));
    }
}

#[test]
fn no_result_before_the_deadline() {
    let mut scene = Scene::new(options(&[]));
    scene.tick(9_999);
    assert_eq!((scene.sent().as_str(), scene.exam.deadline()), ("", at(10_000)));
}

#[test]
fn an_interruption_leaves_what_was_decided() {
    let mut scene = Scene::new(options(&[]));
    scene.exam.interrupt(at(1), &mut scene.effects);
    assert_eq!(scene.problem(), Some((Problem::Interrupted, String::new())));
    let mut scene = Scene::new(options(&[]));
    let now = scene.healthy();
    scene.exam.interrupt(at(now), &mut scene.effects);
    assert_eq!(scene.problem(), None);
}

#[test]
fn a_login_only_exam_ends_at_the_shell() {
    let mut scene = Scene::new(ExamOptions { login_only: true, ..options(&[]) });
    scene.stdout("libi-doctor 1\nready\n", 7);
    assert_eq!(scene.sent(), "end\n(closed)");
    assert_eq!(scene.exam.finding.set_up, Some(Duration::from_millis(7)));
}
