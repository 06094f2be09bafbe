//! The result of a run as one JSON document.

use std::time::Duration;

use libi::{Exit, HostReport, LaunchReport, Session};
use serde_json::{Map, Value, json};

use super::monitor::Outcome;

/// The report of the launch, and how each rank ended.
pub(super) fn document(
    session: &Session,
    report: Option<&LaunchReport>,
    outcome: &Outcome,
    status: u8,
) -> Value {
    let mut document = Map::new();
    document.insert("ok".to_owned(), (status == 0).into());
    document.insert("exit_status".to_owned(), status.into());
    document.insert("signal".to_owned(), outcome.signal.map(|signal| signal as i32).into());
    document.insert("time_limit_expired".to_owned(), outcome.timed_out.into());
    document.insert("revoked".to_owned(), outcome.revoked.as_deref().into());
    document.insert("output_error".to_owned(), outcome.output_error.as_deref().into());
    if let Some(report) = report {
        document.insert("up".to_owned(), report.is_up().into());
        document.insert("backend".to_owned(), report.backend().to_string().into());
        document.insert("backend_reason".to_owned(), report.backend_reason().to_string().into());
        document.insert("queued_s".to_owned(), seconds(report.queued()));
        document.insert("took_s".to_owned(), seconds(report.took()));
        document.insert("hosts_joined".to_owned(), report.joined().into());
        document
            .insert("hosts".to_owned(), report.hosts().iter().map(|host| of_host(host, report)).collect());
    }
    let layout = session.layout();
    let ranks = (0..).map(libi::Rank).zip(&outcome.exits).map(|(rank, exit)| {
        let host = layout.host_of(rank).and_then(|host| layout.hosts().entry(host.0 as usize));
        let host = host.map_or("", |host| host.name);
        json!({ "rank": rank.0, "host": host, "exit": exit.map_or(Value::Null, of_exit) })
    });
    document.insert("ranks".to_owned(), ranks.collect());
    let lost = outcome.lost_hosts.iter().map(|(host, cause)| json!({ "host": host, "cause": cause }));
    document.insert("lost_hosts".to_owned(), lost.collect());
    Value::Object(document)
}

fn of_host(host: &HostReport, report: &LaunchReport) -> Value {
    let launcher = host.launcher.and_then(|index| report.hosts().get(index.0 as usize));
    let mut object = json!({
        "host": host.name,
        "members": host.members,
        "attempts": host.attempts,
        "withdrawn": host.withdrawn,
        "launcher": launcher.map(|launcher| launcher.name.as_str()),
        "joined": host.failure.is_none(),
        "started_s": seconds(host.started),
        "hello_s": host.hello.map(seconds),
        "direct_link": host.direct,
        "ssh_because": host.declined,
    });
    if let Some(failure) = &host.failure {
        object["cause"] = failure.cause.to_string().into();
        object["evidence"] = failure.evidence().into();
        object["after_s"] = seconds(failure.elapsed);
    }
    object
}

/// How a rank ended; a rank that was lost or has detached has no exit.
fn of_exit(exit: Exit) -> Value {
    match exit {
        Exit::Code(code) => json!({ "code": code }),
        Exit::Signal(number) => json!({ "signal": number }),
        Exit::Shell(status) => json!({ "remote_shell": status }),
        _ => json!({ "unknown": true }),
    }
}

fn seconds(duration: Duration) -> Value {
    duration.as_secs_f64().into()
}
