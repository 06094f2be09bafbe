//! Which file a program is on the hosts, and what is reported if it cannot be loaded there.

use std::process::Command;

use libi::{Backend, Distribution, Exit, FrontEnd, LaunchOptions, OsBytes, Policy, ShellError};

use libi_testkit::programs;

use crate::scene::Scene;

/// These options, with a remote shell that starts in another directory than this test.
fn elsewhere(options: LaunchOptions) -> LaunchOptions {
    let Some(Backend::Shell(mut shell)) = options.backend.clone() else { panic!("{options:?}") };
    let change = ["-C", "/"].map(|text| OsBytes::try_from(text).unwrap());
    shell.args.splice(0..0, change);
    options.backend(Backend::Shell(shell))
}

/// The path of the test's members, relative to the current directory.
fn relative_member() -> String {
    let up = std::env::current_dir().unwrap().components().skip(1).map(|_| "../").collect::<String>();
    format!("./{up}{}", programs::member().trim_start_matches('/'))
}

#[test]
fn a_relative_program_is_the_file_that_the_front_end_sees() {
    let scene = Scene::new("seq 2ms\nrem 5ms");
    let members = Distribution::new(relative_member()).args(["join", "finish:20000"]).hosts("n[0-3]:2");
    let front = FrontEnd::new().unwrap();
    let session = front.launch(&members, &elsewhere(scene.options())).unwrap();
    assert_eq!(session.report().unwrap().joined(), 4);
    drop((session, front));
    scene.nothing_is_left();
}

#[test]
fn a_missing_shared_library_is_named_with_a_hint() {
    let scene = Scene::new("seq 2ms\nrem 5ms");
    // Another process writes the file: a child that a concurrent test starts would inherit this
    // process's descriptor, and a file that is open for writing cannot be executed.
    let path = scene.lab.0.join("program");
    let copy = "sed s/libc.so.6/libX.so.6/ /bin/sh >$0 && chmod +x $0";
    let written = Command::new("sh").args(["-c", copy]).arg(&path).env("LC_ALL", "C").status().unwrap();
    assert!(written.success());
    let members = Distribution::new(&path).hosts("n[0-1]");
    let front = FrontEnd::new().unwrap();
    for options in [scene.options(), LaunchOptions::local()] {
        let error = front.launch(&members, &options.policy(Policy::All)).map(drop).unwrap_err();
        let libi::Error::NotLaunched(report) = error else { panic!("{error}") };
        let (_, failure) = report.failed().next().unwrap();
        assert_eq!(failure.exit, Some(Exit::Code(127)));
        assert_eq!(failure.shell_error(), Some(ShellError::LibraryMissing("libX.so.6".to_owned())));
        let text = report.to_string();
        assert!(text.contains("  cannot load shared library libX.so.6 (exited 127 after "), "{text}");
        let hints = "\nhint: libX.so.6 is missing on n0: link statically or with an rpath\n\
                     hint: no session comes up without n0, which has the master: put another host first, \
                     or name spare hosts";
        assert!(text.ends_with(hints), "{text}");
    }
}
