//! A launch as a picture: hosts down, time across.
//!
//! Above, the number of hosts up over time. Below, a bar for every launch from its start until its
//! host is up, in the order of launches, with the path to the last host marked. A picture shows
//! about [`MAX_ROWS`] launches; of larger trees it shows every k-th, plus both ends of a long path,
//! and says so. The SVG is self-contained.

use std::collections::BTreeSet;

use crate::draw::{Axis, CURVE, Canvas, Escaped, LEFT, NAME, ROW, TOP, shortened};
use libi_core::plan::explain::explain;
use libi_core::plan::{Root, Schedule, Tree};
use libi_core::time::{Instant, Rounded};

/// The number of launches that a picture shows; up to as many again belong to the path to the last
/// host.
pub const MAX_ROWS: u32 = 200;

/// Draws a launch; `name` gives the label of each node. A front end is no host that is up.
#[must_use]
pub fn launch(tree: &Tree, schedule: &Schedule, root: Root, name: &dyn Fn(u32) -> String) -> String {
    let path = explain(tree, schedule).path;
    let hidden = path.len().saturating_sub(MAX_ROWS as usize);
    let ends =
        path.iter().take(MAX_ROWS as usize / 2).chain(path.iter().skip(MAX_ROWS as usize / 2 + hidden));
    let path: BTreeSet<u32> = ends.map(|step| step.node).collect();
    let every = tree.hosts().div_ceil(MAX_ROWS).max(1);
    let shown = tree.launches().filter(|(_, node)| node % every == 0 || path.contains(node));
    let rows = shown.clone().count();
    let first_row = TOP + CURVE + 30.0;
    let bottom = first_row + rows as f64 * ROW;

    let last = schedule.ready(schedule.last()).unwrap_or_default().as_secs_f64();
    let mut canvas = Canvas::new(Axis::to(last), bottom + 40.0);
    let hosts = root.hosts(tree.hosts());
    title(&mut canvas, tree, hosts, schedule, every);
    canvas.grid(bottom);
    let mut up: Vec<_> =
        (tree.hosts() - hosts..tree.hosts()).filter_map(|node| schedule.ready(node)).collect();
    up.sort_unstable();
    let up: Vec<f64> = up.into_iter().map(Instant::as_secs_f64).collect();
    canvas.curve(&up, hosts as usize, "stroke=\"#2563eb\" stroke-width=\"2\"");
    canvas.curve_axis(hosts as usize);
    for (row, (launcher, node)) in shown.enumerate() {
        let y = first_row + row as f64 * ROW;
        bar(&mut canvas, y, schedule, node, path.contains(&node), &name(node), &name(launcher));
    }
    canvas.finish()
}

fn title(canvas: &mut Canvas, tree: &Tree, hosts: u32, schedule: &Schedule, every: u32) {
    let (depth, most) = (tree.depth(), tree.max_children());
    let time = Rounded(schedule.launch_time());
    let constant = schedule.constant();
    canvas.line(format_args!(
        "<text x=\"20\" y=\"26\" font-size=\"16\">hosts: {hosts}; all up after {time}{}; \
         depth {depth}, most children {most}</text>",
        if constant.is_zero() { String::new() } else { format!(", {} of them constant", Rounded(constant)) }
    ));
    canvas.text(20.0, 46.0, "start", "bars: from the start of a launch until its host is up;");
    canvas.line(format_args!(
        "<text x=\"300\" y=\"46\" fill=\"#c2410c\">the path to the last host is marked</text>"
    ));
    if every > 1 {
        canvas.line(format_args!("<text x=\"500\" y=\"46\">one launch of {every} is shown beside it</text>"));
    }
}

fn bar(
    canvas: &mut Canvas,
    y: f64,
    schedule: &Schedule,
    node: u32,
    on_path: bool,
    name: &str,
    launcher: &str,
) {
    let seconds = |at: Option<Instant>| at.unwrap_or_default().as_secs_f64();
    let (start, up) = (seconds(schedule.started(node)), seconds(schedule.ready(node)));
    let (x, width) = (canvas.x(start), (canvas.x(up) - canvas.x(start)).max(0.5));
    let colour = if on_path { "#ea580c" } else { "#93c5fd" };
    canvas.text(LEFT - 8.0, y + 9.0, "end", &shortened(name, NAME));
    canvas.line(format_args!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"10\" fill=\"{colour}\"><title>{}: \
         launched by {} at {start:.6} s, up at {up:.6} s</title></rect>",
        Escaped(name),
        Escaped(launcher)
    ));
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;
    use libi_core::cost::Cost;
    use libi_core::plan::greedy;

    fn drawn(hosts: u32) -> String {
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
        let (tree, schedule) = greedy::plan(NonZeroU32::new(hosts).unwrap(), &cost);
        launch(&tree, &schedule, Root::Host, &|node| format!("<n{node}>"))
    }

    #[test]
    fn a_small_launch_shows_every_host_and_a_large_one_says_that_it_does_not() {
        assert_eq!(drawn(100).matches("<title>").count(), 99);
        let large = drawn(100_000);
        let bars = large.matches("<title>").count() as u32;
        assert!((MAX_ROWS - 1..MAX_ROWS + 20).contains(&bars), "{bars}");
        assert!(large.contains("one launch of 500 is shown"));
        assert!(large.len() < 100_000);
    }

    #[test]
    fn a_front_end_is_a_launcher_and_no_host_that_is_up() {
        let (tree, schedule) = greedy::plan(NonZeroU32::new(4).unwrap(), &Cost::default());
        let name = |node| if node == 0 { "front end".to_owned() } else { format!("n{node}") };
        let svg = launch(&tree, &schedule, Root::FrontEnd { launches: None }, &name);
        assert!(svg.contains(">hosts: 3; all up") && !svg.contains(">front end<"), "{svg}");
        assert!(svg.contains("n1: launched by front end at "), "{svg}");
    }

    #[test]
    fn a_path_through_every_host_is_cut_in_the_middle() {
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
        let tree = libi_core::plan::Shape::Chain.tree(NonZeroU32::new(100_000).unwrap(), &cost);
        let svg = launch(&tree, &tree.schedule(&cost), Root::Host, &|node| format!("n{node}"));
        assert!((1..=2 * MAX_ROWS as usize).contains(&svg.matches("<title>").count()));
        assert!(svg.contains(">n1<") && svg.contains(">n99999<"));
    }

    #[test]
    fn the_critical_path_is_always_shown_and_marked() {
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
        let (tree, schedule) = greedy::plan(NonZeroU32::new(100_000).unwrap(), &cost);
        let on_path = drawn(100_000).matches("#ea580c").count();
        assert_eq!(on_path, explain(&tree, &schedule).path.len());
    }

    #[test]
    fn names_cannot_break_the_picture() {
        assert!(drawn(3).contains("&lt;n1&gt;: launched by &lt;n0&gt;"));
        assert!(!drawn(3).contains("<n1>"));
    }

    #[test]
    fn a_launch_of_nobody_or_in_no_time_is_drawn_too() {
        assert!(drawn(1).ends_with("</svg>\n"));
        let (tree, schedule) = greedy::plan(NonZeroU32::new(3).unwrap(), &Cost::default());
        assert!(launch(&tree, &schedule, Root::Host, &|_| String::new()).ends_with("</svg>\n"));
    }
}
