//! Launches that wait for resources, with a stand-in for `srun` that says what Slurm's says.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use libi_testkit::programs;

use super::{libi, local, outcome, run};

/// A program named `srun` whose job waits until `proceeds` has succeeded.
fn srun_that_waits(name: &str, proceeds: &str) -> String {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let srun = directory.join("srun");
    let script = format!(
        "#!/bin/sh\necho srun: job 18 queued and waiting for resources >&2\n{proceeds}\n\
         echo srun: job 18 has been allocated resources >&2\nfor command; do :; done\n\
         SLURMD_NODENAME=n1 exec /bin/sh -c \"$command\"\n"
    );
    std::fs::write(&srun, script).unwrap();
    std::fs::set_permissions(&srun, std::fs::Permissions::from_mode(0o755)).unwrap();
    srun.display().to_string()
}

#[test]
fn a_launch_that_waits_for_resources_says_so_and_is_not_timed() {
    let go = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("waits.go");
    let _ = std::fs::remove_file(&go);
    // It always waits for some time.
    let waits = format!("sleep 0.05; until [ -e {} ]; do sleep 0.05; done", go.display());
    let srun = srun_that_waits("waits", &waits);
    let words = ["--backend", &srun, "--hosts", "n1", "--deadline", "5s", "--queue-timeout", "1m", "-v"];
    let work = [programs::member(), "join", "out:up", "finish:20000"];
    let mut child =
        libi(&[&words[..], &work].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert_eq!(first, "libi: waiting for resources: srun: job 18 queued and waiting for resources");
    std::fs::write(&go, "").unwrap();
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    let (status, out, _) = outcome(&child.wait_with_output().unwrap());
    assert_eq!((status, out.as_str()), (0, "up\n"), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("before that, the launch waited")), "{rest:?}");
}

#[test]
fn a_launch_does_not_wait_for_resources_longer_than_it_may() {
    let srun = srun_that_waits("waits_too_long", "exec sleep 1000");
    let words = ["--backend", &srun, "--hosts", "n1", "--queue-timeout", "300ms", programs::member(), "join"];
    let (status, _, err) = run(&words);
    assert_eq!(status, 3, "{err}");
    assert!(err.contains("srun: job 18 queued and waiting for resources"), "{err}");
    let (status, _, err) = run(&local(&["--queue-timeout", "1s", programs::member(), "join"]));
    let expected = "libi: --queue-timeout needs srun, but hosts are reached by local\n";
    assert_eq!((status, err.as_str()), (2, expected));
}
