//! Programs that do not link libi, alone and beside others that do.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use libi_testkit::programs;

use super::{libi, local, outcome, run};

/// The lines of standard output, sorted.
fn sorted(out: &str) -> Vec<&str> {
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    lines
}

/// An executable file with this content.
pub(super) fn file(name: &str, content: &[u8]) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, content).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
fn any_program_runs_and_knows_its_place() {
    let script = "echo $LIBI_RANK of $LIBI_SIZE, $LIBI_LOCAL_RANK of $LIBI_LOCAL_SIZE on $LIBI_HOST";
    let (status, out, err) = run(&local(&["--hosts", "a,b:2", "sh", "-c", script]));
    let expected = ["0 of 3, 0 of 1 on a", "1 of 3, 0 of 2 on b", "2 of 3, 1 of 2 on b"];
    assert_eq!((status, sorted(&out), err.as_str()), (0, expected.to_vec(), ""));
}

#[test]
fn programs_do_not_see_what_was_meant_for_agents() {
    let mut command = libi(&["-n", "2", "--env", "MODE=fast", "env"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LIBI_") {
            command.env_remove(name);
        }
    }
    let (status, out, _) = outcome(&command.output().unwrap());
    let names = out.lines().filter_map(|line| line.split('=').next());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("LIBI_") || *name == "MODE").collect();
    names.sort_unstable();
    names.dedup();
    let expected =
        ["LIBI_HOST", "LIBI_LINK", "LIBI_LOCAL_RANK", "LIBI_LOCAL_SIZE", "LIBI_RANK", "LIBI_SIZE", "MODE"];
    assert_eq!((status, names), (0, expected.to_vec()), "{out}");
}

/// How a program ends, and what `libi run` makes of it.
#[test]
fn every_end_of_a_program_has_its_exit_status_and_message() {
    for (script, status, message) in [
        ("exit 0", 0, ""),
        ("exit 1", 1, "libi: rank 0 on localhost exited 1\n"),
        ("exit 255", 1, "libi: rank 0 on localhost exited 255\n"),
        ("kill -SEGV $$", 1, "libi: rank 0 on localhost was killed by signal 11\n"),
        ("kill -KILL $$", 1, "libi: rank 0 on localhost was killed by signal 9\n"),
        ("kill -ABRT $$", 1, "libi: rank 0 on localhost was killed by signal 6\n"),
        ("exec true", 0, ""),
        ("exec 0<&- 1>&- 2>&- 3>&-; exit 4", 1, "libi: rank 0 on localhost exited 4\n"),
        ("echo text >&3; exit 5", 1, "libi: rank 0 on localhost exited 5\n"),
        ("head -c 100000 /dev/urandom >&3; exit 6", 1, "libi: rank 0 on localhost exited 6\n"),
        ("(sleep 1000 &) ; exit 7", 1, "libi: rank 0 on localhost exited 7\n"),
        ("setsid sleep 5 & exit 8", 1, "libi: rank 0 on localhost exited 8\n"),
    ] {
        let (exited, _, err) = run(&["sh", "-c", script]);
        assert_eq!((exited, err.as_str()), (status, message), "{script}");
    }
}

#[test]
fn a_program_that_cannot_be_started_fails_the_launch_with_the_reason() {
    let no_interpreter = file("no-interpreter", b"#!/no/such/interpreter\n");
    let readable = Path::new("/etc/passwd").to_owned();
    for (program, reason) in [
        (PathBuf::from("no-such-program"), "no-such-program: not found in PATH="),
        (PathBuf::from("/no/such/program"), "exec /no/such/program: No such file or directory"),
        (PathBuf::from("/etc"), "exec /etc: Permission denied"),
        (readable, "exec /etc/passwd: Permission denied"),
        (no_interpreter, "its interpreter \"/no/such/interpreter\" is missing"),
    ] {
        let (status, out, err) = run(&["-n", "2", program.to_str().unwrap()]);
        assert_eq!((status, out.as_str()), (3, ""), "{err}");
        assert!(err.contains("cannot be started: ") && err.contains(reason), "{err}");
    }
    let (status, _, err) = run(&["--directory", "/no/such/directory", "pwd"]);
    assert_eq!(status, 3, "{err}");
    assert!(err.contains("cannot change to directory /no/such/directory"), "{err}");
}

#[test]
fn a_program_that_the_system_cannot_execute_fails_alone() {
    let broken = file("for-no-machine", b"\x7fELF\0\0\0\0\0\0\0\0\0\0\0\0");
    let (status, out, err) = run(&["-n", "2", broken.to_str().unwrap()]);
    assert_eq!((status, out.as_str()), (1, ""), "{err}");
    for rank in 0..2 {
        let reason =
            format!("libi: rank {rank} cannot be started: exec {}: Exec format error", broken.display());
        assert!(err.contains(&reason), "{err}");
        assert!(err.contains(&format!("rank {rank} on localhost exited 126")), "{err}");
    }
}

#[test]
fn an_agent_that_does_not_exist_is_named() {
    let (status, _, err) = run(&local(&["--agent", "/no/such/libi", "--hosts", "a", "true"]));
    assert_eq!(status, 3, "{err}");
    assert!(err.contains("exec /no/such/libi: No such file or directory"), "{err}");
}

#[test]
fn standard_input_goes_to_the_first_program() {
    let mut child =
        libi(&["-n", "3", "--tag", "wc", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = vec![b'x'; 300_000];
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, &text).unwrap());
    let (status, out, _) = outcome(&child.wait_with_output().unwrap());
    writer.join().unwrap();
    assert_eq!((status, sorted(&out)), (0, vec!["[0] 300000", "[1] 0", "[2] 0"]));
}

#[test]
fn standard_input_goes_to_all_programs_if_asked() {
    for words in [["--input", "all"], ["--stdin", "all"]] {
        let mut child =
            libi(&[&words[..], &["-w", "a,b:2,c", "--backend", "local", "--fold", "wc", "-c"]].concat())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
        let mut input = child.stdin.take().unwrap();
        let text = vec![b'x'; 300_000];
        let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, &text).unwrap());
        let (status, out, _) = outcome(&child.wait_with_output().unwrap());
        writer.join().unwrap();
        assert_eq!(status, 0, "{out}");
        assert_eq!(out, "---- ranks 0-3 on a,b,c\n300000\n");
    }
}

#[test]
fn no_line_of_a_program_is_lost_when_it_ends() {
    for _ in 0..20 {
        let (status, out, err) = run(&["-n", "4", "sh", "-c", "echo line; echo last >&2"]);
        assert_eq!((status, out.lines().count(), err.lines().count()), (0, 4, 4), "{out}{err}");
    }
}

#[test]
fn programs_that_link_libi_and_others_share_a_session() {
    // Rank 1 never joins; the others exchange messages, and notice that it ends.
    let member = programs::member();
    let script = format!(
        "if [ $LIBI_RANK = 1 ]; then echo plain; exit 3; fi; exec {member} join out:joined finish:20000"
    );
    let (status, out, err) = run(&local(&["--hosts", "a,b,c", "--tag", "sh", "-c", &script]));
    assert_eq!((status, sorted(&out)), (1, vec!["[0] joined", "[1] plain", "[2] joined"]), "{err}");
    assert_eq!(err, "libi: rank 1 on b exited 3\n");
}

#[test]
fn programs_that_join_late_take_part_in_what_was_sent_before() {
    let member = programs::member();
    let script = format!("sleep 0.$LIBI_RANK; exec {member} join talk:barrier out:talked finish:20000");
    let (status, out, err) = run(&local(&["--hosts", "a:2,b:2", "--tag", "sh", "-c", &script]));
    let expected = ["[0] talked", "[1] talked", "[2] talked", "[3] talked"];
    assert_eq!((status, sorted(&out), err.as_str()), (0, expected.to_vec(), ""));
}

#[test]
fn a_signal_ends_programs_and_those_that_ignore_it_are_killed() {
    for (script, last) in [("trap 'echo ended; exit' TERM", "ended"), ("trap '' TERM", "up")] {
        let script = format!("{script}; echo up; while :; do sleep 0.05; done");
        let mut child = libi(&["sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "up");
        let kill = std::process::Command::new("kill").arg(child.id().to_string()).status();
        assert!(kill.unwrap().success());
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
        assert_eq!(rest.last().map_or("up", String::as_str), last);
    }
}

/// A remote shell to hosts on which nothing is at the path of this agent. `edit` changes the commands.
fn shell_to_hosts_without(agent: &Path, edit: &str) -> String {
    let name = format!("shell-without-agent.{}", edit.len());
    let script = format!(
        "#!/bin/sh\nexec sh -c \"$(printf %s \"$2\" | sed 's#{}#/no/such/libi#g{edit}')\"\n",
        agent.display()
    );
    file(&name, script.as_bytes()).display().to_string()
}

/// Runs `libi` with a directory of its own for agents that are sent; tells what is left there, too.
fn run_in_own_directory(name: &str, words: &[&str]) -> (i32, String, String, usize) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let (status, out, err) = outcome(&libi(words).env("XDG_RUNTIME_DIR", &directory).output().unwrap());
    (status, out, err, std::fs::read_dir(directory).unwrap().count())
}

#[test]
fn an_agent_is_sent_to_hosts_that_lack_it_and_leaves_nothing_behind() {
    let agent = Path::new(programs::agent());
    let shell = shell_to_hosts_without(agent, "");
    let words = ["--backend", &shell, "--hosts", "a,b:2,c,d", "--agent", programs::agent()];
    let (status, _, err) = run(&[&words[..], &["true"]].concat());
    assert_eq!(status, 3, "{err}");
    assert!(err.contains("hint: --send-agent sends libi to hosts that do not have it\n"), "{err}");
    let script = "echo $LIBI_RANK on $LIBI_HOST; exec ls -l /proc/$PPID/exe";
    let words = [&words[..], &["--send-agent", "sh", "-c", script]].concat();
    let (status, out, err, left) = run_in_own_directory("sent-agents", &words);
    assert_eq!((status, err.as_str(), left), (0, "", 0), "{out}");
    let runs =
        out.lines().filter(|line| line.contains("/sent-agents/libi-agent.") && line.ends_with(" (deleted)"));
    assert_eq!((out.lines().count(), runs.count()), (10, 5), "{out}");
    assert!(out.contains("4 on d\n"), "{out}");
}

#[test]
fn an_agent_that_the_host_has_is_not_sent() {
    let shell = file("shell-that-forwards", b"#!/bin/sh\nexec sh -c \"$2\"\n").display().to_string();
    let words = ["--backend", &shell, "--hosts", "a,b", "--agent", programs::agent(), "--send-agent"];
    let (status, out, err) = run(&[&words[..], &["sh", "-c", "ls -l /proc/$PPID/exe"]].concat());
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.lines().all(|line| line.ends_with(programs::agent())), "{out}");
}

#[test]
fn an_agent_with_the_wrong_hash_is_refused_and_removed() {
    let agent = Path::new(programs::agent());
    let shell = shell_to_hosts_without(agent, ";s/ [0-9a-f]\\{128\\} / 0 /");
    let words = ["--backend", &shell, "--hosts", "a", "--agent", programs::agent(), "--send-agent", "true"];
    let (status, _, err, left) = run_in_own_directory("damaged-agents", &words);
    assert_eq!((status, left), (3, 0), "{err}");
    assert!(err.contains("libi: the agent that arrived is not the one that was sent"), "{err}");
}

#[test]
fn labelled_lines_are_whole_and_name_host_and_rank() {
    let script = "printf 'one '; sleep 0.1; echo line; echo error >&2; printf 'no end'";
    let (status, out, err) = run(&local(&["--hosts", "a,b", "-l", "sh", "-c", script]));
    let expected = ["[a:0] no end", "[a:0] one line", "[b:1] no end", "[b:1] one line"];
    assert_eq!(
        (status, sorted(&out), sorted(&err)),
        (0, expected.to_vec(), vec!["[a:0] error", "[b:1] error"])
    );
}

#[test]
fn folded_output_shows_equal_text_once() {
    let script = "uname; [ $LIBI_RANK != 3 ] || { echo odd; echo error >&2; exit 5; }";
    let (status, out, err) = run(&local(&["-w", "n[1-3]:2", "--fold", "sh", "-c", script]));
    assert_eq!(
        (status, out.as_str()),
        (1, "---- ranks 0-2, 4-5 on n[1-3]\nLinux\n---- rank 3 on n2\nLinux\nodd\n")
    );
    assert_eq!(err, "[n2:3] error\nlibi: rank 3 on n2 exited 5\n");
}

#[test]
fn words_of_other_launchers_are_understood() {
    let hosts = file("some.hosts", b"a slots=2 # comment\nb\n").display().to_string();
    let script = "echo $LIBI_HOST $MODE";
    for words in [
        ["-hostfile", &hosts, "-x", "MODE=fast", "--tag", "sh", "-c", script],
        ["--machinefile", &hosts, "--env", "MODE=fast", "--tag", "sh", "-c", script],
    ] {
        let (status, out, err) = run(&local(&words));
        assert_eq!((status, sorted(&out)), (0, vec!["[0] a fast", "[1] a fast", "[2] b fast"]), "{err}");
    }
    let (status, out, _) = run(&local(&["-hosts", "a,b", "-ppn", "2", "-wdir", "/", "pwd"]));
    assert_eq!((status, out.as_str()), (0, "/\n/\n/\n/\n"));
    let (status, out, _) = run(&["-np", "2", "--no-input", "wc", "-c"]);
    assert_eq!((status, out.as_str()), (0, "0\n0\n"));
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_programs() {
    let mut child = libi(&["-n", "2", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "y");
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn several_programs_make_one_session() {
    let words = ["--hosts", "a,b", "--tag", "-n", "1", "sh", "-c", "echo first $LIBI_RANK of $LIBI_SIZE"];
    let second = [":", "-np", "3", "-x", "MODE=fast", "sh", "-c", "echo second $LIBI_RANK $LIBI_HOST $MODE"];
    let third = [":", "-w", "c", "true"];
    let (status, out, err) = run(&local(&[&words[..], &second, &third].concat()));
    let expected = ["[0] first 0 of 5", "[1] second 1 a fast", "[2] second 2 a fast", "[3] second 3 b fast"];
    assert_eq!((status, sorted(&out)), (0, expected.to_vec()), "{err}");
    for (words, text) in [
        (&["true", ":"][..], "libi: behind `:`: the following required arguments were not provided:\n"),
        (&["true", ":", "--tree", "flat", "true"], "libi: behind `:`: unexpected argument '--tree' found\n"),
        (&[":", "true"], "libi: there is no program to launch\n"),
    ] {
        assert_eq!(run(words), (2, String::new(), text.to_owned()));
    }
}

#[test]
fn the_launches_of_the_front_end_are_limited_to_one_or_more() {
    let words = |limit| ["--hosts", "n[1-4]", "--front-end-launches", limit, "true"];
    let (status, out, err) = run(&local(&words("1")));
    assert_eq!((status, out.as_str()), (0, ""), "{err}");
    let (status, out, err) = run(&local(&words("0")));
    assert_eq!((status, out.as_str()), (2, ""), "{err}");
    assert!(err.starts_with("error: invalid value '0' for '--front-end-launches <COUNT>'"), "{err}");
}
