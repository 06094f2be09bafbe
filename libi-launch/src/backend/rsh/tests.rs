//! What is asked of rsh, and what every login shell that is installed makes of it.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use super::*;
use crate::backend::Backend;
use crate::backend::tests::{host, program, word as text};
use crate::exit_trailer::ExitTrailer;
use crate::failure::Exit;
use crate::process::{Environment, Start};
use crate::quote::tests::shells;

const MARK: TrailerTag = TrailerTag([0xa7; 16]);

fn words(spec: &SpawnSpec) -> Vec<String> {
    spec.args.iter().map(ToString::to_string).collect()
}

#[test]
fn rsh_gets_options_a_host_and_a_command_that_is_short_and_says_nothing_of_the_program() {
    let spec =
        Backend::Rsh(Rsh::redone()).spawn_spec(&host("n1", Some("me"), Some(514)), &program()).unwrap();
    let args = words(&spec);
    assert_eq!(args[..6], ["-v", "-l", "me", "-p", "514", "n1"]);
    assert_eq!(args[6..], [quote::read_command_from_stdin().to_string()]);
    assert!(args[6].len() < 100, "servers have room for 1 KiB with everything");
    let session = Backend::Rsh(Rsh { user: Some("all".to_owned()), trailer_tag: MARK, ..Rsh::new() });
    let spec = session.spawn_spec(&host("n1", None, None), &program()).unwrap();
    assert_eq!(words(&spec)[..3], ["-l", "all", "n1"]);
    assert_eq!(spec.trailer, Some(MARK));
}

#[test]
fn what_rsh_would_take_for_an_option_and_ports_without_one_are_refused() {
    for task in [host("-v", None, None), host("n", Some("-n"), None), host("n", None, Some(514))] {
        assert!(Rsh::new().spawn_spec(&task, &program()).is_err(), "{task:?}");
    }
}

#[test]
fn rsh_is_plain_by_whatever_means_it_is_called() {
    use crate::backend::{Local, Shell, Ssh};
    let shell = |name: &str| Backend::Shell(Shell::new(text(name)));
    for (backend, operand) in [
        (Backend::Rsh(Rsh::new()), true),
        (shell("rsh"), true),
        (shell("/usr/bin/rsh"), true),
        (shell("ssh"), false),
        (shell("./my-rsh-like-thing"), false),
        (Backend::Ssh(Ssh::new()), false),
        (Backend::Local(Local), false),
    ] {
        assert_eq!(backend.is_plaintext(), operand, "{backend}");
    }
}

/// What comes back of a program, which finds this on its input, through a login shell; and what is
/// left of the shell's own standard error.
fn run(shell: &[&str], program: &Program, input: &[u8]) -> (Vec<u8>, Option<Exit>, String) {
    let rsh = Rsh { trailer_tag: MARK, ..Rsh::new() };
    let spec = rsh.spawn_spec(&host("n1", None, None), program).unwrap();
    let (theirs, mut ours) = io::pipe().unwrap();
    let (mut out, their_out) = io::pipe().unwrap();
    let (mut err, their_err) = io::pipe().unwrap();
    let mut start = Start::new(text(shell[0]), Environment::inherited());
    start.args = shell[1..].iter().map(|word| text(word)).chain(spec.args.last().cloned()).collect();
    let start = start.fd(0, theirs.as_fd()).fd(1, their_out.as_fd()).fd(2, their_err.as_fd());
    let mut child = start.start().unwrap();
    drop((theirs, their_out, their_err));
    let writes = [&spec.initial_input[..], input].concat();
    // More than fits into the pipe must not wait for us. With what is written the input ends.
    let writer = std::thread::spawn(move || ours.write_all(&writes));
    let (mut bytes, mut said) = (Vec::new(), String::new());
    out.read_to_end(&mut bytes).unwrap();
    err.read_to_string(&mut said).unwrap();
    child.wait_for(Duration::from_secs(60)).expect("it ends in time");
    let _ = writer.join().unwrap();
    let mut trailer = ExitTrailer::new(MARK);
    trailer.filter(&mut bytes);
    bytes.extend(trailer.take_held());
    (bytes, trailer.exit(), said)
}

fn sh(script: &str) -> Program {
    Program { executable: text("sh"), args: vec![text("-c"), text(script)], env: Vec::new(), cwd: None }
}

#[test]
fn through_every_shell_a_program_gets_its_input_whole_and_its_end_is_said() {
    for shell in shells() {
        for (script, out, exit) in [
            ("cat", "what is\nits own\n", Exit::Code(0)),
            ("read -r line; echo $line; exit 3", "what is\n", Exit::Code(3)),
            ("echo half >&2; printf 'a line'; exit 255", "half\na line", Exit::Code(255)),
            ("kill -KILL $$", "", Exit::Signal(9)),
            ("kill -TERM $$", "", Exit::Signal(15)),
            ("kill -SEGV $$", "", Exit::Signal(11)),
        ] {
            let (bytes, said, err) = run(&shell, &sh(script), b"what is\nits own\n");
            assert_eq!(
                (String::from_utf8_lossy(&bytes), said),
                (out.into(), Some(exit)),
                "{shell:?} {script}"
            );
            assert_eq!(err, "", "{shell:?} {script}: it goes nowhere");
        }
    }
}

#[test]
fn through_every_shell_what_keeps_it_from_the_program_is_said() {
    let directory = Program { cwd: Some(text("/no/such/directory")), ..sh("true") };
    let missing = Program { executable: text("no-such-program"), ..sh("true") };
    let barred = Program { executable: text("/etc/passwd"), ..sh("true") };
    for shell in shells() {
        for (program, status, words) in [
            (&directory, quote::SETUP_FAILED, quote::NO_DIRECTORY),
            (&missing, 127, "no-such-program"),
            (&barred, 126, "/etc/passwd"),
        ] {
            let (bytes, said, _) = run(&shell, program, b"");
            let text = String::from_utf8_lossy(&bytes);
            assert_eq!(said, Some(Exit::Code(status)), "{shell:?}: {text}");
            assert!(text.contains(words), "{shell:?}: {text}");
        }
    }
}

#[test]
fn through_every_shell_words_of_any_bytes_and_of_any_length_arrive() {
    let long = "x".repeat(100_000);
    let odd = OsBytes::new(*b"it's \"$HOME\" `id` \\0134 %s\n\xff\x1e !! ~ * #\n").unwrap();
    let mut program = sh(r#"printf '%s|' "$A" "$@" && cat"#);
    program.args.extend([text("sh"), odd.clone(), text(&long), text("")]);
    program.env.push(libi_core::dist::EnvVar::new(text("A"), odd.clone()).unwrap());
    let expected = [odd.as_bytes(), b"|", odd.as_bytes(), b"|", long.as_bytes(), b"||\0behind"].concat();
    for shell in shells() {
        let (bytes, said, _) = run(&shell, &program, b"\0behind");
        assert!(bytes == expected, "{shell:?}: {}", String::from_utf8_lossy(&bytes[..200]));
        assert_eq!(said, Some(Exit::Code(0)), "{shell:?}");
    }
}

#[test]
fn a_shell_whose_caller_leaves_before_all_was_said_runs_nothing() {
    let scratch = std::env::temp_dir().join(format!("libi-rsh-{}", std::process::id()));
    let program = sh(&format!("echo ran >{}", scratch.display()));
    let spec = Rsh::new().spawn_spec(&host("n1", None, None), &program).unwrap();
    for shell in shells() {
        let (theirs, mut ours) = io::pipe().unwrap();
        let mut start = Start::new(text(shell[0]), Environment::inherited());
        start.args = shell[1..].iter().map(|word| text(word)).chain(spec.args.last().cloned()).collect();
        let mut child = start.fd(0, theirs.as_fd()).start().unwrap();
        drop(theirs);
        ours.write_all(&spec.initial_input[..spec.initial_input.len() - 1]).unwrap();
        drop(ours);
        child.wait_for(Duration::from_secs(60)).expect("it ends in time");
        assert!(!fs::exists(&scratch).unwrap(), "{shell:?}");
    }
}

#[test]
fn through_every_shell_a_program_leads_a_group_of_its_own() {
    let program = sh("read -r _ _ _ _ group _ </proc/$$/stat; [ $group = $$ ] && echo leads");
    for shell in shells() {
        assert_eq!(run(&shell, &program, b"").0, b"leads\n", "{shell:?}");
    }
}

#[test]
fn of_what_rsh_prints_its_progress_is_left_out_and_nothing_else() {
    let failed = "Trying 10.0.0.1 port 514... Connection failed: Connection refused\n";
    let all =
        format!("{failed}Trying 10.0.0.2 port 514... Connected.\nrsh: Connection reset by peer\nno end");
    let left = format!("{failed}rsh: Connection reset by peer\nno end");
    assert_eq!(without_progress(all.as_bytes()), left.as_bytes());
}

#[test]
fn what_rsh_prints_before_it_is_connected_waits_for_the_rest() {
    // It prints the line in two parts: what is tried, and behind it what became of that.
    assert!(may_be_progress(b"Trying 10.0.0.2 port 514..."));
    for other in ["Trying my best", "Password: ", "Are you trying ..."] {
        assert!(!may_be_progress(other.as_bytes()), "{other}");
    }
}
