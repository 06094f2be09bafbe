//! Front ends inside jobs: a test of this program, run by itself where Slurm has put it.

use std::process::Output;

use libi_testkit::labs::Slurm;

/// Where a front end runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Salloc,
    Sbatch,
}

/// The options of test programs that run one test, which is ignored otherwise.
const ALONE: [&str; 4] = ["--exact", "--ignored", "--nocapture", "--test-threads=1"];

/// Runs an ignored test of this program as a front end inside a job with these options. It finds
/// the laboratory by [`Slurm::of_another_process`].
pub(crate) fn run_inside(lab: &Slurm, place: Place, options: &[&str], test: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let output = match place {
        Place::Salloc => {
            let program = program.to_str().unwrap();
            lab.salloc(options, &[&[program], &ALONE[..], &[test]].concat()).output().unwrap()
        }
        Place::Sbatch => {
            lab.sbatch(options, &format!("exec '{}' {} {test}", program.display(), ALONE.join(" ")))
        }
    };
    let said = said(&output);
    println!("{place:?} {options:?} {test}: {said}");
    assert!(output.status.success() && said.contains("1 passed"), "{place:?}: {}: {said}", output.status);
    lab.nothing_is_left();
    said
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}
