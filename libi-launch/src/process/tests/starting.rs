//! What a process gets to see of what it was started with.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::*;

#[test]
fn arguments_and_variables_arrive_byte_by_byte_and_in_order() {
    let mut start = Start::new(
        word("/bin/sh"),
        Environment::from_iter([variable("Z", "1"), variable("a.b", " '\n"), variable("A", "")]),
    );
    start.args = vec![word("-c"), word("cat /proc/$$/cmdline /proc/$$/environ; :"), word(""), word("x\ny *")];
    start.env = start.env.with([variable("PATH", "/bin:/usr/bin")]);
    let (seen, exit) = output(&start);
    assert_eq!(exit, ExitStatus::Code(0));
    let script = "cat /proc/$$/cmdline /proc/$$/environ; :";
    let expected = ["/bin/sh", "-c", script, "", "x\ny *", "Z=1", "a.b= '\n", "A=", "PATH=/bin:/usr/bin", ""];
    assert_eq!(seen, expected.join("\0"));
}

#[test]
fn what_is_not_utf8_arrives_as_it_is() {
    let mut start = start("/bin/sh", &["-c", "printf %s \"$1$V\" | od -An -tx1", "sh"]);
    start.args.push(word([0xff, 0x80]));
    start.env = start.env.with([EnvVar::new(word("V"), word([0xfe])).unwrap()]);
    assert_eq!(output(&start).0, " ff 80 fe\n");
}

#[test]
fn the_environment_is_in_force_before_the_program_is_loaded() {
    // A loader that is asked to list what it would load does that, and does not run the program.
    let mut start = start("/bin/sh", &["-c", "echo ran"]);
    start.env = start.env.with([variable("LD_TRACE_LOADED_OBJECTS", "1")]);
    let (seen, _) = output(&start);
    assert!(seen.contains("libc.so") && !seen.contains("ran"), "{seen}");
}

#[test]
fn the_working_directory_is_set_and_relative_programs_are_below_it() {
    let scratch = Scratch::new();
    scratch.file("tools/where", 0o755, b"#!/bin/sh\npwd -P\n");
    let mut by_path = start("tools/where", &[]);
    by_path.cwd = Some(scratch.word());
    assert_eq!(output(&by_path).0, format!("{}\n", scratch.word()));
    for path in ["tools", "/nonexistent:tools"] {
        let mut by_name = start("where", &[]);
        by_name.env = by_name.env.with([variable("PATH", path)]);
        by_name.cwd = Some(scratch.word());
        assert_eq!(output(&by_name).0, format!("{}\n", scratch.word()));
    }
}

#[test]
fn the_search_goes_by_the_path_of_the_child_and_an_empty_entry_is_its_directory() {
    let scratch = Scratch::new();
    scratch.file("first/tool", 0o644, b"#!/bin/sh\necho first\n");
    scratch.file("second/tool", 0o755, b"#!/bin/sh\necho second\n");
    scratch.file("third/tool", 0o755, b"#!/bin/sh\necho third\n");
    let found = |path: &str, cwd: &str| {
        let mut start = start("tool", &[]);
        start.env = start.env.with([variable("PATH", path)]);
        start.cwd = Some(word(scratch.0.join(cwd).to_str().unwrap()));
        output(&start).0
    };
    let here = scratch.word();
    assert_eq!(found(&format!("{here}/first:{here}/second:{here}/third"), "."), "second\n");
    assert_eq!(found(&format!(":{here}/second"), "third"), "third\n");
}

#[test]
fn a_script_without_an_interpreter_is_run_by_the_shell() {
    let scratch = Scratch::new();
    scratch.file("-script", 0o755, b"echo \"$0 $#:$2\"\n");
    let mut start = start("-script", &["a", "b c"]);
    start.env = start.env.with([variable("PATH", "")]);
    start.cwd = Some(scratch.word());
    assert_eq!(output(&start), ("./-script 2:b c\n".into(), ExitStatus::Code(0)));
    let slash = scratch.file("empty", 0o755, b"");
    assert_eq!(output(&super::start(&slash, &[])), (String::new(), ExitStatus::Code(0)));
}

#[test]
fn a_channel_is_inherited_under_the_number_that_was_asked_for() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = shell("read word <&3; echo \"got $word\" >&3").fd(3, theirs.as_fd()).start().unwrap();
    drop(theirs);
    std::io::Write::write_all(&mut &ours, b"hello\n").unwrap();
    ours.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut answer = String::new();
    (&ours).read_to_string(&mut answer).unwrap();
    assert_eq!((answer.as_str(), ends(&mut child)), ("got hello\n", ExitStatus::Code(0)));
}

#[test]
fn descriptors_that_are_in_each_others_place_are_exchanged() {
    let scratch = Scratch::new();
    let files: Vec<OwnedFd> = ["a", "b", "c"]
        .map(|name| File::open(scratch.file(name, 0o644, name.as_bytes())).unwrap().into())
        .into();
    let number = |at: usize| u16::try_from(files[at].as_raw_fd()).unwrap();
    // Each becomes the next one, the first one also standard input.
    let mut start = shell("").fd(0, files[0].as_fd());
    for (at, file) in files.iter().enumerate() {
        start = start.fd(number((at + 1) % 3), file.as_fd());
    }
    start.args[1] =
        word(format!("cat /dev/fd/0 /dev/fd/{} /dev/fd/{} /dev/fd/{}", number(0), number(1), number(2)));
    assert_eq!(output(&start), ("acab".into(), ExitStatus::Code(0)));
}

#[test]
fn a_descriptor_that_is_in_its_place_already_survives_the_start() {
    let (pipe, theirs) = std::io::pipe().unwrap();
    let number = u16::try_from(theirs.as_raw_fd()).unwrap();
    let start = shell(&format!("echo here > /dev/fd/{number}")).fd(number, theirs.as_fd());
    let mut child = start.start().unwrap();
    drop(theirs);
    assert_eq!((read(pipe).as_str(), ends(&mut child)), ("here\n", ExitStatus::Code(0)));
}

#[test]
fn standard_input_is_empty_and_a_descriptor_we_lack_is_dev_null_instead_of_missing() {
    assert_eq!(output(&shell("cat; readlink /proc/self/fd/0")).0, "/dev/null\n");
    let mut start = shell("readlink /proc/$$/fd/999; :");
    start.fds.insert(999, FdSource::Inherit);
    assert!(!sys::is_open(999), "nothing here opens as many files");
    assert_eq!(output(&start).0, "/dev/null\n");
}

#[test]
fn no_signal_is_blocked_or_ignored_although_the_parent_does_both() {
    let blocked = sys::SignalsBlocked::here();
    let shell = paused(&shell(""));
    let ours = fs::read_to_string("/proc/thread-self/status").unwrap();
    let set = |status: &str, key: &str| u64::from_str_radix(line(status, key), 16).unwrap();
    assert!(set(&ours, "SigBlk").count_ones() > 60, "still, since they were before");
    let sigpipe = 1 << (libc::SIGPIPE - 1);
    assert_eq!(set(&ours, "SigIgn") & sigpipe, sigpipe, "as Rust's runtime has it in all programs");
    drop(blocked);
    assert_eq!((set(&shell.status(), "SigBlk"), set(&shell.status(), "SigIgn")), (0, 0));
}

#[test]
fn it_leads_a_group_of_its_own_unless_it_is_to_stay_in_ours() {
    // Of `stat` after the name: state, parent, group.
    let group = |stat: String| stat.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap().to_owned();
    let own = paused(&shell(""));
    assert_eq!(group(fs::read_to_string(own.proc("stat")).unwrap()), own.child.pid().to_string());
    let mut start = shell("");
    start.own_group = false;
    let ours = group(fs::read_to_string("/proc/self/stat").unwrap());
    assert_eq!(group(fs::read_to_string(paused(&start).proc("stat")).unwrap()), ours);
}

#[test]
fn the_limit_of_open_files_can_be_lowered_and_never_exceeds_the_hard_one() {
    let mut lower = shell("ulimit -Sn; ulimit -Hn");
    let (inherited, _) = output(&lower);
    let (soft, hard) = inherited.trim().split_once('\n').unwrap();
    lower.open_files = Some(200);
    assert_eq!(output(&lower).0, format!("200\n{hard}\n"));
    lower.open_files = Some(u64::MAX);
    assert_eq!(output(&lower).0, format!("{hard}\n{hard}\n"));
    assert_eq!(output(&shell("ulimit -Sn")).0.trim(), soft, "ours is untouched");
}
