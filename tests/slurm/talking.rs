//! Members on 32 nodes do everything that members can do together, wherever their front end runs.

use libi::{Backend, LinkPolicy};

use crate::jobs::{Place, run_inside};
use crate::options;
use libi_testkit::labs::Slurm;
use libi_testkit::operations;

const HOSTS: &str = "s[0001-0032]:4";
const ROLE: &str = "talking::plays_a_front_end_whose_members_do_every_operation";

const ROLE_WITH_RELAYS: &str = "talking::plays_a_front_end_with_relays";

fn all_operations_come_out(lab: &Slurm, tree: &str, admitted: usize) {
    let options = options(lab.srun()).links(LinkPolicy::Auto).strategy(tree.parse().unwrap());
    let (report, _) = operations::all_come_out(&lab.member(), HOSTS, 128, &options);
    assert!(matches!(report.backend(), Backend::Srun(_)), "{report}");
    assert_eq!(report.hosts().len(), 32);
    let by_front_end = report.hosts().iter().filter(|host| host.launcher.is_none()).count();
    assert_eq!(by_front_end, admitted, "{report}");
}

#[test]
#[ignore = "is played for other tests, inside a job"]
fn plays_a_front_end_whose_members_do_every_operation() {
    all_operations_come_out(&Slurm::of_another_process(), "late", 32);
}

#[test]
#[ignore = "is played for another test, inside a job"]
fn plays_a_front_end_with_relays() {
    all_operations_come_out(&Slurm::of_another_process(), "kary:5", 5);
}

#[test]
fn four_members_on_each_of_32_nodes_do_every_operation_outside_jobs() {
    let Some(lab) = Slurm::up() else { return };
    all_operations_come_out(&lab, "late", 32);
    lab.nothing_is_left();
}

#[test]
fn four_members_on_each_of_32_nodes_do_every_operation_in_salloc() {
    let Some(lab) = Slurm::up() else { return };
    run_inside(&lab, Place::Salloc, &["-N", "32"], ROLE);
}

#[test]
fn four_members_on_each_of_32_nodes_do_every_operation_in_a_batch_job_through_5_relays() {
    let Some(lab) = Slurm::up() else { return };
    run_inside(&lab, Place::Sbatch, &["-N", "32"], ROLE_WITH_RELAYS);
}
