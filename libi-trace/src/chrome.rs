//! A timeline as Chrome trace JSON, which `chrome://tracing` and Perfetto show and `libi trace`
//! reads back.
//!
//! Each host is a thread of one process. Viewers draw complete events (`X`) for the phases
//! *starting*, *joining* and *failed*, an instant when the session was up, another for the
//! prediction, and counters of hosts up. The data for reading back is exact and separate:
//! `otherData` describes the session, and the metadata event that names a host's thread has its
//! record under `args.libi`, with all times in whole nanoseconds. Times beyond 64 bits of them (584
//! years) are written as the largest value.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

use super::{HostLine, Timeline};
use libi_core::ids::HostIndex;

/// The number of this format, `otherData.libi_trace` in a file.
pub const FORMAT: u32 = 1;

/// The largest number of steps of a counter of hosts up.
const MOST_COUNTS: usize = 500;

impl Timeline {
    /// Writes the timeline as Chrome trace JSON.
    #[must_use]
    pub fn chrome_json(&self) -> String {
        let mut out = Writer { json: String::with_capacity(600 * self.hosts.len() + 1_000), events: 0 };
        out.put(format_args!("{{\"displayTimeUnit\":\"ms\",\n\"otherData\":"));
        self.other_data(&mut out);
        out.put(format_args!(",\n\"traceEvents\":["));
        let name = format!("libi: {}", self.session);
        out.event(format_args!(
            "\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{{\"name\":{}}}",
            Quoted(&name)
        ));
        let path: BTreeSet<_> = self.critical_path().into_iter().collect();
        for (index, host) in self.indexed() {
            line(&mut out, index, host);
            self.phases(&mut out, index, host, path.contains(&index));
        }
        self.session_events(&mut out);
        out.put(format_args!("\n]}}\n"));
        out.json
    }

    /// The data of the session as a whole.
    fn other_data(&self, out: &mut Writer) {
        out.put(format_args!("{{\"libi_trace\":{FORMAT},\"session\":{}", Quoted(&self.session)));
        out.put(format_args!(",\"hosts\":{}", self.hosts.len()));
        if let Some(up) = self.up {
            out.put(format_args!(",\"up_ns\":{}", nanos(up)));
        }
        if let Some(predicted) = &self.predicted {
            let cost = predicted.cost;
            out.put(format_args!(
                ",\n\"predicted\":{{\"time_ns\":{},\"seq_ns\":{},\"rem_ns\":{},\"constant_ns\":{},\"up_ns\":[",
                nanos(predicted.time()),
                nanos(cost.seq),
                nanos(cost.rem),
                nanos(cost.constant)
            ));
            for (i, &at) in predicted.up.iter().enumerate() {
                let comma = if i == 0 { "" } else { "," };
                out.put(format_args!("{comma}{}", nanos(at)));
            }
            out.put(format_args!("]}}"));
        }
        out.put(format_args!("}}"));
    }

    /// The events that viewers draw for a host.
    fn phases(&self, out: &mut Writer, index: HostIndex, host: &HostLine, critical: bool) {
        let critical = if critical { ",\"critical_path\":true" } else { "" };
        if let (Some(at), true) = (host.hello, host.attempts > 0) {
            let launcher = host.launcher.and_then(|launcher| self.host(launcher));
            let launcher = launcher.map_or("the front end", |launcher| &launcher.name);
            let (launcher, attempts) = (Quoted(launcher), host.attempts);
            let args = format_args!("\"launcher\":{launcher},\"attempts\":{attempts}{critical}");
            out.phase(index, "starting", host.started, at, args);
        }
        if let Some(at) = host.joined {
            let args = format_args!("\"members\":{}{critical}", host.members);
            out.phase(index, "joining", host.hello.unwrap_or(at), at, args);
        }
        if let Some((at, cause)) = &host.ended {
            // A host that was up, or that waited, was not failing until the end.
            let waited = host.joined.is_some() || host.attempts == 0;
            let from = if waited { *at } else { host.reached() };
            let args = format_args!("\"cause\":{},\"attempts\":{}", Quoted(cause), host.attempts);
            out.phase(index, "failed", from, *at, args);
        }
    }

    fn session_events(&self, out: &mut Writer) {
        let predicted = self.predicted.as_ref();
        let instants =
            [("session up", self.up), ("session up, as predicted", predicted.map(super::Prediction::time))];
        for (name, at) in instants {
            if let Some(at) = at {
                out.event(format_args!(
                    "\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":1,\"ts\":{},\"name\":\"{name}\"",
                    Micros(at)
                ));
            }
        }
        out.counts("hosts up", &self.joins());
        out.counts("hosts up, as predicted", predicted.map_or(&[], |predicted| &predicted.up));
    }
}

/// The event of a host that is read back.
fn line(out: &mut Writer, index: HostIndex, host: &HostLine) {
    out.event(format_args!(
        "\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{},\"libi\":{}}}",
        thread(index),
        Quoted(&host.name),
        HostLineJson(index, host)
    ));
}

struct HostLineJson<'a>(HostIndex, &'a HostLine);

impl fmt::Display for HostLineJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(HostIndex(index), host) = *self;
        write!(f, "{{\"host\":{index},\"members\":{},\"attempts\":{}", host.members, host.attempts)?;
        if let Some(HostIndex(launcher)) = host.launcher {
            write!(f, ",\"launcher\":{launcher}")?;
        }
        write!(f, ",\"started_ns\":{}", nanos(host.started))?;
        for (name, at) in [("greeted_ns", host.hello), ("joined_ns", host.joined)] {
            if let Some(at) = at {
                write!(f, ",\"{name}\":{}", nanos(at))?;
            }
        }
        if let Some((at, cause)) = &host.ended {
            write!(f, ",\"ended_ns\":{},\"cause\":{}", nanos(*at), Quoted(cause))?;
        }
        f.write_str("}")
    }
}

/// Viewers treat thread 0 specially, so threads count from 1.
fn thread(HostIndex(index): HostIndex) -> u64 {
    u64::from(index) + 1
}

struct Writer {
    json: String,
    events: usize,
}

impl Writer {
    fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.json.write_fmt(text);
    }

    fn event(&mut self, fields: fmt::Arguments<'_>) {
        let comma = if self.events == 0 { "" } else { "," };
        self.events += 1;
        self.put(format_args!("{comma}\n{{{fields}}}"));
    }

    fn phase(
        &mut self,
        index: HostIndex,
        name: &str,
        from: Duration,
        to: Duration,
        args: fmt::Arguments<'_>,
    ) {
        self.event(format_args!(
            "\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"{name}\",\"args\":{{{args}}}",
            thread(index),
            Micros(from),
            Micros(to.saturating_sub(from))
        ));
    }

    /// A counter that grows by one at each of these times, which ascend.
    fn counts(&mut self, name: &str, times: &[Duration]) {
        let every = times.len().div_ceil(MOST_COUNTS).max(1);
        for (i, &at) in times.iter().enumerate() {
            if (i + 1) % every == 0 || i + 1 == times.len() {
                self.event(format_args!(
                    "\"ph\":\"C\",\"pid\":1,\"ts\":{},\"name\":\"{name}\",\"args\":{{\"hosts\":{}}}",
                    Micros(at),
                    i + 1
                ));
            }
        }
    }
}

/// A time in microseconds, the unit of the format.
struct Micros(Duration);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = nanos(self.0);
        write!(f, "{}.{:03}", nanos / 1_000, nanos % 1_000)
    }
}

/// Text, escaped for JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.0.chars().try_for_each(|c| match c {
            '"' => f.write_str("\\\""),
            '\\' => f.write_str("\\\\"),
            '\n' => f.write_str("\\n"),
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c)), // all of them below U+00A0
            c => f.write_char(c),
        })?;
        f.write_char('"')
    }
}

/// A duration in whole nanoseconds.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
