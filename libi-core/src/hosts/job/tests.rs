//! Which variables decide, and what each resource manager's text means.

use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::hosts::HostListErrorKind as Kind;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such file")]
struct NoSuchFile;

type Found = Result<Option<JobHosts>, JobError<NoSuchFile>>;

/// The hosts found under these variables, where files are called `/name` and hold what is given.
fn find(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Found {
    let value_of = |table: &[(&str, &str)], key: &str| {
        table.iter().find(|(name, _)| *name == key).map(|(_, value)| value.to_string())
    };
    job_hosts(|name| value_of(variables, name), |path| value_of(files, path).ok_or(NoSuchFile))
}

fn found(variables: &[(&str, &str)], files: &[(&str, &str)]) -> (JobSource, Vec<&'static str>, String) {
    let job = find(variables, files).expect("no error").expect("a job");
    (job.source, job.variables, job.hosts.fold())
}

#[test]
fn outside_a_job_nothing_is_found() {
    assert_eq!(find(&[], &[]), Ok(None));
    assert_eq!(find(&[("SLURM_JOB_NODELIST", ""), ("PBS_NODEFILE", " ")], &[]), Ok(None));
}

#[test]
fn slurm_tasks_are_dealt_out_in_the_order_of_the_nodes() {
    let job = [("SLURM_JOB_NODELIST", "node[001-003,100]"), ("SLURM_TASKS_PER_NODE", "2(x3),1")];
    let variables = ["SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"].to_vec();
    assert_eq!(found(&job, &[]), (JobSource::Slurm, variables, "node[001-003]:2,node100".into()));
    let old = [("SLURM_NODELIST", "n[1-2]")];
    assert_eq!(found(&old, &[]), (JobSource::Slurm, ["SLURM_NODELIST"].to_vec(), "n[1-2]".into()));
}

#[test]
fn inside_a_slurm_step_the_step_decides() {
    let mut variables = [
        ("SLURM_STEP_ID", "0"),
        ("SLURM_JOB_NODELIST", "n[1-4]"),
        ("SLURM_TASKS_PER_NODE", "8(x4)"),
        ("SLURM_STEP_NODELIST", "n[2-3]"),
        ("SLURM_STEP_TASKS_PER_NODE", "1,2"),
    ];
    let used = ["SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"].to_vec();
    assert_eq!(found(&variables, &[]), (JobSource::Slurm, used, "n2,n3:2".into()));
    // An interactive shell's own step covers one host of the job only.
    variables[0].1 = "4294967290";
    assert_eq!(found(&variables, &[]).2, "n[1-4]:8");
}

#[test]
fn slurm_lists_of_different_lengths_are_refused_saying_both() {
    for (tasks, counts) in
        [("2(x3)", 3), ("2(x5)", 5), ("1,1", 2), ("4294967295(x4294967295)", 4_294_967_295)]
    {
        let error = parse_slurm("n[1-4]", Some(tasks)).expect_err(tasks);
        assert_eq!(error.kind, Kind::TaskMismatch { hosts: 4, counts });
        assert_eq!(error.text, InputKind::TaskCounts);
    }
    let job = [("SLURM_JOB_NODELIST", "n[1-4]"), ("SLURM_TASKS_PER_NODE", "2(x3)")];
    let error = find(&job, &[]).expect_err("too few");
    let said = "SLURM_TASKS_PER_NODE: tasks per node, column 1: the node list has 4 hosts, the \
                task counts are for 3";
    assert_eq!(error.to_string(), said);
}

#[test]
fn mistakes_in_slurm_task_counts_have_their_column() {
    let cases = [
        ("2,x", 3, Kind::MissingNumber),
        ("2,0", 3, Kind::ZeroCount),
        ("2(x0)", 4, Kind::ZeroCount),
        ("2(x3", 2, Kind::UnexpectedCharacter('(')),
        ("2,3(x)", 6, Kind::MissingNumber),
        ("2(3)", 1, Kind::MissingNumber),
    ];
    for (tasks, column, kind) in cases {
        let error = parse_slurm("n[1-4]", Some(tasks)).expect_err(tasks);
        assert_eq!((error.column, error.kind), (column, kind), "{tasks}");
    }
}

#[test]
fn a_slurm_node_list_holds_plain_hosts_only() {
    for (nodes, column) in [("n1,n2:2", 6), ("u@n1", 2), ("n1*2", 3)] {
        let error = parse_slurm(nodes, None).expect_err(nodes);
        assert_eq!((error.column, error.kind), (column, Kind::PlainNameExpected), "{nodes}");
    }
}

#[test]
fn lsf_gives_hosts_with_counts_or_a_file_of_slots() {
    let both = [("LSB_MCPU_HOSTS", "hostA 2  hostB 4 "), ("LSB_DJOB_HOSTFILE", "/f")];
    assert_eq!(found(&both, &[]), (JobSource::Lsf, ["LSB_MCPU_HOSTS"].to_vec(), "hostA:2,hostB:4".into()));
    let file = found(&both[1..], &[("/f", "a\nb\nb\n")]);
    assert_eq!(file, (JobSource::Lsf, ["LSB_DJOB_HOSTFILE"].to_vec(), "a,b,b".into()));
    let error = parse_lsf_mcpu_hosts("hostA 2 hostB").expect_err("no count");
    assert_eq!((error.column, error.kind), (14, Kind::MissingSlots));
}

#[test]
fn a_pbs_node_file_keeps_every_line_as_an_entry() {
    let hosts = parse_pbs_nodefile("n1\nn1\r\n\nn2.cluster\n  n1 \nfe80::1").expect("a valid file");
    let names: Vec<&str> = hosts.iter().map(|host| host.name).collect();
    assert_eq!(names, ["n1", "n1", "n2.cluster", "n1", "fe80::1"]);
    for (text, column, kind) in [
        ("n1\nn2 4", 4, Kind::TrailingText),
        ("n1\nn[1-2]", 1, Kind::UnexpectedCharacter('[')),
        ("n1\n -x", 2, Kind::LeadingDash),
    ] {
        let error = parse_pbs_nodefile(text).expect_err(text);
        assert_eq!((error.line, error.column, error.kind), (2, column, kind), "{text}");
    }
}

#[test]
fn a_grid_engine_host_file_gives_slots_in_its_second_column() {
    let text = "n1.local 4 all.q@n1.local UNDEFINED\nn2.local 2 all.q@n2.local 0,1\nn3 1\n";
    let job = found(&[("PE_HOSTFILE", "/pe")], &[("/pe", text)]);
    assert_eq!(job, (JobSource::GridEngine, ["PE_HOSTFILE"].to_vec(), "n1.local:4,n2.local:2,n3".into()));
    let error = parse_grid_engine_hostfile("n1 4\nn2\n").expect_err("no slots");
    assert_eq!((error.line, error.column, error.kind), (2, 3, Kind::MissingSlots));
}

#[test]
fn of_several_resource_managers_the_first_in_the_stated_order_decides() {
    let variables = [
        ("SLURM_JOB_NODELIST", "a"),
        ("LSB_MCPU_HOSTS", "b 1"),
        ("LSB_DJOB_HOSTFILE", "/c"),
        ("PBS_NODEFILE", "/d"),
        ("PE_HOSTFILE", "/e"),
    ];
    let files = [("/c", "c"), ("/d", "d"), ("/e", "e 1")];
    for (first, host) in ["a", "b", "c", "d", "e"].iter().enumerate() {
        assert_eq!(found(&variables[first..], &files).2, *host);
    }
}

#[test]
fn an_error_names_the_variable_and_the_file_and_no_later_manager_is_asked() {
    let variables = [("PBS_NODEFILE", "/gone"), ("PE_HOSTFILE", "/e")];
    let error = find(&variables, &[("/e", "e 1")]).expect_err("unreadable");
    assert_eq!(error.to_string(), "/gone (from PBS_NODEFILE) cannot be read: no such file");
    let error = find(&variables, &[("/gone", "n1 n2")]).expect_err("two on a line");
    let said =
        "/gone (from PBS_NODEFILE): host file, line 1, column 4: unexpected text at the end of this line";
    assert_eq!(error.to_string(), said);
    let error = find(&[("SLURM_JOB_NODELIST", "n[2-1]")], &[]).expect_err("runs backwards");
    assert!(error.to_string().starts_with("SLURM_JOB_NODELIST: host list, column 3: the range 2-1"));
}
