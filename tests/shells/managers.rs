//! Sessions through the commands of resource managers that libi knows how to call: stand-ins behave
//! as the manual pages say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use libi::{Backend, Exit, LaunchOptions, Rank, Stream};
use libi_testkit::native::{run_command, without_job};
use libi_testkit::programs;

use crate::scene::{MARK, Scene};

const TIMEOUT: Duration = Duration::from_secs(60);

/// LSF's blaunch(1): a host, and words for a shell there. Options of ssh and rsh are ignored.
const BLAUNCH: &str = r#"
case $1 in -*) echo "unexpected option $1" >&2; exit 255;; esac
LIBI_TEST_HOST=$1; export LIBI_TEST_HOST; shift
exec /bin/sh -c "$*"
"#;

/// Grid Engine's `qrsh -inherit`, sge_submit(1): a host, and words for the login shell there.
const QRSH: &str = r#"
[ "$1" = -inherit ] || { echo "qrsh: this would be a job of its own" >&2; exit 1; }
LIBI_TEST_HOST=$2; export LIBI_TEST_HOST; shift 2
exec /bin/sh -c "$*"
"#;

/// Flux's flux-overlay(1), which names the ranks of hosts, and flux-exec(1), which executes words
/// as they are and copies its input to all of them. Rank 7 is n7.
const FLUX: &str = r#"
[ "$1 $2" = "overlay lookup" ] && { echo "$3" | sed s/n//g; exit; }
case "$1 $2" in "exec --rank="*) ranks=${2#--rank=};; *) echo "flux: $*" >&2; exit 1;; esac
shift 2; [ "$1" = --verbose ] && shift
input=$(mktemp) && cat >"$input" || exit
started=
for rank in $(echo "$ranks" | tr , ' '); do
  LIBI_STARTED_ON=n$rank LIBI_TEST_HOST=n$rank "$@" <"$input" & started="$started $!"
done
trap 'kill $started' TERM
most=0
for pid in $started; do wait "$pid"; s=$?; [ $s -le $most ] || most=$s; done
rm -f "$input"
exit $most
"#;

const COMMANDS: [(&str, &str); 3] = [("blaunch", BLAUNCH), ("qrsh", QRSH), ("flux", FLUX)];

/// Puts a stand-in for a command into the laboratory. Everything that it starts bears the mark.
fn stand_in(scene: &Scene, name: &str, script: &str) -> String {
    let path = scene.lab.0.join(name);
    fs::write(&path, format!("#!/bin/sh\nexport {MARK}={}\n{script}", scene.mark)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.into_os_string().into_string().unwrap()
}

fn options(scene: &Scene, backend: Backend) -> LaunchOptions {
    // Of the remote shells, nothing says that they encrypt.
    scene.options().backend(backend).allow_plain(true)
}

#[test]
fn every_command_brings_up_a_session_that_talks_and_ends() {
    for (name, script) in COMMANDS {
        let scene = Scene::new("");
        let backend: Backend = stand_in(&scene, name, script).parse().unwrap();
        let words = [
            "join",
            "talk:barrier",
            "talk:allgather:1000",
            "talk:broadcast:0:100000",
            "env:LIBI_TEST_HOST",
            "finish:20000",
            "only:3:exit:3",
        ];
        let outcome = scene.play("n[1-4]:2", &words, &options(&scene, backend));
        assert!(outcome.report.is_up() && outcome.done, "{name}: {}", outcome.report);
        for rank in 0..8 {
            let host = format!("n{}\n", rank / 2 + 1);
            assert!(outcome.printed(rank, Stream::Out).ends_with(&host), "{name}: {:?}", outcome.printed);
            let expected = if rank == 3 { 3 } else { 0 };
            assert_eq!(outcome.exits[&Rank(rank)], Exit::Code(expected), "{name}: rank {rank}");
        }
    }
}

#[test]
fn the_program_launches_by_every_command_that_is_named_to_it() {
    for (name, script) in COMMANDS {
        let scene = Scene::new("");
        let command = stand_in(&scene, name, script);
        let mut run = Command::new(programs::libi());
        run.args(["run", "--allow-plain", "--hosts", "n[1-3]", "--backend", &command]);
        run.args([programs::member(), "join", "out:at {rank}", "finish:20000"]);
        let ended = run_command(without_job(&mut run), TIMEOUT);
        assert_eq!(ended.code, Some(0), "{name}: {}{}", ended.out, ended.err);
        let mut lines: Vec<_> = ended.out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["at 0", "at 1", "at 2"], "{name}: {}", ended.err);
        scene.nothing_is_left();
    }
}

#[test]
fn the_program_refuses_commands_that_cannot_start_members() {
    for name in ["pbsdsh", "/opt/pbs/bin/pbs_tmrsh", "aprun"] {
        let mut run = Command::new(programs::libi());
        run.args(["run", "--hosts", "n1", "--backend", name, "true"]);
        let ended = run_command(without_job(&mut run), TIMEOUT);
        assert_eq!(ended.code, Some(2), "{name}: {}", ended.err);
        assert!(ended.err.contains("cannot start members") && ended.err.contains("use ssh"), "{}", ended.err);
    }
}
