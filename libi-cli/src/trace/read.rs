//! Parses a timeline from the Chrome trace JSON that `Timeline::chrome_json` writes.
//!
//! Only `otherData` and the events that name a host's thread are used. Events for viewers, and data
//! added by other programs, are ignored.

use std::fmt;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::ids::HostIndex;
use libi_trace::{FORMAT, HostLine, Prediction, Timeline};
use serde::Deserialize;

/// Why a text is not a valid timeline.
#[derive(Debug)]
pub(crate) enum TimelineError {
    /// It is not JSON, or a value has the wrong type.
    Json(serde_json::Error),
    /// It is JSON, but not from `libi`.
    Foreign,
    /// It has another format version.
    Format(u32),
    /// A host appears twice, or its number is out of range.
    Host { host: u32, hosts: usize },
    /// Hosts are missing; `host` is the first.
    Missing { host: usize, hosts: usize },
    /// A host's launcher does not exist, or is the host itself.
    Launcher { host: usize, launcher: u32 },
}

impl fmt::Display for TimelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "not the timeline of a launch: {error}"),
            Self::Foreign => write!(f, "not the timeline of a launch: otherData has no libi_trace"),
            Self::Format(found) => write!(f, "timeline format {found} is not supported, only {FORMAT}"),
            Self::Host { host, hosts } => {
                write!(f, "host {host} appears twice, or is not one of the {hosts} hosts in otherData")
            }
            Self::Missing { host, hosts } => write!(f, "host {host} of {hosts} is missing"),
            Self::Launcher { host, launcher } => {
                write!(f, "host {host} cannot have been launched by host {launcher}")
            }
        }
    }
}

impl From<serde_json::Error> for TimelineError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

/// Parses a timeline.
pub(crate) fn timeline(json: &str) -> Result<Timeline, TimelineError> {
    // Check the format first: events of a foreign file may have any form.
    let file: TraceFile<Option<FormatMark>> = serde_json::from_str(json)?;
    let format = file.other_data.and_then(|format| format.libi_trace);
    match format {
        None => return Err(TimelineError::Foreign),
        Some(FORMAT) => {}
        Some(other) => return Err(TimelineError::Format(other)),
    }
    let TraceFile { other_data: session } = serde_json::from_str::<TraceFile<LaunchRecord>>(json)?;
    let TraceEvents { trace_events } = serde_json::from_str(json)?;
    let named = trace_events.into_iter().filter_map(|event| {
        let args = event.args.filter(|_| event.ph.as_deref() == Some("M"))?;
        Some((args.name?, args.libi?))
    });
    Ok(Timeline {
        hosts: hosts(named, session.hosts)?,
        session: session.session,
        up: session.up_ns.map(Duration::from_nanos),
        predicted: session.predicted.map(PredictionRecord::prediction),
    })
}

/// Orders the hosts by their numbers and checks that they are complete.
fn hosts(
    named: impl Iterator<Item = (String, HostRecord)>,
    count: usize,
) -> Result<Vec<HostLine>, TimelineError> {
    // Nothing is allocated from the count alone: a damaged file may have any number there.
    let mut lines: Vec<(u32, HostLine)> = Vec::new();
    for (name, line) in named {
        if usize::try_from(line.host).map_or(true, |host| host >= count) {
            return Err(TimelineError::Host { host: line.host, hosts: count });
        }
        lines.push((line.host, line.host_line(name)));
    }
    lines.sort_by_key(|&(host, _)| host);
    if let Some(twice) = lines.windows(2).find(|two| two[0].0 == two[1].0) {
        return Err(TimelineError::Host { host: twice[0].0, hosts: count });
    }
    if lines.len() < count {
        let there = (0..).zip(&lines).take_while(|&(place, &(host, _))| place == host).count();
        return Err(TimelineError::Missing { host: there, hosts: count });
    }
    let hosts: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
    for (host, line) in hosts.iter().enumerate() {
        let Some(HostIndex(launcher)) = line.launcher else { continue };
        if usize::try_from(launcher).map_or(true, |launcher| launcher >= count || launcher == host) {
            return Err(TimelineError::Launcher { host, launcher });
        }
    }
    Ok(hosts)
}

#[derive(Deserialize)]
struct TraceFile<T> {
    #[serde(rename = "otherData")]
    other_data: T,
}

/// The part of `otherData` that every version has.
#[derive(Deserialize)]
struct FormatMark {
    libi_trace: Option<u32>,
}

#[derive(Deserialize)]
struct LaunchRecord {
    session: String,
    hosts: usize,
    up_ns: Option<u64>,
    predicted: Option<PredictionRecord>,
}

#[derive(Deserialize)]
struct PredictionRecord {
    seq_ns: u64,
    rem_ns: u64,
    constant_ns: u64,
    up_ns: Vec<u64>,
}

#[derive(Deserialize)]
struct TraceEvents {
    #[serde(rename = "traceEvents")]
    trace_events: Vec<TraceEvent>,
}

#[derive(Deserialize)]
struct TraceEvent {
    ph: Option<String>,
    args: Option<EventArgs>,
}

#[derive(Deserialize)]
struct EventArgs {
    name: Option<String>,
    libi: Option<HostRecord>,
}

#[derive(Deserialize)]
struct HostRecord {
    host: u32,
    members: u32,
    attempts: u32,
    launcher: Option<u32>,
    started_ns: u64,
    greeted_ns: Option<u64>,
    joined_ns: Option<u64>,
    ended_ns: Option<u64>,
    #[serde(default)]
    cause: String,
}

impl PredictionRecord {
    fn prediction(self) -> Prediction {
        let [seq, rem, constant] = [self.seq_ns, self.rem_ns, self.constant_ns].map(Duration::from_nanos);
        let mut up: Vec<_> = self.up_ns.into_iter().map(Duration::from_nanos).collect();
        up.sort_unstable();
        Prediction { cost: Cost::new(seq, rem).with_constant(constant), up }
    }
}

impl HostRecord {
    fn host_line(self, name: String) -> HostLine {
        HostLine {
            name,
            members: self.members,
            launcher: self.launcher.map(HostIndex),
            attempts: self.attempts,
            started: Duration::from_nanos(self.started_ns),
            hello: self.greeted_ns.map(Duration::from_nanos),
            joined: self.joined_ns.map(Duration::from_nanos),
            ended: self.ended_ns.map(|at| (Duration::from_nanos(at), self.cause)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any timeline that can be written: launchers exist, times fit 64 bits of nanoseconds.
    fn timelines() -> impl Strategy<Value = Timeline> {
        let time = || prop_oneof![0u64..5_000_000_000, any::<u64>()].prop_map(Duration::from_nanos);
        let text = || prop_oneof!["[ -~]{0,12}", any::<String>()];
        let line = (text(), any::<u32>(), 0u32..4, time()).prop_flat_map(
            move |(name, members, attempts, started)| {
                let ends =
                    (prop::option::of(time()), prop::option::of(time()), prop::option::of((time(), text())));
                (ends, prop::option::of(any::<prop::sample::Index>())).prop_map(
                    move |((greeted, joined, ended), by)| {
                        let name = name.clone();
                        (
                            HostLine {
                                name,
                                members,
                                launcher: None,
                                attempts,
                                started,
                                hello: greeted,
                                joined,
                                ended,
                            },
                            by,
                        )
                    },
                )
            },
        );
        let cost = [time(), time(), time()];
        let prediction =
            (cost, prop::collection::vec(time(), 0..5)).prop_map(|([seq, rem, constant], mut up)| {
                up.sort_unstable();
                Prediction { cost: Cost::new(seq, rem).with_constant(constant), up }
            });
        let whole = (text(), prop::collection::vec(line, 0..12), prop::option::of(time()));
        (whole, prop::option::of(prediction)).prop_map(|((session, lines, up), predicted)| {
            let count = lines.len();
            let place = |(host, (line, by)): (usize, (HostLine, Option<prop::sample::Index>))| {
                let launcher = by.map(|by| by.index(count)).filter(|&by| by != host);
                HostLine { launcher: launcher.map(|by| HostIndex(by as u32)), ..line }
            };
            let hosts = lines.into_iter().enumerate().map(place).collect();
            Timeline { session, hosts, up, predicted }
        })
    }

    proptest! {
        #[test]
        fn a_written_timeline_is_read_back(timeline in timelines()) {
            let json = timeline.chrome_json();
            prop_assert_eq!(super::timeline(&json).unwrap(), timeline);
        }

        #[test]
        fn a_damaged_file_never_panics(
            timeline in timelines(), at in any::<prop::sample::Index>(), with in "[ -~]",
        ) {
            let json: Vec<char> = timeline.chrome_json().trim_end().chars().collect();
            let at = at.index(json.len());
            let cut: String = json[..at].iter().collect();
            prop_assert!(super::timeline(&cut).is_err(), "a truncated file is rejected");
            let rest = json[at + 1..].iter().copied();
            let changed: String = cut.chars().chain(with.chars()).chain(rest).collect();
            if let Ok(timeline) = super::timeline(&changed) {
                let _ = (timeline.svg(), libi_trace::Summary::new(&timeline));
            }
        }

        #[test]
        fn an_absurd_timeline_can_be_summarised_and_drawn(timeline in timelines()) {
            let summary = libi_trace::Summary::new(&timeline);
            prop_assert_eq!(
                summary.joined + summary.failed + summary.lost + summary.open,
                timeline.hosts.len()
            );
            let svg = timeline.svg();
            prop_assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            prop_assert!(svg.chars().all(|c| !c.is_control() || c == '\n'));
        }
    }

    fn rejection(json: &str) -> String {
        let error = timeline(json).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn an_invalid_timeline_is_rejected_with_the_reason() {
        assert!(rejection("").contains("EOF"));
        assert!(rejection("[]").contains("not the timeline of a launch"));
        assert!(rejection("{\"traceEvents\":[]}").contains("otherData"));
        assert!(rejection("{\"traceEvents\":[],\"otherData\":{}}").contains("libi_trace"));
        let of = |version: u32, hosts: u32, events: &str| {
            let session = format!("\"libi_trace\":{version},\"session\":\"\",\"hosts\":{hosts}");
            format!("{{\"otherData\":{{{session}}},\"traceEvents\":[{events}]}}")
        };
        let host = |host: u32, more: &str| {
            let line = format!("\"host\":{host},\"members\":1,\"attempts\":1,\"started_ns\":0{more}");
            format!("{{\"ph\":\"M\",\"args\":{{\"name\":\"n{host}\",\"libi\":{{{line}}}}}}}")
        };
        let two = host(0, "") + "," + &host(1, "");
        assert!(timeline(&of(1, 2, &two)).is_ok());
        assert_eq!(rejection(&of(2, 2, &two)), "timeline format 2 is not supported, only 1");
        assert_eq!(rejection(&of(1, 3, &two)), "host 2 of 3 is missing");
        assert_eq!(rejection(&of(1, 4_000_000_000, "")), "host 0 of 4000000000 is missing");
        assert!(rejection(&of(1, 1, &two)).starts_with("host 1 appears twice, or is not one of the 1"));
        let twice = host(1, "") + "," + &host(1, "");
        assert!(rejection(&of(1, 2, &twice)).starts_with("host 1 appears twice"));
        let circle = host(0, ",\"launcher\":0");
        assert_eq!(rejection(&of(1, 1, &circle)), "host 0 cannot have been launched by host 0");
        let negative = host(0, ",\"joined_ns\":-1");
        assert!(rejection(&of(1, 1, &negative)).contains("line 1"));
    }
}
