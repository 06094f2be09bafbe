//! A tool that was written for LaunchMON's API, beside jobs of `srun`.

use std::process::Stdio;

use libi_testkit::labs::{Slurm, within};
use libi_testkit::native::Link;

use crate::TIMEOUT;
use crate::scene::{Job, Scene};

const NODES: u32 = 4;
const PROCESSES: u32 = 8;

/// What each daemon knows, and the front end, of `out`.
fn have_their_parts(scene: &Scene, out: &str) {
    let lines: Vec<&str> = out.lines().filter(|line| line.starts_with("rank ")).collect();
    assert_eq!(lines.len(), PROCESSES as usize, "{out}");
    for daemon in 0..NODES {
        let is_own = |line: &&&str| line.ends_with(&format!(" on host {daemon}"));
        let own: String = lines.iter().filter(is_own).map(|line| format!("{line}\n")).collect();
        assert_eq!(scene.read(&format!("ready.{daemon}")), format!("{own}41 start, two words\n"));
        assert_eq!(own.lines().count(), (PROCESSES / NODES) as usize);
    }
}

fn scene(lab: &Slurm) -> Scene {
    Scene::new(Link::Static).with("SLURM_CONF", &lab.path("slurm.conf")).with("LIBI_LAB", "slurm")
}

#[test]
fn a_tool_attaches_to_a_job_and_leaves_it_as_it_was() {
    let Some(lab) = Slurm::up() else { return };
    let scene = scene(&lab);
    let mut srun = lab.plain("srun");
    srun.args([format!("-N{NODES}"), format!("-n{PROCESSES}"), "-O".to_owned()]).args(scene.script());
    let job = Job(srun.stdin(Stdio::null()).spawn().unwrap());
    within(TIMEOUT, "all ranks have begun", || scene.began().len() == PROCESSES as usize);
    let mut front = scene.start("attach", &["talks", "detach", &job.0.id().to_string()]);
    have_their_parts(&scene, &front.until("ready"));
    scene.leave("go");
    front.until("detached");
    scene.leave("stop");
    (0..NODES).for_each(|daemon| scene.awaits(&format!("left.{daemon}")));
    scene.leave("end");
    front.ends_with("ended\n");
    drop((job, scene));
    lab.nothing_is_left();
}

#[test]
fn a_tool_launches_a_job_whose_ranks_are_held_until_it_lets_them_go_or_kills_them() {
    let Some(lab) = Slurm::up() else { return };
    for how in ["detach", "shutdown", "kill"] {
        let scene = scene(&lab);
        let nodes = format!("-N{NODES}");
        let job = scene.job(&["srun", &nodes, "-O", "-n"], PROCESSES);
        let words: Vec<&str> = ["stays", how].into_iter().chain(job.iter().map(String::as_str)).collect();
        let mut front = scene.start("launch", &words);
        let out = front.until("ready");
        assert!(out.contains("manager 1, "), "{out}");
        have_their_parts(&scene, &out);
        assert!(scene.began().is_empty());
        scene.leave("go");
        if how != "kill" {
            within(TIMEOUT, "all ranks have begun", || scene.began().len() == PROCESSES as usize);
        }
        if how == "detach" {
            front.until("detached");
        }
        scene.leave("end");
        front.until("ended");
        assert_eq!(scene.began().is_empty(), how == "kill");
        scene.leave("finish");
        // The job has its standard output as well.
        front.end();
        drop(scene);
        lab.nothing_is_left();
    }
}
