//! A launch as a picture: hosts down, time across.
//!
//! Above, how many hosts are up at each time. Below, a bar for every launch from its start to the moment when its
//! host is up, in the order of launches, with the path to the last host marked. A picture holds about
//! [`MOST_ROWS`] launches; of larger ones it shows every k-th, and of a long path its two ends beside them, and
//! says so. The SVG needs nothing but itself.

use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt::Write as _;

use crate::plan::explain::explain;
use crate::plan::{Schedule, Tree};
use crate::time::Rounded;

/// How many launches a picture shows, with as many again of the path to the last host.
pub const MOST_ROWS: u32 = 200;

const LEFT: f64 = 150.0;
const WIDTH: f64 = 800.0;
const TOP: f64 = 70.0;
const CURVE: f64 = 140.0;
const ROW: f64 = 13.0;

/// Draws a launch, calling each node by the name that `name` gives it.
#[must_use]
pub fn launch(tree: &Tree, schedule: &Schedule, name: &dyn Fn(u32) -> String) -> String {
    let last = schedule.ready(schedule.last()).unwrap_or_default().as_secs_f64();
    let drawing = Drawing { end: if last > 0.0 { last } else { 1e-9 }, svg: String::new() };
    drawing.finish(tree, schedule, name)
}

struct Drawing {
    end: f64,
    svg: String,
}

impl Drawing {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + WIDTH * seconds / self.end
    }

    fn finish(mut self, tree: &Tree, schedule: &Schedule, name: &dyn Fn(u32) -> String) -> String {
        let path = explain(tree, schedule).path;
        let hidden = path.len().saturating_sub(MOST_ROWS as usize);
        let ends =
            path.iter().take(MOST_ROWS as usize / 2).chain(path.iter().skip(MOST_ROWS as usize / 2 + hidden));
        let path: BTreeSet<u32> = ends.map(|step| step.node).collect();
        let every = tree.hosts().div_ceil(MOST_ROWS).max(1);
        let shown = tree.launches().filter(|(_, node)| node % every == 0 || path.contains(node));
        let rows = shown.clone().count();
        let first_row = TOP + CURVE + 30.0;
        let bottom = first_row + rows as f64 * ROW;

        self.open(bottom + 40.0);
        self.title(tree, schedule, every);
        self.grid(bottom);
        self.curve(schedule, tree.hosts());
        for (row, (launcher, node)) in shown.enumerate() {
            let y = first_row + row as f64 * ROW;
            self.bar(y, schedule, node, path.contains(&node), &name(node), &name(launcher));
        }
        self.svg.push_str("</svg>\n");
        self.svg
    }

    fn open(&mut self, height: f64) {
        let width = LEFT + WIDTH + 50.0;
        self.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>"
        ));
    }

    fn title(&mut self, tree: &Tree, schedule: &Schedule, every: u32) {
        let (hosts, depth, most) = (tree.hosts(), tree.depth(), tree.max_children());
        let time = Rounded(schedule.launch_time());
        let constant = schedule.constant;
        self.line(format_args!(
            "<text x=\"20\" y=\"26\" font-size=\"16\">hosts: {hosts}; all up after {time}{}; \
             depth {depth}, most children {most}</text>",
            if constant.is_zero() {
                String::new()
            } else {
                alloc::format!(", {} of them constant", Rounded(constant))
            }
        ));
        self.text(20.0, 46.0, "start", "bars: from the start of a launch until its host is up;");
        self.line(format_args!(
            "<text x=\"300\" y=\"46\" fill=\"#c2410c\">the path to the last host is marked</text>"
        ));
        if every > 1 {
            self.line(format_args!(
                "<text x=\"500\" y=\"46\">one launch of {every} is shown beside it</text>"
            ));
        }
    }

    /// Lines at round times.
    fn grid(&mut self, bottom: f64) {
        let step = round_step(self.end / 8.0);
        let mut tick = 0u32;
        if self.end <= 1e-9 {
            return; // nothing takes any time
        }
        while f64::from(tick) * step <= self.end {
            let seconds = f64::from(tick) * step;
            let x = self.x(seconds);
            self.line(format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                Rounded(core::time::Duration::from_nanos(libm::round(seconds * 1e9) as u64))
            ));
            tick += 1;
        }
    }

    /// How many hosts are up, over time.
    fn curve(&mut self, schedule: &Schedule, hosts: u32) {
        let mut ready: alloc::vec::Vec<_> = (0..hosts).filter_map(|node| schedule.ready(node)).collect();
        ready.sort_unstable();
        let y = |up: usize| TOP + CURVE * (1.0 - up as f64 / f64::from(hosts));
        let mut points = String::new();
        let every = (ready.len() / 500).max(1);
        let mut height = y(0);
        for (i, at) in ready.iter().enumerate() {
            if i % every == 0 || i + 1 == ready.len() {
                let x = self.x(at.as_secs_f64());
                let _ = write!(points, "{x:.1},{height:.1} ");
                height = y(i + 1);
                let _ = write!(points, "{x:.1},{height:.1} ");
            }
        }
        self.line(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#2563eb\" stroke-width=\"2\"/>",
            points.trim_end()
        ));
        self.text(LEFT - 8.0, TOP + 10.0, "end", "hosts up");
        self.text(LEFT - 8.0, TOP + 24.0, "end", &alloc::format!("{hosts}"));
        self.text(LEFT - 8.0, TOP + CURVE, "end", "0");
    }

    fn bar(&mut self, y: f64, schedule: &Schedule, node: u32, marked: bool, name: &str, launcher: &str) {
        let seconds = |at: Option<crate::time::Instant>| at.unwrap_or_default().as_secs_f64();
        let (start, up) = (seconds(schedule.started(node)), seconds(schedule.ready(node)));
        let (x, width) = (self.x(start), (self.x(up) - self.x(start)).max(0.5));
        let colour = if marked { "#ea580c" } else { "#93c5fd" };
        self.text(LEFT - 8.0, y + 9.0, "end", &shortened(name));
        self.line(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"10\" fill=\"{colour}\"><title>{}: \
             launched by {} at {start:.6} s, up at {up:.6} s</title></rect>",
            Escaped(name),
            Escaped(launcher)
        ));
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            Escaped(text)
        ));
    }

    fn line(&mut self, line: core::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.svg, "{line}");
    }
}

/// The smallest of 1, 2, 5, 10, 20, 50 … that is no smaller, in whatever power of ten it takes.
fn round_step(least: f64) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10(least)));
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|&step| step >= least).unwrap_or(least)
}

/// A name that fits beside its bar: of a long one, the beginning and the end.
fn shortened(name: &str) -> String {
    const FITS: usize = 22;
    let length = name.chars().count();
    if length <= FITS {
        return name.into();
    }
    let (front, back) = (name.chars().take(FITS / 2), name.chars().skip(length - FITS / 2));
    front.chain(['…']).chain(back).collect()
}

/// Text as SVG wants it written.
struct Escaped<'a>(&'a str);

impl core::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            c if c.is_control() => f.write_char('\u{fffd}'), // XML has no way to write most of them
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;
    use core::time::Duration;
    use std::format;

    use super::*;
    use crate::cost::Cost;
    use crate::plan::greedy;

    fn drawn(hosts: u32) -> String {
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
        let (tree, schedule) = greedy::plan(NonZeroU32::new(hosts).unwrap(), &cost);
        launch(&tree, &schedule, &|node| format!("<n{node}>"))
    }

    #[test]
    fn a_small_launch_shows_every_host_and_a_large_one_says_that_it_does_not() {
        assert_eq!(drawn(100).matches("<title>").count(), 99);
        let large = drawn(100_000);
        let bars = large.matches("<title>").count() as u32;
        assert!((MOST_ROWS - 1..MOST_ROWS + 20).contains(&bars), "{bars}");
        assert!(large.contains("one launch of 500 is shown"));
        assert!(large.len() < 100_000);
    }

    #[test]
    fn a_path_through_every_host_is_cut_in_the_middle() {
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
        let tree = crate::plan::Shape::Chain.tree(NonZeroU32::new(100_000).unwrap(), &cost);
        let svg = launch(&tree, &tree.schedule(&cost), &|node| format!("n{node}"));
        assert!((1..=2 * MOST_ROWS as usize).contains(&svg.matches("<title>").count()));
        assert!(svg.contains(">n1<") && svg.contains(">n99999<"));
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("compute-node-0017.cluster.example.org"), "compute-nod…example.org");
    }

    #[test]
    fn the_critical_path_is_always_shown_and_marked() {
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
        let (tree, schedule) = greedy::plan(NonZeroU32::new(100_000).unwrap(), &cost);
        let marked = drawn(100_000).matches("#ea580c").count();
        assert_eq!(marked, explain(&tree, &schedule).path.len());
    }

    #[test]
    fn names_cannot_break_the_picture() {
        assert!(drawn(3).contains("&lt;n1&gt;: launched by &lt;n0&gt;"));
        assert_eq!(alloc::format!("{}", Escaped("a\u{1}\"")), "a\u{fffd}&quot;");
        assert!(!drawn(3).contains("<n1>"));
    }

    #[test]
    fn a_launch_of_nobody_or_in_no_time_is_drawn_too() {
        assert!(drawn(1).ends_with("</svg>\n"));
        let (tree, schedule) = greedy::plan(NonZeroU32::new(3).unwrap(), &Cost::default());
        assert!(launch(&tree, &schedule, &|_| String::new()).ends_with("</svg>\n"));
    }

    #[test]
    fn ticks_are_round() {
        for (least, step) in [(0.073, 0.1), (1.0, 1.0), (0.11, 0.2), (30.0, 50.0), (7e-8, 1e-7)] {
            assert!((round_step(least) / step - 1.0).abs() < 1e-9, "{least}");
        }
    }
}
