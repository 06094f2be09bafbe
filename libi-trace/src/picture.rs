//! A timeline as a picture: hosts down in the order of their launches, time across.
//!
//! Above, how many hosts are up at each time, measured and predicted. Below, a row for every host
//! with its phases, and under them a thin line for the launch that was predicted for this place in
//! the order. The path to the host that joined last is marked. Of more than [`MAX_ROWS`] hosts
//! every k-th is shown, and beside those the failed ones and the path, up to as many of either; the
//! picture says so. The SVG needs nothing but itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Fate, HostLine, Summary, Timeline};
use crate::draw::{Axis, CURVE, Canvas, Escaped, LEFT, NAME, ROW, TOP, shortened};
use libi_core::ids::HostIndex;
use libi_core::time::Rounded;

/// The number of hosts that a picture shows, with up to as many failed ones and as many on the path
/// to the last host.
pub const MAX_ROWS: usize = 200;

const WAITING: &str = "#e5e7eb";
const STARTING: &str = "#93c5fd";
const JOINING: &str = "#34d399";
const UP: &str = "#e7f8f0";
const FAILED: &str = "#dc2626";
const PREDICTED: &str = "#6b7280";
const PATH: &str = "#ea580c";

impl Timeline {
    /// Draws the timeline.
    #[must_use]
    pub fn svg(&self) -> String {
        let rows = Rows::of(self);
        let first_row = TOP + CURVE + 40.0;
        let bottom = first_row + rows.shown.len() as f64 * ROW;
        let mut canvas = Canvas::new(self.axis(), bottom + 40.0);
        self.title(&mut canvas);
        legend(&mut canvas, &rows);
        canvas.grid(bottom);
        self.curves(&mut canvas, bottom);
        let mut drawn = BTreeMap::new();
        for (row, &(place, index)) in rows.shown.iter().enumerate() {
            let Some(host) = self.host(index) else { continue };
            let y = first_row + row as f64 * ROW;
            drawn.insert(index, y);
            self.row(&mut canvas, y, place, host, rows.path.contains(&index));
        }
        for &index in &rows.path {
            self.link(&mut canvas, &drawn, index);
        }
        canvas.breaks(bottom);
        canvas.finish()
    }

    /// The time axis. Hosts that are lost long after the launch, or a prediction far from the
    /// measurement, do not extend it; long intervals without progress are left out.
    fn axis(&self) -> Axis {
        let took = self.took();
        let predicted = self.predicted.as_ref().map(super::Prediction::time).unwrap_or_default();
        let bearable = if took.is_zero() { Duration::MAX } else { took.saturating_mul(3) };
        let end = took.max(predicted.min(bearable));
        let breaks = self.breaks(end);
        let breaks: Vec<_> = breaks.iter().map(|(from, to)| (from.as_secs_f64(), to.as_secs_f64())).collect();
        Axis::with_breaks(end.as_secs_f64(), &breaks)
    }

    fn title(&self, canvas: &mut Canvas) {
        let Summary { hosts, joined, failed, lost, took, .. } = Summary::new(self);
        let mut title = format!("{}: {joined} of {hosts} hosts up", shortened(&self.session, 40));
        let when = if self.up.is_some() { "session up after" } else { "session not up;" };
        title += &format!(", {when} {}", Rounded(took));
        for (count, word) in [(failed, "failed"), (lost, "lost")] {
            if count > 0 {
                title += &format!(", {count} {word}");
            }
        }
        canvas.line(format_args!("<text x=\"20\" y=\"22\" font-size=\"16\">{}</text>", Escaped(&title)));
        if let Some(text) = Summary::new(self).prediction(self) {
            canvas.text(20.0, 40.0, "start", &format!("predicted: {text}"));
        }
    }

    fn curves(&self, canvas: &mut Canvas, bottom: f64) {
        let seconds = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
        let hosts = self.hosts.len();
        if let Some(predicted) = &self.predicted {
            let most = hosts.max(predicted.up.len());
            let style = format!("stroke=\"{PREDICTED}\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"");
            canvas.curve(&seconds(&predicted.up), most, &style);
            canvas.curve(&seconds(&self.joins()), most, "stroke=\"#2563eb\" stroke-width=\"2\"");
            canvas.curve_axis(most);
        } else {
            canvas.curve(&seconds(&self.joins()), hosts, "stroke=\"#2563eb\" stroke-width=\"2\"");
            canvas.curve_axis(hosts);
        }
        if let Some(up) = self.up {
            let x = canvas.x(up.as_secs_f64());
            canvas.line(format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#2563eb\"/>"
            ));
        }
    }

    fn row(&self, canvas: &mut Canvas, y: f64, place: usize, host: &HostLine, on_path: bool) {
        let (colour, weight) = if on_path { (PATH, "bold") } else { ("#333", "normal") };
        canvas.line(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{colour}\" \
             font-weight=\"{weight}\">{}</text>",
            LEFT - 8.0,
            y + 9.0,
            Escaped(&shortened(&host.name, NAME))
        ));
        canvas.line(format_args!("<g><title>{}</title>", Escaped(&self.tooltip(host))));
        for (from, to, colour) in phases(host, self.took()) {
            let (x, end) = (canvas.x(from.as_secs_f64()), canvas.x(to.as_secs_f64()));
            let width = (end - x).max(0.5);
            canvas.line(format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"8\" fill=\"{colour}\"/>"
            ));
        }
        let predicted = self.predicted.as_ref().and_then(|predicted| predicted.place(place));
        if let Some((from, to)) = predicted.filter(|_| host.attempts > 0) {
            let (x, end) = (canvas.x(from.as_secs_f64()), canvas.x(to.as_secs_f64()));
            let y = y + 9.5;
            canvas.line(format_args!(
                "<line x1=\"{x:.1}\" x2=\"{end:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{PREDICTED}\"/>"
            ));
        }
        canvas.line(format_args!("</g>"));
    }

    /// The tooltip of a host's row.
    fn tooltip(&self, host: &HostLine) -> String {
        let launcher = host.launcher.map(|launcher| self.host(launcher));
        let launcher =
            launcher.map_or("the front end", |host| host.map_or("an unknown host", |host| &host.name));
        let mut text = match host.attempts {
            0 => format!("{}: never launched", host.name),
            1 => format!("{}: launched by {launcher} at {}", host.name, Rounded(host.started)),
            n => format!("{}: launched by {launcher} at {}, attempt {n}", host.name, Rounded(host.started)),
        };
        for (what, at) in [("hello", host.hello), ("joined", host.joined)] {
            if let Some(at) = at {
                text += &format!(", {what} at {}", Rounded(at));
            }
        }
        if let Some((at, cause)) = &host.ended {
            text += &format!(", failed at {}: {cause}", Rounded(*at));
        }
        text
    }

    /// A line from the row of a launcher to the row of the host that it launched, on the path.
    fn link(&self, canvas: &mut Canvas, drawn: &BTreeMap<HostIndex, f64>, index: HostIndex) {
        let Some(host) = self.host(index) else { return };
        let Some(&to) = drawn.get(&index) else { return };
        let Some(&from) = host.launcher.and_then(|launcher| drawn.get(&launcher)) else { return };
        let x = canvas.x(host.started.as_secs_f64());
        canvas.line(format_args!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{PATH}\"/>",
            from + 4.0,
            to + 4.0
        ));
    }
}

/// The phases of a host, each with its colour; an open phase ends with the launch.
fn phases(host: &HostLine, took: Duration) -> impl Iterator<Item = (Duration, Duration, &'static str)> {
    let ended = host.ended.as_ref().map(|&(at, _)| at);
    let open = ended.unwrap_or(took);
    let launched = host.attempts > 0;
    let came_up = host.hello.or(host.joined);
    // The start of a host that is up may be unknown.
    let waiting = if launched { host.started } else { came_up.unwrap_or(open) };
    let starting = (launched && (host.hello.is_some() || ended.is_none()))
        .then(|| (host.started, came_up.unwrap_or(open), STARTING));
    let joining = (host.hello.is_some() && (host.joined.is_some() || ended.is_none()))
        .then(|| (host.hello.unwrap_or(open), host.joined.unwrap_or(open), JOINING));
    let up = host.joined.filter(|joined| *joined < open).map(|joined| (joined, open, UP));
    let failed =
        ended.map(|at| (if host.joined.is_none() && launched { host.reached() } else { at }, at, FAILED));
    [Some((Duration::ZERO, waiting, WAITING)), starting, joining, up, failed].into_iter().flatten()
}

fn legend(canvas: &mut Canvas, rows: &Rows) {
    let entries = [
        ("waiting", WAITING, 20.0),
        ("starting, until hello", STARTING, 85.0),
        ("joining, until all members are up", JOINING, 217.0),
        ("up", UP, 424.0),
        ("failed", FAILED, 464.0),
        ("predicted", PREDICTED, 524.0),
        ("path to the last host", PATH, 606.0),
    ];
    for (text, colour, x) in entries {
        canvas.line(format_args!("<rect x=\"{x}\" y=\"49\" width=\"9\" height=\"9\" fill=\"{colour}\"/>"));
        canvas.text(x + 13.0, 58.0, "start", text);
    }
    let mut hidden = String::new();
    if rows.every > 1 {
        hidden = format!("one host of {} is shown, and beside those ", rows.every);
        hidden += &match rows.failed_hidden {
            0 => "the failed ones and the path".into(),
            more => format!("the path and {MAX_ROWS} failed ones ({more} more failed)"),
        };
        if rows.path_hidden > 0 {
            hidden += &format!(", of which {} in the middle are left out", rows.path_hidden);
        }
    }
    canvas.text(LEFT, TOP + CURVE + 32.0, "start", &hidden);
}

/// The selection of hosts to show.
struct Rows {
    /// The hosts, with their positions in the order of launches.
    shown: Vec<(usize, HostIndex)>,
    /// The shown hosts on the path to the last host.
    path: BTreeSet<HostIndex>,
    every: usize,
    failed_hidden: usize,
    path_hidden: usize,
}

impl Rows {
    fn of(timeline: &Timeline) -> Self {
        let path = timeline.critical_path();
        let path_hidden = path.len().saturating_sub(MAX_ROWS);
        let ends = path.iter().take(MAX_ROWS / 2).chain(path.iter().skip(MAX_ROWS / 2 + path_hidden));
        let path: BTreeSet<_> = ends.copied().collect();

        let mut order: Vec<_> = timeline.indexed().collect();
        order.sort_by_key(|&(index, host)| (host.attempts == 0, host.started, index));
        let every = order.len().div_ceil(MAX_ROWS).max(1);
        let mut failed = 0;
        let mut shown = Vec::new();
        for (place, (index, host)) in order.into_iter().enumerate() {
            if place % every == 0 || path.contains(&index) {
                shown.push((place, index));
            } else if matches!(host.fate(), Fate::Failed | Fate::Lost) {
                failed += 1;
                if failed <= MAX_ROWS {
                    shown.push((place, index));
                }
            }
        }
        Self { shown, path, every, failed_hidden: failed.saturating_sub(MAX_ROWS), path_hidden }
    }
}
