//! Files that are staged: they are on every host before anything runs, and on none afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use libi::{
    Agent, Backend, Cause, Distribution, Error, Event, Exit, FrontEnd, LaunchOptions, Programs, Staging,
    Strategy,
};
use libi_testkit::programs;
use libi_testkit::shell::eventually;

use crate::scene::{Outcome, Scene, word};

/// How long a session may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A scene whose hosts keep staged files in one directory of the laboratory.
struct StagingScene {
    scene: Scene,
    places: PathBuf,
}

impl StagingScene {
    fn new(config: &str) -> Self {
        let scene = Scene::new(config);
        let places = scene.lab.0.join("places");
        fs::create_dir(&places).unwrap();
        Self { scene, places }
    }

    fn options(&self, staging: Staging) -> LaunchOptions {
        let options = self.scene.options();
        let Some(Backend::Shell(mut shell)) = options.backend.clone() else { panic!("{options:?}") };
        shell.args.insert(0, word(&format!("XDG_RUNTIME_DIR={}", self.places.display())));
        let agent = Agent::new(word(programs::agent()));
        options
            .backend(Backend::Shell(shell))
            .agent(agent)
            .programs(Programs::Any)
            .strategy("kary:2".parse::<Strategy>().unwrap())
            .deadline(TIMEOUT)
            .stage(staging)
    }

    /// A file of the laboratory.
    fn file(&self, name: &str, content: &[u8], is_program: bool) -> PathBuf {
        let path = self.scene.lab.0.join(name);
        fs::write(&path, content).unwrap();
        let mode = if is_program { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// The directories of staged files that are there.
    fn staged(&self) -> BTreeSet<PathBuf> {
        fs::read_dir(&self.places).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    fn nothing_is_staged(&self) {
        eventually("no staged file is left", || self.staged().is_empty());
        self.scene.nothing_is_left();
    }
}

/// Content of this length that no compression and no repetition reproduces.
fn noise(length: usize) -> Vec<u8> {
    let mut rng = libi_core::sim::rng::Rng::new(length as u64);
    (0..length.div_ceil(8)).flat_map(|_| rng.bits().to_le_bytes()).take(length).collect()
}

/// Runs a script with these words on hosts, to its end.
fn run(options: &LaunchOptions, hosts: &str, words: &[&str]) -> (Outcome, Vec<(u64, u64, u32)>) {
    let front = FrontEnd::new().unwrap();
    let distribution = Distribution::new(words[0]).args(&words[1..]).hosts(hosts);
    let session = front.start(&distribution, options).unwrap();
    let report = match session.wait_up(TIMEOUT) {
        Ok(report) | Err(Error::NotLaunched(report)) => report,
        Err(error) => panic!("{error}"),
    };
    let (mut outcome, mut progress) = (Outcome::new(report), Vec::new());
    let by = Instant::now() + TIMEOUT;
    while outcome.report.is_up() && !outcome.done {
        let event = front.next_event(by.saturating_duration_since(Instant::now()));
        match event.expect("the session ends in time") {
            Event::Staging { sent, of, hosts, .. } => progress.push((sent, of, hosts)),
            event => outcome.note(event),
        }
    }
    (outcome, progress)
}

fn hash(path: &Path) -> String {
    let output = Command::new("b2sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn files_are_on_every_host_before_its_programs_and_on_none_afterwards() {
    let scene = StagingScene::new("seq 2ms\nrem 10ms");
    let data = scene.file("data.bin", &noise(3_000_001), false);
    let tool = scene.file("tool", b"#!/bin/sh\nb2sum <\"$LIBI_STAGE/data.bin\"\necho \"$0\"\n", true);
    let staging = Staging::new().file(&tool).unwrap().file(&data).unwrap();
    let total = staging.bytes();
    // The file that the hosts have is the staged one: this one is gone.
    let options = scene.options(staging);
    let expected = hash(&data);
    fs::remove_file(&data).unwrap();
    let (outcome, progress) = run(&options, "n[00-11]:2", &[tool.to_str().unwrap()]);
    assert_eq!(outcome.report.joined(), 12, "{}", outcome.report);
    assert!(outcome.exits.len() == 24 && outcome.exits.values().all(|exit| *exit == Exit::Code(0)));
    let mut directories = BTreeSet::new();
    for rank in 0..24 {
        let printed = outcome.printed(rank, libi::Stream::Out);
        let mut lines = printed.lines();
        assert_eq!(lines.next(), Some(format!("{expected}  -").as_str()), "rank {rank}");
        let executed = PathBuf::from(lines.next().unwrap());
        assert!(executed.starts_with(&scene.places) && executed.ends_with("tool"), "{executed:?}");
        directories.insert(executed);
    }
    assert_eq!(directories.len(), 12, "one for each host");
    // The front end has launched one host, which has passed them on.
    let last = progress.last().unwrap();
    assert_eq!((last.0, last.1), (total, total), "{progress:?}");
    scene.nothing_is_staged();
}

#[test]
fn private_libraries_come_with_their_program() {
    let scene = StagingScene::new("seq 2ms\nrem 10ms");
    let lab = &scene.scene.lab.0;
    for (name, needs) in [("one", None), ("two", Some("one")), ("three", Some("two"))] {
        let call = needs.map_or("1".to_owned(), |needs| format!("{needs}() + 1"));
        let declaration = needs.map_or(String::new(), |needs| format!("int {needs}(void);"));
        let source = scene.file(
            &format!("{name}.c"),
            format!("{declaration} int {name}(void) {{ return {call}; }}").as_bytes(),
            false,
        );
        compile(lab, &source, &format!("lib{name}.so"), &["-shared", "-fPIC"], needs);
    }
    let main =
        "#include <stdio.h>\nint three(void);\nint main(void) { return printf(\"%d\\n\", three()) < 0; }";
    let source = scene.file("main.c", main.as_bytes(), false);
    compile(lab, &source, "program", &[], Some("three"));
    let program = lab.join("program");
    let staging = Staging::new().file(&program).unwrap().with_libraries().unwrap();
    let names: Vec<_> = staging.files().iter().map(|file| file.name().to_string()).collect();
    assert_eq!(names, ["program", "libthree.so", "libtwo.so", "libone.so"]);
    let options = scene.options(staging);
    for name in ["one", "two", "three"] {
        fs::remove_file(lab.join(format!("lib{name}.so"))).unwrap();
    }
    let (outcome, _) = run(&options, "n[0-3]", &[program.to_str().unwrap()]);
    assert_eq!(outcome.exits.len(), 4, "{}", outcome.report);
    for rank in 0..4 {
        assert_eq!(outcome.printed(rank, libi::Stream::Out), "3\n", "{:?}", outcome.printed);
    }
    scene.nothing_is_staged();
}

/// Compiles a C file in the laboratory, linked with one of its libraries.
fn compile(lab: &Path, source: &Path, name: &str, flags: &[&str], needs: Option<&str>) {
    let mut compiler = Command::new("cc");
    compiler.args(flags).arg(source).arg("-o").arg(lab.join(name)).arg("-L").arg(lab);
    if let Some(needs) = needs {
        // Libraries without a path of their own are found by that of their program alone.
        compiler.arg(format!("-l{needs}")).arg(format!("-Wl,-rpath,{},--disable-new-dtags", lab.display()));
        compiler.arg(format!("-Wl,-rpath-link,{}", lab.display()));
    }
    assert!(compiler.status().unwrap().success());
}

#[test]
fn files_stay_if_they_are_to_be_kept() {
    let scene = StagingScene::new("seq 2ms\nrem 10ms");
    let data = scene.file("data.bin", &noise(1_000), false);
    let options = scene.options(Staging::new().file(&data).unwrap().keep());
    let (outcome, _) = run(&options, "n[0-2]", &["true"]);
    assert_eq!(outcome.report.joined(), 3, "{}", outcome.report);
    scene.scene.nothing_is_left();
    assert_eq!(scene.staged().len(), 3);
    for directory in scene.staged() {
        assert_eq!(hash(&directory.join("data.bin")), hash(&data));
    }
}

#[test]
fn a_killed_agent_leaves_no_files() {
    let scene = StagingScene::new("seq 2ms\nrem 10ms");
    let data = scene.file("data.bin", &noise(1_000), false);
    let options = scene.options(Staging::new().file(&data).unwrap());
    let front = FrontEnd::new().unwrap();
    let sleepers = Distribution::new("sleep").args(["600"]).hosts("n[0-3]");
    let session = front.launch(&sleepers, &options).unwrap();
    assert_eq!(scene.staged().len(), 4);
    let agents = || {
        let command = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let all = scene.scene.processes().into_iter();
        all.filter(move |process| command(process.pid).starts_with(programs::agent().as_bytes()))
    };
    // One that launches no others.
    let victim = agents().find(|agent| agent.host == "n3").unwrap();
    victim.kill();
    eventually("its files are removed", || scene.staged().len() == 3);
    agents().for_each(|agent| agent.kill());
    scene.nothing_is_staged();
    drop((session, front));
}

#[test]
fn files_without_an_agent_are_refused() {
    let scene = StagingScene::new("seq 2ms\nrem 10ms");
    let data = scene.file("data.bin", b"x", false);
    let mut options = scene.options(Staging::new().file(data).unwrap());
    options.agent = None;
    let refused = FrontEnd::new().unwrap().launch(&Distribution::new("true").hosts("n0"), &options);
    assert!(matches!(refused, Err(Error::NoAgent)));
}

#[test]
fn a_file_that_has_become_shorter_fails_the_launch_with_its_name() {
    let scene = StagingScene::new("seq 2ms\nrem 10ms");
    let data = scene.file("data.bin", &noise(200_000), false);
    let options = scene.options(Staging::new().file(&data).unwrap());
    fs::OpenOptions::new().write(true).open(&data).unwrap().set_len(100).unwrap();
    let (outcome, _) = run(&options, "n[0-2]", &["true"]);
    assert!(!outcome.report.is_up());
    let (_, failure) = outcome.report.failed().next().unwrap();
    let Cause::NotStaged(why) = &failure.cause else { panic!("{}", outcome.report) };
    assert!(why.ends_with("data.bin is shorter than before"), "{why}");
    scene.nothing_is_staged();
}

#[test]
fn a_file_that_has_changed_is_refused_by_its_hash() {
    let scene = StagingScene::new("seq 2ms\nrem 10ms");
    let data = scene.file("data.bin", &noise(200_000), false);
    let options = scene.options(Staging::new().file(&data).unwrap());
    fs::write(&data, noise(200_008).split_at(8).1).unwrap();
    let (outcome, _) = run(&options, "n[0-2]", &["true"]);
    let (_, failure) = outcome.report.failed().next().unwrap();
    let Cause::NotStaged(why) = &failure.cause else { panic!("{}", outcome.report) };
    assert!(why.starts_with("data.bin has the hash "), "{why}");
    scene.nothing_is_staged();
}
