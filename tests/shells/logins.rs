//! Members whose remote login has another umask and other limits than the front end.

use std::process::Command;

use libi::{Backend, LaunchOptions, MemberLimits, OsBytes, Shell, Stream};

use crate::scene::Scene;

/// These options, with a remote shell whose logins have this umask and soft limit of open files.
fn with_login(options: LaunchOptions, umask: &str, open_files: u32) -> LaunchOptions {
    let Some(Backend::Shell(shell)) = options.backend.clone() else { panic!("{options:?}") };
    let word = |text: &str| OsBytes::try_from(text).unwrap();
    let login = format!(r#"umask {umask}; ulimit -S -n {open_files}; exec {} "$@""#, shell.program);
    let args = [word("-c"), word(&login), word("sh")].into_iter().chain(shell.args);
    options.backend(Shell { args: args.collect(), ..Shell::new(word("sh")) })
}

#[test]
fn members_have_the_limits_of_their_login_or_those_of_the_front_end() {
    let here = Command::new("sh").args(["-c", "umask; ulimit -S -n"]).output().unwrap();
    let here = String::from_utf8(here.stdout).unwrap().lines().collect::<Vec<_>>().join(" ");
    let scene = Scene::new("seq 2ms\nrem 5ms");
    let options = with_login(scene.options(), "0170", 500);
    for (limits, expected) in [(MemberLimits::Login, "0170 500"), (MemberLimits::FrontEnd, &*here)] {
        let words = ["join", "limits", "finish:20000"];
        let outcome = scene.play("n[0-3]:2", &words, &options.clone().limits(limits.clone()));
        assert_eq!(outcome.report.joined(), 4, "{}", outcome.report);
        for rank in 0..8 {
            let printed = outcome.printed(rank, Stream::Out);
            assert_eq!(printed.trim_end(), expected, "rank {rank} with {limits:?}");
        }
    }
}
