//! The example that shows where the processes of a job are, with a real gdb.

use std::path::Path;
use std::process::Command;

use libi_testkit::native::{self, scratch};
use libi_testkit::processes::is_traced_or_stopped;
use libi_testkit::programs;

use crate::TIMEOUT;
use crate::launchers::{Mpirun, compiled};

#[test]
fn a_process_that_hangs_elsewhere_than_all_others_is_seen_at_once() {
    let all = std::env::var("LIBI_CASES").is_ok_and(|cases| cases == "all");
    let (processes, other) = if all { (64, 17) } else { (8, 3) };
    let Some(program) = compiled("hanging") else { return };
    let mut mpirun = Mpirun::of(processes, &program, &[&other.to_string()]);
    let said = mpirun.said(processes);
    let picture = scratch().join(format!("stacks-{}.svg", std::process::id()));
    let mut tool = Command::new(Path::new(programs::libi()).parent().unwrap().join("examples/stacks"));
    tool.arg(mpirun.pid().to_string()).arg("--svg").arg(&picture);
    let ended = native::run_command(&mut tool, TIMEOUT * 5);
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{}", ended.out);
    let lines: Vec<&str> = ended.out.lines().map(str::trim).collect();
    assert_eq!(lines[0], format!("{processes} processes on 1 host"));
    let of = |function: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(function));
        line.unwrap_or_else(|| panic!("{function} is missing in\n{}", ended.out)).trim()
    };
    let last = processes - 1;
    assert_eq!(of("main"), format!("ranks 0-{last}"));
    assert_eq!(of("solve"), "", "all that are in main: {}", ended.out);
    assert_eq!(of("exchange"), format!("ranks 0-{}, {}-{last}", other - 1, other + 1));
    assert_eq!(of("read_input"), format!("rank {other}"));
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.contains(&format!("<title>read_input: rank {other}</title>")), "{svg}");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(!said.values().any(|pid| is_traced_or_stopped(*pid)), "all go on");
    std::fs::remove_file(picture).unwrap();
}
