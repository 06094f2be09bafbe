//! Nodes that do not work: each is named with the reason that Slurm gives, the launch goes on
//! without it or with a spare host where it may, and nothing runs afterwards.

use std::time::Duration;

use libi::Policy;

use crate::jobs::{Place, run_inside};
use crate::verdicts::{HOSTS, Launch, WORDS, says};
use libi_testkit::labs::Slurm;

/// The node of [`HOSTS`] that does not work.
const BROKEN: &str = "s0003";
const SPARE: &str = "s0005";

/// What is wrong with it.
#[derive(Clone, Copy, Debug)]
enum Defect {
    /// Its prolog fails.
    Prolog,
    /// Its slurmd does not run.
    Slurmd,
    /// Its munge key is not that of the others.
    Munge,
    /// It does not have the program.
    Program,
}

impl Defect {
    fn make(self, lab: &Slurm) {
        match self {
            Self::Prolog => lab.fail_prolog(BROKEN),
            Self::Slurmd => lab.stop(BROKEN),
            Self::Munge => lab.distrust(BROKEN),
            Self::Program => {
                let directory = lab.path("programs");
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::copy(lab.member(), Self::program(lab)).unwrap();
                lab.hide(BROKEN, &directory);
            }
        }
    }

    /// The program that all other nodes have.
    fn program(lab: &Slurm) -> String {
        lab.path("programs/member")
    }

    /// What the report says of the node.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Prolog => &["failed on node s0003: Job prolog failed"],
            Self::Slurmd => &["failed on node s0003: Communication connection failure"],
            Self::Munge => &["failed on node s0003: Zero Bytes were transmitted or received"],
            Self::Program => &["exited 127"],
        }
    }

    /// How long it may take to know: srun tries to reach a slurmd for 11 s. Then the other nodes are
    /// free only when the controller has tried that, too.
    fn time(self) -> Duration {
        Duration::from_secs(if matches!(self, Self::Slurmd) { 60 } else { 15 })
    }

    fn launch(self, lab: &Slurm) -> Launch<'_> {
        match self {
            Self::Program => Launch::of_program(lab, &Self::program(lab), HOSTS, &WORDS),
            _ => Launch::of(lab, HOSTS, &WORDS),
        }
    }

    /// A launch that needs all hosts fails; one that needs three comes up without the node; one with
    /// a spare host comes up with that.
    fn is_reported(self, lab: &Slurm, with_spare: bool) {
        self.make(lab);
        println!("{self:?}: all are needed");
        says(&self.launch(lab).fails(self.time()), BROKEN, self.words());
        lab.restore();

        self.make(lab);
        println!("{self:?}: three are needed");
        let three = self.launch(lab).with(|options| options.policy(Policy::AtLeast(3)));
        let report = three.comes_up(self.time());
        says(&report, BROKEN, self.words());
        assert_eq!(report.joined(), 3, "{report}");
        lab.restore();

        if with_spare {
            self.make(lab);
            println!("{self:?}: with a spare host");
            self.is_replaced(lab);
            lab.restore();
        }
        lab.nothing_is_left();
    }

    fn is_replaced(self, lab: &Slurm) {
        let spare = self.launch(lab).with(|options| options.spares(SPARE.parse().unwrap()));
        let report = spare.comes_up(self.time());
        assert_eq!(report.joined(), 4, "{report}");
        let text = report.to_string();
        assert!(text.contains(&format!("{SPARE}  replaces {BROKEN}")), "{text}");
    }
}

#[test]
fn a_node_whose_prolog_fails_is_named() {
    let Some(lab) = Slurm::up() else { return };
    Defect::Prolog.is_reported(&lab, true);
}

#[test]
fn a_node_without_slurmd_is_named() {
    let Some(lab) = Slurm::up() else { return };
    Defect::Slurmd.is_reported(&lab, false);
}

#[test]
fn a_node_with_another_munge_key_is_named() {
    let Some(lab) = Slurm::up() else { return };
    Defect::Munge.is_reported(&lab, true);
}

#[test]
fn a_node_without_the_program_is_named() {
    let Some(lab) = Slurm::up() else { return };
    Defect::Program.is_reported(&lab, true);
}

#[test]
#[ignore = "is played for another test, inside a job"]
fn plays_a_front_end_in_a_job_with_a_node_without_slurmd() {
    let lab = Slurm::of_another_process();
    Defect::Slurmd.make(&lab);
    Defect::Slurmd.is_replaced(&lab);
    // The job ends only when its node answers.
    lab.start(BROKEN);
}

#[test]
#[ignore = "is played for another test, inside a job"]
fn plays_a_front_end_in_a_job_with_a_node_whose_prolog_fails() {
    let lab = Slurm::of_another_process();
    Defect::Prolog.make(&lab);
    let report = Launch::of(&lab, HOSTS, &WORDS).fails(Defect::Prolog.time());
    says(&report, BROKEN, Defect::Prolog.words());
    // Slurm has ended the job for that.
    says(&report, "s0001", &["has expired"]);
}

/// A node that goes down before the first step: the job of `salloc` ends, or goes on with the
/// others under `--no-kill`.
#[test]
#[ignore = "is played for another test, inside a job"]
fn plays_a_front_end_in_a_job_that_ends_with_its_node() {
    let lab = Slurm::of_another_process();
    lab.set(BROKEN, "down");
    let report = Launch::of(&lab, HOSTS, &WORDS).fails(Duration::from_secs(15));
    says(&report, BROKEN, &["srun: error: "]);
    says(&report, "s0001", &["srun: error: "]);
}

#[test]
#[ignore = "is played for another test, inside a job"]
fn plays_a_front_end_in_a_job_that_goes_on_without_its_node() {
    let lab = Slurm::of_another_process();
    lab.set(BROKEN, "down");
    let three = Launch::of(&lab, HOSTS, &WORDS).with(|options| options.policy(Policy::AtLeast(3)));
    let report = three.comes_up(Duration::from_secs(15));
    says(&report, BROKEN, &["Requested node configuration is not available"]);
    assert_eq!(report.joined(), 3, "{report}");
}

#[test]
fn a_job_goes_on_without_a_node_or_ends_with_it() {
    let Some(lab) = Slurm::up() else { return };
    for (options, role) in [
        (&["-N", "5", "--no-kill"][..], "nodes::plays_a_front_end_in_a_job_that_goes_on_without_its_node"),
        (&["-N", "5"], "nodes::plays_a_front_end_in_a_job_that_ends_with_its_node"),
        (&["-N", "5"], "nodes::plays_a_front_end_in_a_job_with_a_node_whose_prolog_fails"),
        (&["-N", "5", "--no-kill"], "nodes::plays_a_front_end_in_a_job_with_a_node_without_slurmd"),
    ] {
        run_inside(&lab, Place::Salloc, options, role);
        lab.restore();
    }
}
