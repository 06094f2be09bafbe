//! Shared parts of launch pictures: a time axis, curves of hosts up over time, and escaped text.

use alloc::string::String;
use core::fmt::Write as _;
use core::time::Duration;

use crate::time::Rounded;

/// Where the time axis begins; the names of hosts are to the left of it.
pub(crate) const LEFT: f64 = 150.0;
/// How long the time axis is.
pub(crate) const WIDTH: f64 = 800.0;
/// Where the curve of hosts up begins; titles are above it.
pub(crate) const TOP: f64 = 70.0;
/// How high that curve is.
pub(crate) const CURVE: f64 = 140.0;
/// How high the row of a host is.
pub(crate) const ROW: f64 = 13.0;
/// How many characters of a name fit beside its row.
pub(crate) const NAME: usize = 22;

/// A picture that is being drawn.
pub(crate) struct Canvas {
    end: f64,
    svg: String,
}

impl Canvas {
    /// A picture of this height whose time axis ends after this many seconds.
    pub(crate) fn new(end: f64, height: f64) -> Self {
        let mut canvas = Self { end: if end > 0.0 { end } else { 1e-9 }, svg: String::new() };
        let width = LEFT + WIDTH + 50.0;
        canvas.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>"
        ));
        canvas
    }

    /// Where a time is on the axis; what is later than its end is at its end.
    pub(crate) fn x(&self, seconds: f64) -> f64 {
        LEFT + WIDTH * (seconds / self.end).min(1.0)
    }

    /// Lines at round times, down to `bottom`.
    pub(crate) fn grid(&mut self, bottom: f64) {
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
                Rounded(Duration::from_nanos(libm::round(seconds * 1e9) as u64))
            ));
            tick += 1;
        }
    }

    /// How many of `hosts` are up over time, from the seconds at which they are, ascending.
    pub(crate) fn curve(&mut self, up: &[f64], hosts: usize, style: &str) {
        let y = |up: usize| TOP + CURVE * (1.0 - up as f64 / hosts.max(1) as f64);
        let mut points = String::new();
        let every = (up.len() / 500).max(1);
        let mut height = y(0);
        for (i, &at) in up.iter().enumerate() {
            if i % every == 0 || i + 1 == up.len() {
                let x = self.x(at);
                let _ = write!(points, "{x:.1},{height:.1} ");
                height = y(i + 1);
                let _ = write!(points, "{x:.1},{height:.1} ");
            }
        }
        self.line(format_args!("<polyline points=\"{}\" fill=\"none\" {style}/>", points.trim_end()));
    }

    /// What the curves' axis says.
    pub(crate) fn curve_axis(&mut self, hosts: usize) {
        self.text(LEFT - 8.0, TOP + 10.0, "end", "hosts up");
        self.text(LEFT - 8.0, TOP + 24.0, "end", &alloc::format!("{hosts}"));
        self.text(LEFT - 8.0, TOP + CURVE, "end", "0");
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            Escaped(text)
        ));
    }

    /// Adds elements unchanged; any text in them has to be [`Escaped`].
    pub(crate) fn line(&mut self, line: core::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.svg, "{line}");
    }

    pub(crate) fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }
}

/// The smallest of 1, 2, 5, 10, 20, 50 … that is no smaller, in whatever power of ten it takes.
fn round_step(least: f64) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10(least)));
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|&step| step >= least).unwrap_or(least)
}

/// Shortens text to `fits` characters and an ellipsis: the beginning and the end remain.
pub(crate) fn shortened(text: &str, fits: usize) -> String {
    let length = text.chars().count();
    if length <= fits {
        return text.into();
    }
    let (front, back) = (text.chars().take(fits / 2), text.chars().skip(length - fits / 2));
    front.chain(['…']).chain(back).collect()
}

/// Text, escaped for XML.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl core::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            // XML has no way to write most of them.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => f.write_char('\u{fffd}'),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("compute-node-0017.cluster.example.org", NAME), "compute-nod…example.org");
    }

    #[test]
    fn what_xml_cannot_hold_is_replaced() {
        assert_eq!(alloc::format!("{}", Escaped("a\u{1}\u{ffff}\"")), "a\u{fffd}\u{fffd}&quot;");
    }

    #[test]
    fn ticks_are_round() {
        for (least, step) in [(0.073, 0.1), (1.0, 1.0), (0.11, 0.2), (30.0, 50.0), (7e-8, 1e-7)] {
            assert!((round_step(least) / step - 1.0).abs() < 1e-9, "{least}");
        }
    }
}
