//! Programs that never join: each is named with its phase, its cause, and what it has printed.

use std::time::Duration;

use libi::{
    Cause, Distribution, Error, Exit, FrontEnd, LaunchOptions, LaunchReport, Phase, Policy, Rank, Rules,
    Stage,
};

use libi_testkit::local::*;

fn quickly() -> LaunchOptions {
    let rules = Rules { attempts: 1, ..Rules::default() };
    LaunchOptions::local().rules(rules)
}

/// The report of a launch that does not come about, and that leaves nothing.
fn report(
    lab: &Lab,
    distributions: &[Distribution],
    options: &LaunchOptions,
) -> std::sync::Arc<LaunchReport> {
    let front = FrontEnd::new().unwrap();
    let error = front.launch_all(distributions, options).map(drop).unwrap_err();
    let Error::NotLaunched(report) = error else { panic!("{error}") };
    assert!(!report.is_up());
    drop(front);
    lab.is_empty_within(SOON);
    report
}

/// Phase, cause, end of the output, and the text for people of one program that does this.
fn fate(lab: &Lab, distribution: Distribution, options: &LaunchOptions) -> (Phase, Cause, String, String) {
    let report = report(lab, &[distribution], options);
    let (_, failure) = report.failed().next().unwrap();
    // Times differ.
    let text = report.to_string();
    let text = text.lines().nth(1).unwrap_or_default().to_owned();
    (failure.phase, failure.cause.clone(), failure.tail.clone(), text)
}

#[test]
fn a_program_that_ends_without_joining_is_named_with_its_status_and_its_last_words() {
    let lab = Lab::new();
    let cases: [(&[&str], Exit, &str, &str); 5] = [
        (&[], Exit::Code(0), "", "  a  exited 0 without joining, after "),
        (&["exit:3"], Exit::Code(3), "", "  a  exited 3 before joining, after "),
        (
            &["out:on the way", "err:what is wrong", "exit:4"],
            Exit::Code(4),
            "on the way\nwhat is wrong\n",
            "",
        ),
        (&["signal:15"], Exit::Signal(15), "", "  a  was killed by signal 15 before joining, after "),
        (&["bare:no end", "signal:9"], Exit::Signal(9), "no end", ""),
    ];
    for (words, exit, printed, text) in cases {
        let (phase, cause, tail, told) = fate(&lab, lab.members("a", words), &quickly());
        assert_eq!((phase, cause), (Phase::Starting, Cause::Exited(exit)), "{words:?}");
        let mut lines: Vec<_> = tail.lines().collect();
        lines.sort_unstable(); // the order of two streams is unknown
        assert_eq!(lines, printed.lines().collect::<Vec<_>>(), "{words:?}");
        assert!(told.starts_with(text), "{told}");
        let last = printed.lines().last().unwrap_or_default();
        assert!(printed.lines().count() > 1 || told.ends_with(last), "{told}");
    }
}

#[test]
fn a_program_that_ends_well_without_joining_comes_with_a_hint() {
    let lab = Lab::new();
    let text = report(&lab, &[lab.program("/bin/true", "a", &[])], &quickly()).to_string();
    assert!(text.contains("  a  exited 0 without joining, after "), "{text}");
    assert!(
        text.contains("\nhint: the program ended without calling Member::init (in C, libi_member_init)"),
        "{text}"
    );
}

#[test]
fn an_error_that_main_returns_prints_the_report() {
    let lab = Lab::new();
    let front = FrontEnd::new().unwrap();
    let error = front.launch(&lab.members("a", &["exit:3"]), &quickly()).map(drop).unwrap_err();
    let (debug, display) = (format!("{error:?}"), error.to_string());
    assert!(debug == display && debug.starts_with("0 of 1 hosts joined; given up after "), "{debug}");
}

#[test]
fn invalid_values_of_a_distribution_are_reported_by_the_launch() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let nul = lab.members("a", &["wait"]).arg("a\0b");
    for (broken, text) in [
        (nul, "the argument \"a\\0b\" of the distribution is invalid: "),
        (lab.members("a", &["wait"]).hosts("here[1-2:2"), "the hosts of the distribution are invalid: "),
        (lab.members("a", &["wait"]).env("A=B", "c"), "the environment of the distribution is invalid: "),
    ] {
        let error = front.launch(&broken, &quickly()).map(drop).unwrap_err();
        assert!(matches!(error, Error::Distribution(_)) && error.to_string().starts_with(text), "{error}");
    }
    assert!(lab.living().is_empty());
}

#[test]
fn a_program_that_cannot_be_executed_is_named_with_the_systems_reason() {
    let lab = Lab::new();
    lab.touch("no program");
    let directory = lab.members("a", &[]).current_dir(lab.path("missing"));
    let cases = [
        (lab.program(&lab.path("missing"), "a", &[]), "No such file or directory"),
        (lab.program("no-such-program-anywhere", "a", &[]), "no-such-program-anywhere"),
        (lab.program(&lab.path("no program"), "a", &[]), "Permission denied"),
        (lab.program(&lab.path(""), "a", &[]), "Permission denied"),
        (directory, "missing"),
    ];
    for (distribution, reason) in cases {
        let (phase, cause, tail, text) = fate(&lab, distribution, &LaunchOptions::local());
        let Cause::NotStarted(why) = &cause else { panic!("{cause}") };
        assert!(why.contains(reason), "{why}");
        assert_eq!((phase, tail.as_str()), (Phase::Starting, ""));
        assert!(text.starts_with("  a  cannot be started: ") && text.contains(reason), "{text}");
    }
}

#[test]
fn a_program_that_is_not_there_comes_with_a_hint_about_its_path_alone() {
    let lab = Lab::new();
    lab.touch("no program");
    for (program, hint) in [
        (lab.path("missing"), "check the path of the program: "),
        ("no-such-program-anywhere".to_owned(), "check the path of the program: "),
        (lab.path("no program"), "check that the program is a file, not a directory, "),
        ("/bin/false".to_owned(), "the program ended before Member::init (in C, libi_member_init) and "),
    ] {
        let report = report(&lab, &[lab.program(&program, "a,b", &[])], &quickly());
        let text = report.to_string();
        let hints: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("hint: ")).collect();
        assert!(hints.len() == 1 && hints[0].starts_with(hint), "{text}");
    }
}

#[test]
fn a_reason_names_the_host_that_is_the_cause() {
    let lab = Lab::new();
    let programs = [lab.program("/bin/false", "a", &[]), lab.program("/bin/sleep", "b", &["30"])];
    let report = report(&lab, &programs, &quickly());
    let reasons: Vec<_> = report.failed().map(|(_, failure)| report.reason(failure)).collect();
    assert!(reasons[0].starts_with("exited 1 before joining, after "), "{reasons:?}");
    assert!(
        ["not tried", "given up"]
            .map(|what| format!("{what}: a has the master, and failed"))
            .contains(&reasons[1]),
        "{reasons:?}"
    );
}

#[test]
fn a_program_that_hangs_before_it_joins_is_ended_when_its_time_to_greet_is_over() {
    let lab = Lab::new();
    let rules = Rules { hello_timeout: ms(300), attempts: 2, back_off: ms(10), ..Rules::default() };
    let options = LaunchOptions::local().rules(rules);
    let words = ["out:still looking for its licence", "ignore:15", "wait"];
    let (phase, cause, tail, text) = fate(&lab, lab.members("a", &words), &options);
    assert_eq!((phase, cause), (Phase::Starting, Cause::TimedOut));
    assert_eq!(tail, "still looking for its licence\n");
    assert!(text.starts_with("  a  timed out while starting, after "), "{text}");
    assert!(text.ends_with(": still looking for its licence"), "{text}");
}

#[test]
fn a_launch_is_given_up_at_its_deadline_whatever_else_was_allowed() {
    let lab = Lab::new();
    let options = LaunchOptions::local().deadline(ms(400));
    let report = report(&lab, &[lab.members("a,b:2", &["only:0:wait", "wait"])], &options);
    assert!(report.took() < Duration::from_secs(10), "{report}");
    let causes: Vec<_> =
        report.failed().map(|(host, failure)| (host.name.clone(), failure.cause.clone())).collect();
    assert_eq!(causes.len(), 2, "{causes:?}");
    assert_eq!(causes[0].0, "a");
}

#[test]
fn equal_failures_of_many_hosts_are_told_in_one_line() {
    let lab = Lab::new();
    let fine = lab.members("a", &["join", "wait"]);
    let broken = lab.members("n[01-20]", &["err:no licence", "exit:9"]);
    let options = quickly().policy(Policy::AtLeast(1));
    let front = FrontEnd::new().unwrap();
    let session = launch_with(&front, &[fine, broken], &options);
    let report = session.report().unwrap();
    let text = report.to_string();
    assert!(text.starts_with("1 of 21 hosts joined; up after "), "{text}");
    assert!(text.contains("\n  n[01-20]  exited 9 before joining, after "), "{text}");
    assert!(text.ends_with(": no licence") && text.lines().count() == 2, "{text}");
    assert_eq!(session.size(), 21);
}

#[test]
fn a_further_member_that_never_joins_is_named_in_the_failure_of_its_host() {
    let lab = Lab::new();
    let leaders = lab.members("a,b", &["join", "wait"]);
    let cases: [(&[&str], Cause); 3] = [
        (&["err:cannot open its device", "exit:6"], Cause::Exited(Exit::Code(6))),
        (&["err:cannot open its device", "signal:9"], Cause::Exited(Exit::Signal(9))),
        (&["err:cannot open its device", "wait"], Cause::TimedOut),
    ];
    for (words, cause) in cases {
        let rules = Rules { join_timeout: ms(2_000), attempts: 1, ..Rules::default() };
        let options = LaunchOptions::local().rules(rules);
        let report = report(&lab, &[leaders.clone(), lab.members("b", words)], &options);
        let failures: Vec<_> = report.failed().filter(|(host, _)| host.name == "b").collect();
        assert_eq!(failures.len(), 1, "{report}");
        let failure = failures[0].1;
        assert_eq!((failure.phase, &failure.cause), (Phase::Joining, &cause), "{report}");
        assert_eq!(failure.tail, "cannot open its device\n", "{report}");
        let text = report.to_string();
        assert!(text.contains("\n  b  ") && text.contains(": cannot open its device"), "{text}");
        assert!(text.contains(" (rank 2)") && failure.member == Some(Rank(2)), "{text}");
    }
}

#[test]
fn a_further_member_that_cannot_be_executed_is_named_in_the_failure_of_its_host() {
    let lab = Lab::new();
    let leaders = lab.members("a,b", &["join", "wait"]);
    let missing = lab.program(&lab.path("missing"), "b", &[]);
    let report = report(&lab, &[leaders, missing], &quickly());
    let (host, failure) = report.failed().find(|(host, _)| host.name == "b").unwrap();
    assert_eq!((host.members, failure.phase), (2, Phase::Joining), "{report}");
    assert!(report.to_string().contains("No such file or directory"), "{report}");
}

#[test]
fn a_caller_with_less_patience_is_not_kept_and_the_launch_goes_on() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let gate = format!("await:{}", lab.path("go"));
    let sessions =
        front.start_all(&[lab.members("a,b:2", &[&gate, "join", "wait"])], &LaunchOptions::local());
    let session = &sessions.unwrap()[0];
    assert!(matches!(session.wait_up(ms(20)), Err(Error::TimedOut(_))));
    assert!(matches!(session.wait_done(ms(20)), Err(Error::TimedOut(_))));
    assert_eq!((session.stage(), session.report().is_none()), (Stage::Launching, true));
    lab.touch("go");
    assert_eq!(session.wait_up(TIMEOUT).unwrap().joined(), 2);
    assert_eq!(session.stage(), Stage::Up);
}

#[test]
fn distributions_that_make_no_session_are_refused_before_anything_is_started() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let fine = lab.members("a", &["join", "wait"]);
    let nowhere = fine.clone().hosts(libi::HostList::new()).session(libi::SessionId(1));
    let options = LaunchOptions::local();
    assert!(matches!(front.launch_all(&[], &options), Err(Error::Layout(_))));
    assert!(matches!(front.launch_all(&[fine, nowhere], &options), Err(Error::Layout(_))));
    assert!(lab.living().is_empty() && front.next_event(ms(0)).is_none());
}

#[test]
fn of_sessions_of_one_call_none_is_left_when_one_does_not_come_up() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let broken = lab.members("a", &["exit:1"]).session(libi::SessionId(1));
    let result = front.launch_all(&[lab.members("a,b:2", &["join", "wait"]), broken], &quickly());
    let Err(Error::NotLaunched(report)) = result else { panic!("it came up") };
    assert_eq!(report.session(), libi::SessionId(1));
    lab.is_empty_within(SOON);
}
