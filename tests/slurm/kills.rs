//! SIGKILL at random moments, from before a step starts until its session has been up for a
//! while: of the front end, srun, a leader, a slurmd. Each time there is a verdict, where the front
//! end is there to give it, and nothing is left: no job, no step, no process, no file of a step.
//!
//! `LIBI_KILLS` is the number of moments for each victim (2 by default), `LIBI_SEED` their seed.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libi::{Error, FrontEnd, Session};
use libi_core::sim::rng::Rng;

use crate::running::{SOON, leaders, srun_of};
use crate::{TIMEOUT, options};
use libi_testkit::kills::{moment, moments, seeded};
use libi_testkit::labs::{Marked, Slurm, within};
use libi_testkit::local::{Heard, kill};

const HOSTS: &str = "s[0001-0006]:2";
const NODES: u64 = 6;
const MEMBERS: u32 = 12;
/// Members that talk until they are ended.
const WORDS: [&str; 4] = ["join", "talk:barrier", "out:talks", "talk:endless:1000"];
const ROLE: &str = "LIBI_TEST_ROLE";
/// How long the verdict may take: srun tries to reach a slurmd for 11 s, and the launch is tried
/// again.
const VERDICT: Duration = Duration::from_secs(60);
/// How long a program may run whose slurmd was killed when it had begun to start it: it awaits its
/// ticket for 30 s, and Slurm ends nothing there meanwhile.
const ORPHANS: Duration = Duration::from_secs(40);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    FrontEnd,
    Srun,
    Leader,
    Slurmd,
}

#[test]
fn a_killed_front_end_leaves_nothing() {
    kill_at_random_moments(Victim::FrontEnd);
}

#[test]
fn a_killed_srun_is_noticed_or_replaced_and_nothing_is_left() {
    kill_at_random_moments(Victim::Srun);
}

/// In these moments Slurm gives srun its job, and the process does not exist yet that ends the job of
/// a killed srun.
#[test]
fn an_srun_that_is_killed_when_its_job_begins_leaves_none() {
    let Some(lab) = Slurm::up() else { return };
    for moment in (0..12).map(|step| Duration::from_micros(500 * step)) {
        println!("srun is killed after {moment:?}");
        Scene::start(&lab).kill(Victim::Srun, moment, &mut Rng::new(1));
        lab.nothing_is_left();
    }
}

#[test]
fn a_killed_leader_is_noticed_or_replaced_and_nothing_is_left() {
    kill_at_random_moments(Victim::Leader);
}

#[test]
fn a_killed_slurmd_is_noticed_or_does_no_harm_and_nothing_is_left() {
    kill_at_random_moments(Victim::Slurmd);
}

fn kill_at_random_moments(victim: Victim) {
    let Some(lab) = Slurm::up() else { return };
    let mut random = seeded().fork(victim as u64);
    let lasts = launch_undisturbed(&lab);
    for nth in 1..=moments(2) {
        let moment = moment(lasts, &mut random);
        println!("{nth}. {victim:?} is killed after {moment:?} of {lasts:?}");
        match victim {
            Victim::FrontEnd => kill_front_end(moment),
            _ => Scene::start(&lab).kill(victim, moment, &mut random),
        }
        lab.nothing_is_left();
        within(SOON, "no file of a step is left", || lab.step_files().is_empty());
    }
}

/// How long it takes until such a session is up, and all have talked.
fn launch_undisturbed(lab: &Slurm) -> Duration {
    let mut scene = Scene::start(lab);
    let talks = |heard: &Heard| (0..MEMBERS).all(|rank| heard.out(rank) == "talks\n");
    scene.heard.until(&scene.front, "all have talked", talks);
    let lasts = scene.began.elapsed();
    drop(scene);
    lab.nothing_is_left();
    lasts
}

/// A front end in a process of its own; it does not survive the test.
struct Front(Child);

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "is played for another test, in a process of its own"]
fn plays_the_front_end() {
    let Ok(mark) = std::env::var(ROLE) else { return };
    // What is left is the other process's to see.
    let mark = std::mem::ManuallyDrop::new(Marked(mark));
    let lab = Slurm::of_another_process();
    let front = FrontEnd::new().unwrap();
    let members = mark.program(&lab.member(), HOSTS, &WORDS);
    let _session = front.start(&members, &options(lab.srun())).unwrap();
    while front.next_event(Duration::from_secs(600)).is_some() {}
}

fn kill_front_end(moment: Duration) {
    let mark = Marked::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--test-threads=1", "kills::plays_the_front_end"]);
    let command = command.env(ROLE, &mark.0).stdin(Stdio::null()).stdout(Stdio::null());
    let front = Front(command.spawn().unwrap());
    std::thread::sleep(moment);
    println!("  {} processes", mark.processes().len());
    drop(front);
    mark.nothing_is_left();
}

/// A session on its way, and what is heard of it.
struct Scene<'a> {
    lab: &'a Slurm,
    session: Session,
    front: FrontEnd,
    /// When it is dropped, nothing of the session may be left.
    mark: Marked,
    heard: Heard,
    began: Instant,
}

impl<'a> Scene<'a> {
    fn start(lab: &'a Slurm) -> Self {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let began = Instant::now();
        let session = front.start(&mark.program(&lab.member(), HOSTS, &WORDS), &options(lab.srun())).unwrap();
        Self { lab, mark, front, session, heard: Heard::default(), began }
    }

    fn listen_until(&mut self, moment: Instant) {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            match self.front.next_event(left) {
                Some(event) => self.heard.note(event),
                None if left.is_zero() => return,
                None => {}
            }
        }
    }

    fn is_up(&self) -> bool {
        self.heard.lines.iter().any(|line| line.ends_with(" is up"))
    }

    fn kill(mut self, victim: Victim, moment: Duration, random: &mut Rng) {
        self.listen_until(self.began + moment);
        let was_up = self.is_up();
        let jobs = self.kill_one(victim, random);
        let killed = Instant::now();
        let (is_up, text) = match self.session.wait_up(VERDICT) {
            Ok(report) => (true, report.to_string()),
            Err(Error::NotLaunched(report)) => (false, report.to_string()),
            Err(error) => panic!("no verdict: {error}"),
        };
        println!("  after {:?}: was up: {was_up}; {text}", killed.elapsed());
        if is_up && victim != Victim::Slurmd {
            self.is_settled(victim, was_up, &jobs, killed);
        } else if is_up {
            // What a slurmd has started lives on without it.
            assert_eq!(self.living(), MEMBERS as usize, "{text}");
        } else {
            assert!(text.contains("srun") || text.contains("killed by signal 9"), "{text}");
        }
        drop((self.session, self.front));
        if victim == Victim::Slurmd {
            self.lab.restore();
            within(ORPHANS, "what it has begun to start ends", || self.mark.processes().is_empty());
        }
        self.mark.nothing_is_left();
        self.lab.nothing_runs();
    }

    /// Kills such a process as soon as there is one. Gives the job of that srun, if it had one.
    fn kill_one(&self, victim: Victim, random: &mut Rng) -> Vec<String> {
        let mut jobs = Vec::new();
        match victim {
            Victim::FrontEnd => unreachable!("it is this process"),
            Victim::Srun => {
                let mut srun = None;
                within(TIMEOUT, "srun is there", || {
                    srun = srun_of(&self.mark);
                    srun.is_some()
                });
                jobs = self.lab.jobs();
                srun.unwrap().kill();
            }
            Victim::Leader => {
                let mut leader = None;
                within(TIMEOUT, "a leader is there", || {
                    let mut all = leaders(&self.mark);
                    leader =
                        (!all.is_empty()).then(|| all.swap_remove(random.below(all.len() as u64) as usize));
                    leader.is_some()
                });
                println!("  {:?}", leader.as_ref().unwrap());
                leader.unwrap().kill();
            }
            Victim::Slurmd => {
                let node = format!("s{:04}", 1 + random.below(NODES));
                println!("  that of {node}");
                kill(self.lab.slurmd(&node), libc::SIGKILL);
                self.lab.stop(&node); // it is known to be broken
            }
        }
        jobs
    }

    fn living(&self) -> usize {
        self.mark.processes().iter().filter(|process| process.is_member).count()
    }

    /// The session is up. What it has lost is reported; or what was killed was replaced in time.
    fn is_settled(&mut self, victim: Victim, was_up: bool, jobs: &[String], killed: Instant) {
        let deadline = killed + VERDICT;
        let number = |job: &String| job.split(' ').next().unwrap_or_default().to_owned();
        let old: Vec<String> = jobs.iter().map(number).collect();
        loop {
            // The job of the killed srun has ended, and the session lives in another.
            let is_in_another = || !self.lab.jobs().iter().any(|job| old.contains(&number(job)));
            let is_whole = !was_up && self.living() == MEMBERS as usize;
            let is_named = self.heard.lines.iter().any(|line| line.contains("was killed by signal 9"));
            let is_settled = match victim {
                Victim::Srun => self.heard.done || is_whole && is_in_another(),
                // Members that talk with the killed one may end before that is known.
                _ => is_named || is_whole || self.heard.done,
            };
            if is_settled {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "neither reported nor replaced: {:?}; {} members, jobs {:?}, of the killed {old:?}",
                self.heard.lines,
                self.living(),
                self.lab.jobs()
            );
            self.listen_until(Instant::now() + Duration::from_millis(20));
        }
        println!("  settled after {:?}: {:?}", killed.elapsed(), self.heard.lines);
        if victim == Victim::Srun && was_up {
            let is_revoked = |line: &String| line.ends_with("srun was killed by signal 9");
            assert!(self.heard.lines.iter().any(is_revoked), "{:?}", self.heard.lines);
        }
        if victim == Victim::Leader && was_up {
            let is_named = |line: &String| line.contains("was killed by signal 9");
            assert!(self.heard.lines.iter().any(is_named), "{:?}", self.heard.lines);
        }
    }
}
