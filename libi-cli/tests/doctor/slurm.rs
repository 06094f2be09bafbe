//! `libi doctor` under Slurm, with stand-ins for `srun` and `sinfo` that run the tasks here and say
//! what Slurm 22.05 says.

use libi_testkit::shell::Lab;

use super::{doctor, document, host, outcome, program};

const SRUN: &str = r#"#!/bin/sh
case $1 in
--version) echo slurm-wlm 22.05.8; exit;;
--help) echo "      --overlap               Allow other steps to overlap this step"; exit;;
--mpi=list) printf 'MPI plugin types are...\n\tpmix\n\tnone\nspecific pmix plugin versions available: pmix_v4\n'; exit;;
esac
nodes=
for command; do
    case $last in --nodelist) nodes=$command;; esac
    last=$command
done
input=$(cat)
case ",$nodes," in *,dead,*)
    echo "srun: error: Task launch for StepId=7.0 failed on node dead: Communication connection failure" >&2
    exit 1
esac
task=0
for node in $(echo "$nodes" | tr , ' '); do
    echo "$input" | SLURM_PROCID=$task SLURMD_NODENAME=$node sh -c "$command" | sed "s/^/$task: /"
    task=$((task + 1))
done
"#;

/// Slurm knows n1, n2, dead, and n3, which is drained.
const SINFO: &str =
    "#!/bin/sh\nprintf 'n1|idle|none\\nn2|mixed|none\\ndead|idle|none\\nn3|drained|disk full\\n'\n";

fn with_slurm() -> (Lab, String) {
    let lab = Lab::new("");
    program(&lab, "srun", SRUN);
    program(&lab, "sinfo", SINFO);
    let srun = lab.0.join("srun").display().to_string();
    (lab, srun)
}

#[test]
fn nodes_are_examined_by_one_step_and_connect_with_tokens_of_their_own() {
    let (lab, srun) = with_slurm();
    let (status, document) =
        document(&mut doctor(&lab, &["--json", "--backend", &srun, "--program", "sh", "n2,n1"]));
    assert_eq!((status, &document["hosts_ok"]), (0, &2.into()), "{document:#}");
    let slurm = &document["slurm"];
    assert_eq!((&slurm["version"], &slurm["has_overlap"]), (&"22.05.8".into(), &true.into()));
    assert_eq!(slurm["mpi"], serde_json::json!(["pmix", "none"]));
    for name in ["n1", "n2"] {
        let host = host(&document, name);
        assert_eq!((&host["direct"], &host["program"]), (&"works".into(), &"executable".into()), "{host}");
        assert!(host["kernel"].as_str().unwrap().starts_with("Linux"), "{host}");
    }
}

#[test]
fn unusable_nodes_are_left_out_and_a_dead_one_does_not_hide_the_others() {
    let (lab, srun) = with_slurm();
    let words = ["--json", "--backend", &srun, "n[1-4],dead"];
    let (status, document) = document(&mut doctor(&lab, &words));
    assert_eq!((status, &document["hosts_ok"]), (3, &2.into()), "{document:#}");
    let problem = |name: &str| host(&document, name)["problem"].as_str().unwrap().to_owned();
    let evidence = |name: &str| host(&document, name)["evidence"].as_str().unwrap().to_owned();
    assert_eq!((problem("n3"), evidence("n3")), ("unusable".to_owned(), "disk full".to_owned()));
    assert_eq!(problem("n4"), "unknown-node");
    assert_eq!(problem("dead"), "not-started");
    assert!(evidence("dead").ends_with("Communication connection failure"), "{document:#}");
}

#[test]
fn inside_a_job_its_nodes_are_the_hosts_and_others_are_refused() {
    let (lab, srun) = with_slurm();
    let in_job = |words: &[&str]| {
        let mut command = doctor(&lab, &[&["--backend", &srun, "--no-direct"], words].concat());
        command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", "n[1-2]");
        outcome(&command.env("SLURM_TASKS_PER_NODE", "1(x2)").output().unwrap())
    };
    let (status, out, _) = in_job(&[]);
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("2 hosts through") && out.contains("in job 7 of n[1-2]"), "{out}");
    let (status, out, _) = in_job(&["n1", "n9"]);
    assert_eq!(status, 3, "{out}");
    assert!(out.contains("n9  cannot be in a step of this job: n9 is not a node of job 7 (n[1-2])"), "{out}");
}

#[test]
fn without_srun_the_reason_is_said() {
    let lab = Lab::new("");
    let (status, out, _) = outcome(&doctor(&lab, &["--backend", "/no/such/srun", "n1"]).output().unwrap());
    assert_eq!(status, 3, "{out}");
    assert!(out.contains("srun fails: exec /no/such/srun: No such file"), "{out}");
}
