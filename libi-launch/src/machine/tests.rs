//! The parts of the machine one by one; whole sessions are run in `tests/simulation`.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::plan::late::Attempt;

use super::host_table::{HostTable, LaunchDecision, Policy};
use super::message::ChildMessage;
use crate::failure::{Cause, Exit, Failure, LaunchTiming, Phase};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn failed(host: u32) -> ChildMessage {
    ChildMessage::Failed(HostIndex(host), Attempt::default(), failure(Cause::TimedOut, Phase::Starting))
}

fn joined(host: u32) -> ChildMessage {
    ChildMessage::Joined(HostIndex(host), Attempt::default(), LaunchTiming::default())
}

fn failure(cause: Cause, phase: Phase) -> Failure {
    Failure::without_evidence(phase, cause, MS(1))
}

/// What a ledger of three hosts decides after this.
fn decide(policy: Policy, reports: &[ChildMessage]) -> LaunchDecision {
    let mut table = HostTable::new(3, policy);
    reports.iter().for_each(|report| {
        table.note(report);
    });
    table.decide()
}

#[test]
fn a_session_goes_up_when_enough_hosts_joined_and_none_is_open() {
    let all = [joined(0), joined(1), joined(2)];
    assert_eq!(decide(Policy::All, &all[..2]), LaunchDecision::Wait);
    assert_eq!(decide(Policy::All, &all), LaunchDecision::Go);
    assert_eq!(decide(Policy::AtLeast(1), &all[..2]), LaunchDecision::Wait, "the third may still join");
    assert_eq!(decide(Policy::AtLeast(2), &[joined(0), failed(1), joined(2)]), LaunchDecision::Go);
}

#[test]
fn a_hopeless_session_is_given_up_once_no_host_is_open() {
    assert_eq!(decide(Policy::All, &[failed(2)]), LaunchDecision::Hopeless);
    assert_eq!(decide(Policy::All, &[failed(2), joined(0)]), LaunchDecision::Hopeless);
    assert_eq!(decide(Policy::All, &[failed(2), joined(0), joined(1)]), LaunchDecision::GiveUp);
    assert_eq!(decide(Policy::AtLeast(2), &[failed(2)]), LaunchDecision::Wait);
    assert_eq!(decide(Policy::AtLeast(2), &[failed(2), failed(1)]), LaunchDecision::Hopeless);
    assert_eq!(
        decide(Policy::AtLeast(1), &[failed(0)]),
        LaunchDecision::GiveUp,
        "without a master there is none"
    );
}

#[test]
fn hosts_that_are_given_up_because_of_others_name_the_host_at_fault() {
    let why = |reports: &[ChildMessage], stopped| {
        let mut table = HostTable::new(4, Policy::All);
        for report in reports {
            table.note(report);
        }
        table.why_given_up(stopped)
    };
    let cancelled =
        ChildMessage::Failed(HostIndex(1), Attempt::default(), failure(Cause::Cancelled, Phase::Waiting));
    assert_eq!(why(std::slice::from_ref(&cancelled), true), Cause::Cancelled);
    assert_eq!(why(&[cancelled.clone(), failed(2)], true), Cause::LaunchFailed(HostIndex(2)));
    assert_eq!(why(&[failed(2)], false), Cause::Cancelled, "launching has not stopped");
    assert_eq!(why(&[failed(2), failed(0), cancelled], false), Cause::MasterFailed(HostIndex(0)));
}

#[test]
fn reports_of_earlier_attempts_are_ignored() {
    let again = ChildMessage::Relaunch(HostIndex(1), Attempt::default().after_loss(), None);
    let report = [joined(0), joined(1), joined(2), again, joined(1)];
    assert_eq!(decide(Policy::All, &report), LaunchDecision::Wait);
    let now = ChildMessage::Joined(
        HostIndex(1),
        Attempt::default().after_loss().after_failure(),
        LaunchTiming::default(),
    );
    assert_eq!(decide(Policy::All, &[&report[..], &[now]].concat()), LaunchDecision::Go);
}

#[test]
fn reports_of_unknown_hosts_are_ignored() {
    assert_eq!(decide(Policy::All, &[joined(3), joined(u32::MAX)]), LaunchDecision::Wait);
}

#[test]
fn only_transient_failures_are_retried() {
    let is_retryable = |cause| failure(cause, Phase::Starting).is_retryable();
    for cause in [Cause::TimedOut, Cause::Closed, Cause::Exited(Exit::Code(255)), Cause::HeartbeatLost] {
        assert!(is_retryable(cause.clone()), "{cause}");
    }
    let hopeless = [
        Cause::Exited(Exit::Code(127)),
        Cause::Exited(Exit::Code(126)),
        Cause::Exited(Exit::Code(0)),
        Cause::NotStarted("E2BIG".to_owned()),
        Cause::WrongTicket,
        Cause::Protocol(String::new()),
        Cause::Cancelled,
    ];
    for cause in hopeless {
        assert!(!is_retryable(cause.clone()), "{cause}");
    }
}

#[test]
fn authentication_failures_are_not_retried() {
    let refused = |tail: &str| {
        let failure = failure(Cause::Exited(Exit::Code(255)), Phase::Starting);
        !Failure { tail: tail.to_owned(), ..failure }.is_retryable()
    };
    assert!(refused("Banner\r\nme@n1: Permission denied (publickey).\r\n"));
    assert!(refused("No ED25519 host key is known for n1\r\nHost key verification failed.\r\n"));
    assert!(refused("Received disconnect from ::1 port 22:2: Too many authentication failures\n\n"));
    let disconnect = "Received disconnect from ::1 port 22:2: Too many authentication failures\r\n\
                      Disconnected from ::1 port 22\r\n";
    assert!(refused(disconnect));
    assert!(!refused("Permission denied to nobody\nssh: connect to host n1 port 22: Connection refused\r\n"));
    assert!(!refused(""));
}

#[test]
fn a_server_that_hangs_up_before_authentication_is_overloaded() {
    let turned_away = |tail: &str, phase| {
        let failure = failure(Cause::Exited(Exit::Code(255)), phase);
        Failure { tail: tail.to_owned(), ..failure }.is_throttled()
    };
    let closed = "kex_exchange_identification: Connection closed by remote host\r\n\
                  Connection closed by ::1 port 22\r\n";
    assert!(turned_away(closed, Phase::Starting));
    assert!(turned_away("Connection reset by 10.0.0.1 port 22\r\n\r\n", Phase::Starting));
    assert!(turned_away("kex_exchange_identification: read: Connection reset by peer\r\n", Phase::Starting));
    assert!(!turned_away(closed, Phase::Handshaking), "it was let in");
    for other in [
        "",
        "Connection to n1 closed by remote host.",
        "Permission denied (publickey).",
        "ssh: connect to host n1 port 22: Connection refused",
    ] {
        assert!(
            !turned_away(&format!("{closed}{other}\r\n"), Phase::Starting) || other.is_empty(),
            "{other}"
        );
    }
}
