//! The report as one JSON document, with everything known about every host.

use std::time::Duration;

use libi::hosts::HostRef;
use serde_json::{Map, Value, json};

use super::DoctorReport;
use super::finding::{Direct, Finding};
use super::gain::{Gain, LoginCost};

pub(super) fn document(report: &DoctorReport<'_>) -> Value {
    let hosts =
        report.hosts.iter().zip(report.findings).map(|(host, found)| of_host(host, found, report.shell));
    let fine = report.findings.iter().filter(|found| found.is_fine()).count();
    let mut document = json!({
        "ok": report.is_fine(),
        "shell": report.shell,
        "took_s": report.took.as_secs_f64(),
        "hosts_ok": fine,
        "hosts_with_problems": report.findings.len() - fine,
        "hosts": hosts.collect::<Vec<_>>(),
    });
    if !report.gains.is_empty() {
        document["gain"] = report.gains.iter().map(|gain| of_gain(gain, report)).collect();
    }
    document
}

fn of_host(host: HostRef<'_>, found: &Finding, shell: &str) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            object.insert(key.to_owned(), value);
        }
    };
    put("host", host.name.into());
    put("user", host.user.into());
    put("port", host.port.into());
    put("ok", found.is_fine().into());
    if let Some((problem, evidence)) = &found.problem {
        put("problem", problem.name().into());
        put("problem_text", problem.text().into());
        put("evidence", evidence.as_str().into());
        put("hint", problem.hint(host.name, shell).into());
    }
    put("reached", format!("{:?}", found.reached).to_lowercase().into());
    put("took_s", seconds(found.took));
    put("set_up_s", found.set_up.map_or(Value::Null, seconds));
    let parts = &found.parts;
    for (key, part) in [
        ("connect_s", parts.connect),
        ("key_exchange_s", parts.key_exchange),
        ("authentication_s", parts.authentication),
        ("session_s", parts.session),
    ] {
        put(key, part.map_or(Value::Null, seconds));
    }
    put("ssh", facts(found));
    put("noise_bytes", found.noise.bytes.into());
    if found.noise.bytes > 0 {
        put("noise", found.noise.line.as_str().into());
    }
    put("kernel", found.kernel.as_deref().into());
    put("machine", found.machine.as_deref().into());
    put("login_shell", found.shell.as_deref().into());
    // The value may be "unlimited".
    put(
        "open_files",
        found
            .files
            .as_deref()
            .map_or(Value::Null, |files| files.parse::<u64>().map_or(files.into(), Value::from)),
    );
    if let Some(clock) = found.clock {
        put("clock_ahead_s", (clock.ahead_ns as f64 / 1e9).into());
        put("clock_within_s", seconds(clock.within));
    }
    put("round_trip_s", found.round_trip().map_or(Value::Null, seconds));
    if !found.round_trips.is_empty() {
        put("round_trips_s", found.round_trips.iter().copied().map(seconds).collect());
    }
    put("program", found.program.map(super::probe::ProgramCheck::name).into());
    match &found.direct {
        Direct::NotTried => {}
        Direct::Works(addresses) => {
            put("direct", "works".into());
            put("direct_addresses", addresses.iter().map(|address| address.ip().to_string()).collect());
        }
        Direct::Blocked => put("direct", "blocked".into()),
        Direct::NoTool => put("direct", "unknown".into()),
    }
    Value::Object(object)
}

/// Details from ssh's debug output; null if there are none.
fn facts(found: &Finding) -> Value {
    let facts = &found.facts;
    let mut object = Map::new();
    for (key, fact) in [
        ("client", &facts.client),
        ("server", &facts.server),
        ("address", &facts.address),
        ("key_exchange", &facts.key_exchange),
        ("cipher", &facts.cipher),
        ("host_key", &facts.host_key),
        ("method", &facts.method),
        ("key", &facts.key),
    ] {
        if let Some(fact) = fact {
            object.insert(key.to_owned(), fact.as_str().into());
        }
    }
    if object.is_empty() {
        return Value::Null;
    }
    object.insert("keys_offered".to_owned(), facts.offered.into());
    object.insert("shared".to_owned(), facts.shared.into());
    object.insert("by_proxy".to_owned(), facts.by_proxy.into());
    Value::Object(object)
}

fn of_gain(gain: &Gain, report: &DoctorReport<'_>) -> Value {
    let cost = |cost: &LoginCost| {
        json!({
            "set_up_s": seconds(cost.set_up),
            "processor_s": seconds(cost.processor),
            "key_exchange": cost.key_exchange,
        })
    };
    let host = report.hosts.entry(gain.host).map(|host| host.name);
    json!({ "host": host, "own": cost(&gain.own), "fast": cost(&gain.fast) })
}

fn seconds(duration: Duration) -> Value {
    duration.as_secs_f64().into()
}
