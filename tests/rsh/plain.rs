//! The network can read what rsh carries: launches are refused unless the caller allows that, and
//! warn if allowed.

use std::process::Command;
use std::sync::Mutex;
use std::thread::ThreadId;

use libi::{Backend, Error, Exit, FrontEnd, OsBytes, Rsh, Shell};

use crate::options;
use libi_testkit::labs::{Marked, Rshd};
use libi_testkit::local::{Heard, launch_with};
use libi_testkit::programs;

/// What each thread was warned of.
static WARNINGS: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());

struct Listener;

impl log::Log for Listener {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() == log::Level::Warn {
            WARNINGS.lock().unwrap().push((std::thread::current().id(), record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

#[test]
fn rsh_is_refused_by_whatever_means_before_anything_is_started_unless_it_is_allowed() {
    let rsh = || OsBytes::new("/no/such/directory/rsh").unwrap();
    for backend in [Backend::Rsh(Rsh { program: rsh(), ..Rsh::new() }), Backend::Shell(Shell::new(rsh()))] {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let members = || [mark.program("daemon", "n1", &[])];
        let refused = options(backend.clone()).allow_plain(false);
        let error = front.launch_all(&members(), &refused).err().unwrap();
        assert!(matches!(error, Error::Plain(_)), "{error}");
        for words in ["/no/such/directory/rsh", "in the clear", "allow_plain", "--allow-plain"] {
            assert!(error.to_string().contains(words), "{error} without {words}");
        }
        // Allowed, it is tried.
        let error = front.launch_all(&members(), &options(backend)).err().unwrap();
        assert!(matches!(error, Error::NotLaunched(_)), "{error}");
    }
}

#[test]
fn each_session_through_rsh_logs_one_warning_for_any_launcher() {
    let Some(lab) = Rshd::up() else { return };
    let _ = log::set_logger(&Listener);
    log::set_max_level(log::LevelFilter::Trace);
    for before in 0..2 {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let members = mark.program(&lab.member(), "127.0.1.[1-6]", &["join", "finish:30000"]);
        let strategy = "kary:2".parse().unwrap();
        let session = launch_with(&front, &[members], &options(lab.backend("main")).strategy(strategy));
        let heard = Heard::all(&front);
        assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{}", heard.described());
        let me = std::thread::current().id();
        let warnings = WARNINGS.lock().unwrap();
        let mine: Vec<_> = warnings.iter().filter(|(thread, _)| *thread == me).collect();
        assert_eq!(mine.len(), before + 1, "{mine:?}");
        assert!(mine[before].1.contains("rsh") && mine[before].1.contains("can read"), "{mine:?}");
        drop((session, front));
        drop(warnings);
        mark.nothing_is_left();
        lab.nothing_is_left();
    }
}

#[test]
fn the_program_refuses_rsh_with_status_2_and_with_allow_plain_warns_once_and_runs() {
    let Some(lab) = Rshd::up() else { return };
    let hosts = format!("libi-rsh-sh@127.0.1.[1-4]:{}:2", lab.port("main"));
    let (member, libi) = (lab.member(), lab.bring(programs::libi(), "libi"));
    let run = |more: &[&str]| {
        let words = ["run", "--hosts", &hosts, "--shell", "rsh"];
        let program = [member.as_str(), "join", "out:rank {rank}", "finish:30000"];
        Command::new(&libi).args([&words[..], more, &program].concat()).output().unwrap()
    };
    let refused = run(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("--allow-plain") && refused.stdout.is_empty(), "{said}");
    let run = run(&["--allow-plain"]);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("libi: warning: ").count(), 1, "{said}");
    assert_eq!(said.lines().count(), 1, "nothing else: {said}");
    let out = String::from_utf8_lossy(&run.stdout).into_owned();
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..8).map(|rank| format!("rank {rank}")).collect::<Vec<_>>());
    lab.nothing_is_left();
}

#[test]
fn the_doctor_examines_hosts_through_rsh() {
    let Some(lab) = Rshd::up() else { return };
    let port = lab.port("main");
    let hosts = format!(
        "libi-rsh-sh@127.0.1.[1-3]:{port}:1 nobody@127.0.1.4:{port}:1 libi-rsh-sh@127.0.1.99:{port}:1"
    );
    let examined =
        Command::new(programs::libi()).args(["doctor", "--shell", "rsh", &hosts]).output().unwrap();
    let said = String::from_utf8_lossy(&[examined.stdout, examined.stderr].concat()).into_owned();
    println!("{said}");
    assert_eq!(examined.status.code(), Some(3), "{said}");
    assert!(said.contains("a launch would work on 3 of them"), "{said}");
    for words in ["Authentication failure", "Connection refused"] {
        assert!(said.contains(words), "{said} without {words}");
    }
    lab.nothing_is_left();
}
