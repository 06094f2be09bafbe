//! Tests of timelines. Reading files back is tested with the reader, in the program.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use libi_core::cost::Cost;
use libi_core::plan::greedy;
use libi_core::time::Instant;

/// The number of random cases of a property: `usual`, scaled by `PROPTEST_CASES` relative to its default.
fn cases(usual: u32) -> ProptestConfig {
    let asked = ProptestConfig::default().cases;
    ProptestConfig { cases: usual.saturating_mul(asked).div_ceil(256), ..ProptestConfig::default() }
}

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A launch that goes exactly as predicted.
fn exact(hosts: u32, cost: &Cost) -> Timeline {
    let Some(count) = std::num::NonZeroU32::new(hosts) else { return Timeline::default() };
    let (tree, schedule) = greedy::plan(count, cost);
    let first = cost.constant + cost.rem;
    let at = |at: Option<Instant>| first + at.unwrap().since(Instant::ZERO);
    let line = |node: u32| {
        let up = at(schedule.ready(node));
        HostLine {
            name: format!("n{node}"),
            members: 2,
            launcher: if node == 0 { None } else { tree.parent(node).map(HostIndex) },
            attempts: 1,
            started: up - cost.rem,
            hello: Some(up),
            joined: Some(up),
            ended: None,
        }
    };
    let hosts_up: Vec<_> = (0..hosts).map(line).collect();
    Timeline {
        session: "exact".into(),
        up: hosts_up.iter().filter_map(|host| host.joined).max(),
        hosts: hosts_up,
        predicted: Some(Prediction::greedy(hosts, *cost)),
    }
}

fn failed(hosts: u32) -> Timeline {
    let cause = "ssh exited 255: <no route to \"host\">\n]]>";
    let line = |host| HostLine {
        name: format!("n{host}"),
        attempts: 3,
        started: MS(900),
        ended: Some((MS(1_900), cause.into())),
        ..HostLine::default()
    };
    Timeline { hosts: (0..hosts).map(line).collect(), ..Timeline::default() }
}

const COST: Cost = Cost { seq: MS7, rem: MS172, constant: Duration::ZERO };
const MS7: Duration = Duration::from_millis(7);
const MS172: Duration = Duration::from_millis(172);

#[test]
fn a_launch_at_constant_costs_takes_as_long_as_predicted() {
    let timeline = exact(1_000, &COST.with_constant(MS(20)));
    let summary = Summary::new(&timeline);
    assert_eq!(summary.took, MS(609 + 172), "the published time, after the first host is up");
    assert_eq!((summary.predicted, summary.ratio), (Some(summary.took), Some(1.0)));
    assert_eq!((summary.hosts, summary.joined, summary.members, summary.retries), (1_000, 1_000, 2_000, 0));
    assert_eq!(timeline.joins(), timeline.predicted.as_ref().unwrap().up);
    assert_eq!(summary.busiest, Some(BusiestLauncher { host: Some(HostIndex(0)), launched: 60 }));
    let Quartiles { least, median, most, .. } = summary.starting.unwrap();
    assert_eq!([least, median, most], [MS172; 3]);
}

#[test]
fn the_critical_path_explains_all_of_the_time() {
    let timeline = exact(1_000, &COST);
    let path = timeline.critical_path();
    assert_eq!(path.first(), Some(&HostIndex(0)), "the front end launched the first");
    let last = timeline.host(*path.last().unwrap()).unwrap();
    assert_eq!(last.joined, timeline.up);
    let steps = Summary::new(&timeline).path;
    let sum: Duration = steps.iter().map(|step| step.waited + step.starting).sum();
    assert_eq!(Some(sum + steps.last().unwrap().joining), timeline.up);
    for step in &steps {
        assert_eq!(step.waited, MS7 * step.before, "a launcher is busy for SEQ with each");
    }
}

#[test]
fn launchers_in_a_circle_or_out_of_range_end_the_path() {
    let mut timeline = exact(3, &COST);
    timeline.hosts[0].launcher = Some(HostIndex(2));
    timeline.hosts[2].launcher = Some(HostIndex(0));
    assert_eq!(timeline.critical_path(), [HostIndex(0), HostIndex(2)]);
    timeline.hosts[2].launcher = Some(HostIndex(u32::MAX));
    assert_eq!(timeline.critical_path(), [HostIndex(2)]);
    let summary = Summary::new(&timeline);
    assert_eq!(summary.path.len(), 1);
    assert!(timeline.svg().contains("launched by an unknown host"));
}

#[test]
fn an_empty_timeline_is_written_drawn_and_summed_up() {
    let empty = Timeline::default();
    assert_eq!((empty.critical_path(), empty.took()), (Vec::new(), Duration::ZERO));
    assert!(empty.svg().ends_with("</svg>\n"));
    assert!(empty.chrome_json().contains("\"hosts\":0"));
    let summary = Summary::new(&empty);
    assert_eq!((summary.hosts, summary.starting, summary.busiest), (0, None, None));
    let no_hosts = Timeline { predicted: Some(Prediction::greedy(0, COST)), ..empty };
    assert_eq!(Summary::new(&no_hosts).ratio, None);
    assert!(no_hosts.svg().ends_with("</svg>\n"));
}

#[test]
fn a_launch_in_which_all_fail_has_no_path_and_shows_the_causes() {
    let timeline = failed(4);
    let summary = Summary::new(&timeline);
    assert_eq!((summary.failed, summary.joined, summary.retries), (4, 0, 8));
    assert_eq!((summary.took, summary.path.len(), summary.slowest.len()), (MS(1_900), 0, 0));
    assert_eq!(summary.busiest, Some(BusiestLauncher { host: None, launched: 4 }));
    let svg = timeline.svg();
    assert_eq!(svg.matches("ssh exited 255: &lt;no route to &quot;host&quot;&gt;\u{fffd}]]&gt;").count(), 4);
    let json = timeline.chrome_json();
    assert_eq!(json.matches("\"name\":\"failed\",\"args\":{\"cause\":\"ssh exited 255").count(), 4);
    assert!(json.contains("\"ts\":900000.000,\"dur\":1000000.000,\"name\":\"failed\""));
}

#[test]
fn every_host_has_its_phases_and_the_path_is_marked() {
    let mut timeline = exact(3, &COST);
    timeline.hosts[2].joined = Some(MS(500));
    let json = timeline.chrome_json();
    assert_eq!(json.matches("\"name\":\"starting\"").count(), 3);
    assert_eq!(json.matches("\"name\":\"joining\"").count(), 3);
    assert!(json.contains(
        "\"ph\":\"X\",\"pid\":1,\"tid\":3,\"ts\":179000.000,\"dur\":172000.000,\"name\":\"starting\",\
         \"args\":{\"launcher\":\"n0\",\"attempts\":1,\"critical_path\":true}"
    ));
    assert_eq!(json.matches("\"critical_path\":true").count(), 4, "two phases of two hosts");
    assert!(
        json.contains("\"name\":\"session up\"") && json.contains("\"name\":\"session up, as predicted\"")
    );
    assert!(json.contains("\"name\":\"hosts up\",\"args\":{\"hosts\":3}"));
}

#[test]
fn hosts_lost_long_after_the_launch_leave_it_visible() {
    let mut timeline = exact(3, &COST);
    timeline.hosts[1].ended = Some((Duration::from_secs(86_400), "link closed".into()));
    let summary = Summary::new(&timeline);
    assert_eq!((summary.lost, summary.joined, Some(summary.took)), (1, 2, timeline.up));
    assert!(timeline.svg().contains(">300 ms<"), "the axis ends with the launch");
    timeline.predicted = Some(Prediction::greedy(3, Cost::new(MS(7), Duration::from_secs(3_600))));
    assert!(timeline.svg().contains(">0.2 s<"), "nor does a prediction that is far off stretch it");
}

/// A launch in which the last host is given up after a timeout, for which the session waits.
fn with_a_timeout(hosts: u32, timeout: Duration) -> Timeline {
    let mut timeline = exact(hosts, &COST);
    if let Some(dead) = timeline.hosts.last_mut() {
        (dead.hello, dead.joined) = (None, None);
        dead.ended = Some((dead.started + timeout, "timed out".into()));
        timeline.up = dead.ended.as_ref().map(|(at, _)| *at);
    }
    timeline
}

#[test]
fn a_dead_host_does_not_enter_the_comparison_with_the_prediction() {
    let timeline = with_a_timeout(16, Duration::from_secs(60));
    let summary = Summary::new(&timeline);
    assert_eq!((summary.compared, summary.ratio), (15, Some(1.0)));
    assert!(summary.took > 100 * summary.measured.unwrap());
    let text = summary.prediction(&timeline).unwrap();
    assert!(text.contains("for the 15 hosts that joined at their first launch"), "{text}");
    assert!(text.ends_with("they took 0.435 s, 1.00 times as long"), "{text}");
    let all_failed = failed(4);
    assert_eq!(Summary::new(&all_failed).prediction(&all_failed), None);
}

#[test]
fn a_timeout_leaves_the_rest_of_the_picture_visible() {
    let timeline = with_a_timeout(16, Duration::from_secs(60));
    let [(from, to)] = timeline.breaks(timeline.took())[..] else { panic!("one break was expected") };
    assert!(from < MS(500) && to == timeline.took(), "{from:?} to {to:?}");
    let svg = timeline.svg();
    let first_bar = svg.split("<rect x=\"150.0\" y=\"250.0\" width=\"").nth(2).unwrap();
    let width: f64 = first_bar.split('"').next().unwrap().parse().unwrap();
    assert!(width > 200.0, "the first host starts for {width} pixels");
    let of_axis = |line: &&str| line.contains("text-anchor=\"middle\"");
    let labels: Vec<_> = svg.lines().filter(of_axis).collect();
    assert!(labels.len() > 3 && labels.iter().all(|label| label.ends_with(" s</text>")), "{labels:?}");
    assert!(labels[0].contains(">0.0") && labels[labels.len() - 1].contains(">60."), "{labels:?}");
}

#[test]
fn an_axis_without_a_long_quiet_interval_has_no_break() {
    assert_eq!(exact(300, &COST).breaks(MS(800)), []);
    let waiting = with_a_timeout(16, MS(500));
    assert_eq!(waiting.breaks(waiting.took()), [], "the quiet interval is no longer than the rest");
}

#[test]
fn a_slow_host_breaks_the_axis_and_keeps_both_ends_of_its_phase() {
    let mut timeline = exact(16, &COST);
    let slow = timeline.hosts.last_mut().unwrap();
    (slow.hello, slow.joined) = (Some(Duration::from_secs(50)), Some(Duration::from_secs(50) + MS(100)));
    timeline.up = slow.joined;
    let [(from, to)] = timeline.breaks(timeline.took())[..] else { panic!("one break was expected") };
    assert!(from < MS(500) && to > Duration::from_secs(49) && to < Duration::from_secs(50));
}

#[test]
fn a_host_that_is_up_is_not_drawn_as_waiting() {
    let line = HostLine { name: "n".into(), joined: Some(MS(100)), ..HostLine::default() };
    let timeline = Timeline { hosts: [line].into(), up: Some(MS(200)), ..Timeline::default() };
    let svg = timeline.svg();
    let row = svg.split("<g><title>").nth(1).unwrap();
    assert!(row.contains("width=\"400.0\" height=\"8\" fill=\"#e5e7eb\""), "waiting for half: {row}");
    assert!(row.contains("width=\"400.0\" height=\"8\" fill=\"#e7f8f0\""), "up for half: {row}");
}

#[test]
fn the_number_of_hosts_stands_at_its_line() {
    let svg = exact(16, &COST).svg();
    let top = draw::TOP;
    assert!(svg.contains(&format!("y=\"{:.1}\" text-anchor=\"end\">16<", top + 4.0)), "{}", &svg[..2_000]);
}

#[test]
fn one_host_that_is_not_launched_waits_until_it_is_given_up() {
    let ended = Some((MS(5), "the launch was given up".to_string()));
    let line = HostLine { name: "n".into(), ended, ..HostLine::default() };
    let timeline = Timeline { hosts: [line].into(), ..Timeline::default() };
    assert!(timeline.svg().contains("n: never launched, failed at 5 ms: the launch was given up"));
    assert!(timeline.chrome_json().contains("\"ts\":5000.000,\"dur\":0.000,\"name\":\"failed\""));
    assert_eq!(Summary::new(&timeline).busiest, None);
}

#[test]
fn a_picture_of_a_hundred_thousand_hosts_is_bounded_and_says_so() {
    let mut timeline = exact(100_000, &COST);
    for host in timeline.hosts.iter_mut().skip(50_000).step_by(7) {
        (host.joined, host.ended) = (None, Some((MS(900), "timed out".into())));
    }
    let svg = timeline.svg();
    let rows = svg.matches("<title>").count();
    assert!((2 * MAX_ROWS..=3 * MAX_ROWS).contains(&rows), "{rows}");
    assert!(svg.len() < 400_000, "{}", svg.len());
    assert!(svg.contains("one host of 500 is shown"));
    assert!(svg.contains("200 failed ones (69"), "{}", &svg[..3_000]);
    for index in timeline.critical_path() {
        assert!(svg.contains(&format!("font-weight=\"bold\">n{}<", index.0)));
    }
}

#[test]
fn a_path_through_every_host_is_cut_in_the_middle() {
    let mut timeline = exact(10_000, &COST);
    for (index, host) in (0u32..).zip(&mut timeline.hosts) {
        host.launcher = index.checked_sub(1).map(HostIndex);
    }
    let svg = timeline.svg();
    assert!(svg.matches("<title>").count() <= 3 * MAX_ROWS);
    let hidden = timeline.critical_path().len() - MAX_ROWS;
    assert!(svg.contains(&format!("of which {hidden} in the middle are left out")));
}

#[test]
fn quartiles_are_durations_that_were_there() {
    let of = |values: &[u64]| Quartiles::of(values.iter().copied().map(MS).collect());
    assert_eq!(of(&[]), None);
    let one = of(&[5]).unwrap();
    assert_eq!([one.least, one.lower, one.median, one.upper, one.most], [MS(5); 5]);
    let many = of(&[4, 1, 3, 2]).unwrap();
    let five = [many.least, many.lower, many.median, many.upper, many.most];
    assert_eq!(five, [1, 1, 2, 3, 4].map(MS));
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn text_cannot_break_the_picture(name in any::<String>(), cause in any::<String>()) {
        let ended = Some((MS(3), cause.clone()));
        let line = HostLine { name: name.clone(), attempts: 1, ended, ..HostLine::default() };
        let broken = Timeline { session: name, hosts: [line].into(), ..Timeline::default() };
        let harmless = HostLine { name: "n".into(), ..broken.hosts[0].clone() };
        let plain = Timeline { session: "n".into(), hosts: [harmless].into(), ..Timeline::default() };
        let marks = |svg: &str| svg.chars().filter(|c| matches!(c, '<' | '>' | '"')).count();
        let svg = broken.svg();
        prop_assert_eq!(marks(&svg), marks(&plain.svg()), "there are only our own elements");
        prop_assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
        let json = broken.chrome_json();
        prop_assert!(json.chars().all(|c| c == '\n' || !c.is_control()));
        prop_assert_eq!(json.lines().count(), plain.chrome_json().lines().count());
    }

    #[test]
    fn the_path_begins_at_the_front_end_and_sums_up_to_the_time(
        hosts in 1u32..300, seq in 0u64..50, rem in 0u64..500,
    ) {
        let timeline = exact(hosts, &Cost::new(MS(seq), MS(rem)));
        let steps = Summary::new(&timeline).path;
        prop_assert_eq!(steps[0].launcher, None);
        prop_assert!(steps.windows(2).all(|two| two[1].launcher == Some(two[0].host)));
        let sum: Duration = steps.iter().map(|step| step.waited + step.starting).sum();
        prop_assert_eq!(Some(sum), timeline.up);
    }
}
