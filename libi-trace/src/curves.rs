//! Measurements as a picture: curves against a size, both axes logarithmic.
//!
//! Linear growth is a straight line, and logarithmic growth is nearly level. The SVG is
//! self-contained.
use std::fmt::Write;

use crate::draw::Escaped;

/// A curve: sizes and the measurements at them, both positive.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The label in the legend.
    pub label: String,
    /// The points, ascending.
    pub points: Vec<(f64, f64)>,
}

/// A picture of several curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// The title.
    pub title: String,
    /// The label of the horizontal axis.
    pub across: String,
    /// The label of the vertical axis.
    pub up: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
const COLOURS: [&str; 10] = [
    "#2563eb", "#c2410c", "#15803d", "#7c3aed", "#be123c", "#0e7490", "#a16207", "#4b5563", "#db2777",
    "#65a30d",
];

/// The decades that an axis covers.
struct Axis {
    from: i32,
    to: i32,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most) = (f64::MAX, 0.0_f64);
        for value in values.filter(|value| *value > 0.0) {
            (least, most) = (least.min(value), most.max(value));
        }
        if most == 0.0 {
            return Self { from: 0, to: 1 };
        }
        let from = libm::floor(libm::log10(least)) as i32;
        let to = libm::ceil(libm::log10(most)) as i32;
        Self { from, to: to.max(from + 1) }
    }

    /// The position of a value on the axis, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        (libm::log10(value) - f64::from(self.from)) / f64::from(self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = (i32, f64)> {
        (self.from..=self.to).map(|decade| (decade, libm::pow(10.0, f64::from(decade))))
    }
}

impl Curves {
    /// The picture.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let across = Axis::of(points().map(|point| point.0));
        let up = Axis::of(points().map(|point| point.1));
        let x = |value: f64| LEFT + across.place(value) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - up.place(value) * (HEIGHT - TOP - BOTTOM);
        let mut lines = Vec::new();
        lines.push(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\"><rect width=\"100%\" height=\"100%\" \
             fill=\"white\"/>"
        ));
        lines.push(format!("<text x=\"20\" y=\"26\" font-size=\"16\">{}</text>", Escaped(&self.title)));
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (decade, value) in across.decades() {
            let (at, label) = (x(value), decade_label(decade));
            lines.push(format!(
                "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#e5e7eb\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 18.0
            ));
        }
        for (decade, value) in up.decades() {
            let (at, label) = (y(value), decade_label(decade));
            lines.push(format!(
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#e5e7eb\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                at + 4.0
            ));
        }
        lines.push(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text x=\"{LEFT}\" \
             y=\"{:.1}\">{}</text>",
            f64::midpoint(LEFT, right),
            bottom + 40.0,
            Escaped(&self.across),
            TOP - 8.0,
            Escaped(&self.up)
        ));
        for (nth, (curve, colour)) in self.curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let mut path = String::new();
            for (step, (size, value)) in
                curve.points.iter().filter(|point| point.0 > 0.0 && point.1 > 0.0).enumerate()
            {
                let word = if step == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{word}{:.1} {:.1}", x(*size), y(*value));
            }
            let label = TOP + 14.0 + nth as f64 * 20.0;
            lines.push(format!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
                 <path d=\"M{:.1} {:.1}h20\" stroke=\"{colour}\" stroke-width=\"2\"/>\
                 <text x=\"{:.1}\" y=\"{label:.1}\">{}</text>",
                right + 12.0,
                label - 4.0,
                right + 38.0,
                Escaped(&curve.label)
            ));
        }
        lines.push("</svg>\n".into());
        lines.join("\n")
    }
}

fn decade_label(decade: i32) -> String {
    match decade {
        0..=6 => format!("{}", 10_u64.pow(decade as u32)),
        -6..0 => format!("{:.*}", decade.unsigned_abs() as usize, libm::pow(10.0, f64::from(decade))),
        _ => format!("1e{decade}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec;

    fn picture(points: Vec<(f64, f64)>) -> String {
        let curve = Curve { label: "a < b".to_string(), points };
        let (title, across, up) = ("t".to_string(), "members".to_string(), "ms".to_string());
        Curves { title, across, up, curves: vec![curve] }.svg()
    }

    #[test]
    fn a_tenfold_measurement_at_a_tenfold_size_is_a_straight_line_from_corner_to_corner() {
        let svg = picture(vec![(1.0, 0.1), (10.0, 1.0), (100.0, 10.0)]);
        assert!(svg.contains("M90.0 500.0L410.0 275.0L730.0 50.0"), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains(">0.1<") && svg.contains(">100<"));
    }

    #[test]
    fn nothing_and_what_cannot_be_drawn_leave_an_empty_picture() {
        for points in [vec![], vec![(0.0, 1.0)], vec![(5.0, 0.0)]] {
            let svg = picture(points);
            assert!(svg.contains("d=\"\"") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
