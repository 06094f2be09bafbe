//! Shared parts of launch pictures: a time axis, curves of hosts up over time, and escaped text.
use std::fmt::Write as _;

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

/// The width of a break of the time axis.
const BREAK: f64 = 36.0;

/// A time axis. Long intervals without anything to see are cut out, so that the rest stays visible.
pub(crate) struct Axis {
    /// The parts that are drawn to scale, in seconds, ascending and disjoint.
    parts: Vec<(f64, f64)>,
    /// The seconds in all parts together.
    shown: f64,
}

impl Axis {
    /// An axis to scale from 0 to `end`.
    pub(crate) fn to(end: f64) -> Self {
        Self::with_breaks(end, &[])
    }

    /// An axis from 0 to `end` without these intervals, which ascend and are disjoint.
    pub(crate) fn with_breaks(end: f64, breaks: &[(f64, f64)]) -> Self {
        let end = if end > 0.0 { end } else { 1e-9 };
        let mut parts = Vec::new();
        let mut from = 0.0;
        for &(start, stop) in breaks {
            parts.push((from, start));
            from = stop;
        }
        parts.push((from, end));
        let shown = parts.iter().map(|(from, to)| to - from).sum();
        Self { parts, shown }
    }

    /// The position of a time; what is later than the end is at the end.
    fn x(&self, seconds: f64) -> f64 {
        let breaks = (self.parts.len() - 1) as f64;
        let scale = (WIDTH - breaks * BREAK) / self.shown;
        let mut x = LEFT;
        let mut before = 0.0;
        for (nth, &(from, to)) in self.parts.iter().enumerate() {
            if seconds < from {
                return x - BREAK * (from - seconds) / (from - before);
            }
            if seconds <= to || nth + 1 == self.parts.len() {
                return x + scale * (seconds.min(to) - from);
            }
            x += scale * (to - from) + BREAK;
            before = to;
        }
        x
    }
}

/// A picture that is being drawn.
pub(crate) struct Canvas {
    axis: Axis,
    svg: String,
}

impl Canvas {
    /// A picture of this height with this time axis.
    pub(crate) fn new(axis: Axis, height: f64) -> Self {
        let mut canvas = Self { axis, svg: String::new() };
        let width = LEFT + WIDTH + 50.0;
        canvas.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>"
        ));
        canvas
    }

    /// The position of a time on the axis; what is later than its end is at its end.
    pub(crate) fn x(&self, seconds: f64) -> f64 {
        self.axis.x(seconds)
    }

    /// Lines at round times, down to `bottom`.
    pub(crate) fn grid(&mut self, bottom: f64) {
        let end = self.axis.parts.last().map_or(0.0, |part| part.1);
        if end <= 1e-9 {
            return; // nothing takes any time
        }
        let step = round_step(self.axis.shown / 8.0);
        let unit = Unit::of(end, step);
        for (from, to) in self.axis.parts.clone() {
            let mut tick = libm::fabs(libm::ceil(from / step - 1e-9)); // not -0
            let mut labelled = false;
            while tick * step <= to * (1.0 + 1e-9) {
                self.tick(tick * step, bottom, &unit);
                labelled = true;
                tick += 1.0;
            }
            // A part between or behind breaks without a round time says where it is.
            if !labelled {
                self.tick(f64::midpoint(from, to), bottom, &unit);
            }
        }
    }

    fn tick(&mut self, seconds: f64, bottom: f64, unit: &Unit) {
        let x = self.x(seconds);
        self.line(format_args!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            unit.label(seconds)
        ));
    }

    /// Cuts through the picture at the breaks of the axis.
    pub(crate) fn breaks(&mut self, bottom: f64) {
        let breaks = self.axis.parts.len() - 1;
        for (_, to) in self.axis.parts.clone().into_iter().take(breaks) {
            let (left, right) = (self.x(to) + BREAK / 2.0 - 4.0, self.x(to) + BREAK / 2.0 + 4.0);
            let bottom = bottom + 4.0;
            self.line(format_args!(
                "<rect x=\"{left:.1}\" y=\"{TOP}\" width=\"8\" height=\"{:.1}\" fill=\"#fff\"/>\
                 <path d=\"M{left:.1} {TOP}V{bottom:.1}M{right:.1} {TOP}V{bottom:.1}\" \
                 stroke=\"#6b7280\" stroke-dasharray=\"3 3\" fill=\"none\"/>",
                bottom - TOP
            ));
        }
    }

    /// The number of `hosts` that are up over time, from the ascending seconds of their joins.
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

    /// The labels of the curves' axis.
    pub(crate) fn curve_axis(&mut self, hosts: usize) {
        self.text(LEFT - 8.0, TOP + CURVE / 2.0 + 4.0, "end", "hosts up");
        self.text(LEFT - 8.0, TOP + 4.0, "end", &format!("{hosts}"));
        self.text(LEFT - 8.0, TOP + CURVE + 4.0, "end", "0");
        for y in [TOP, TOP + CURVE] {
            let right = LEFT + WIDTH;
            self.line(format_args!(
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>"
            ));
        }
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            Escaped(text)
        ));
    }

    /// Adds elements unchanged; any text in them has to be [`Escaped`].
    pub(crate) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.svg, "{line}");
    }

    pub(crate) fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }
}

/// The unit and the decimals of all labels of one axis.
struct Unit {
    seconds: f64,
    name: &'static str,
    decimals: usize,
}

impl Unit {
    fn of(end: f64, step: f64) -> Self {
        let (seconds, name) = match end {
            1.0.. => (1.0, "s"),
            1e-3.. => (1e-3, "ms"),
            1e-6.. => (1e-6, "µs"),
            _ => (1e-9, "ns"),
        };
        let decimals = libm::ceil(-libm::log10(step / seconds) - 1e-9).clamp(0.0, 9.0) as usize;
        Self { seconds, name, decimals }
    }

    fn label(&self, seconds: f64) -> String {
        let Self { name, decimals, .. } = *self;
        format!("{:.decimals$} {name}", seconds / self.seconds)
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

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        assert_eq!(format!("{}", Escaped("a\u{1}\u{ffff}\"")), "a\u{fffd}\u{fffd}&quot;");
    }

    #[test]
    fn a_break_keeps_both_of_its_sides_to_scale_and_in_order() {
        let axis = Axis::with_breaks(31.0, &[(1.0, 30.0)]);
        let scale = (WIDTH - BREAK) / 2.0;
        for (seconds, x) in
            [(0.0, 0.0), (0.5, 0.5 * scale), (1.0, scale), (30.0, scale + BREAK), (31.0, WIDTH)]
        {
            assert!((axis.x(seconds) - LEFT - x).abs() < 1e-6, "{seconds}");
        }
        assert!((axis.x(15.5) - LEFT - scale - BREAK / 2.0).abs() < 1e-6);
        assert!((axis.x(99.0) - LEFT - WIDTH).abs() < 1e-6);
    }

    #[test]
    fn all_labels_of_an_axis_have_one_unit() {
        let labels = |end: f64, step: f64| {
            let unit = Unit::of(end, step);
            [0.0, 1.0, 2.0].map(|tick| unit.label(tick * step))
        };
        assert_eq!(labels(0.35, 0.05), ["0 ms", "50 ms", "100 ms"]);
        assert_eq!(labels(30.2, 0.05), ["0.00 s", "0.05 s", "0.10 s"]);
        assert_eq!(labels(90.0, 20.0), ["0 s", "20 s", "40 s"]);
        assert_eq!(labels(0.000_7, 0.000_1), ["0 µs", "100 µs", "200 µs"]);
    }

    #[test]
    fn ticks_are_round() {
        for (least, step) in [(0.073, 0.1), (1.0, 1.0), (0.11, 0.2), (30.0, 50.0), (7e-8, 1e-7)] {
            assert!((round_step(least) / step - 1.0).abs() < 1e-9, "{least}");
        }
    }
}
