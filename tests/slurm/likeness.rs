//! The same program over ssh and over srun: the same output, environment, directory, umask, limits
//! and exit statuses, but for what sshd and Slurm add themselves.

use std::collections::BTreeMap;
use std::process::Stdio;

use libi::{Backend, Exit, FrontEnd, MemberLimits, OsBytes, SshClient, Stream};

use crate::jobs::said;
use crate::options;
use libi_testkit::labs::{Marked, Slurm, Sshd};
use libi_testkit::local::{Heard, launch_with};

const ROLE: &str = "likeness::plays_a_front_end_that_launches_over_ssh_and_over_srun";
/// Variables of sshd, Slurm and libi, and those that only a login or a shell sets.
const MANAGERS: [&str; 13] = [
    "SLURM", "SRUN_", "SSH_", "LIBI_", "MOTD_", "MAIL=", "_=", "PWD=", "OLDPWD=", "SHLVL=", "TERM=", "LANG=",
    "TMPDIR=",
];

/// As whom the laboratory of ssh logs in.
const USER: &str = "libi-sh";

/// What the ranks have printed, and how they have ended.
type Seen = (BTreeMap<(u32, Stream), Vec<String>>, BTreeMap<u32, Exit>);

fn seen(member: &str, mark: &Marked, directory: &str, hosts: &str, backend: Backend) -> Seen {
    let front = FrontEnd::new().unwrap();
    let words = [
        "join",
        "talk:barrier",
        "out:{rank} of {size}",
        "err:{rank}",
        "limits",
        "cwd",
        "read",
        "environment",
    ];
    let ends = ["talk:barrier", "only:1:signal:9", "finish:30000", "only:2:exit:7", "only:3:signal:15"];
    let mut members = mark.spec(member, hosts, &[&words[..], &ends].concat());
    members.cwd = Some(OsBytes::new(directory).unwrap());
    let options = options(backend).limits(MemberLimits::FrontEnd);
    let session = launch_with(&front, &[members.into()], &options);
    let heard = Heard::all(&front);
    drop((session, front));
    let lines = |text: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(text);
        let is_of_program = |line: &&str| !MANAGERS.iter().any(|name| line.starts_with(name));
        text.lines().filter(is_of_program).map(str::to_owned).collect()
    };
    (heard.texts.iter().map(|(key, text)| (*key, lines(text))).collect(), heard.exits)
}

#[test]
#[ignore = "is played for another test, in a process of its own"]
fn plays_a_front_end_that_launches_over_ssh_and_over_srun() {
    let (lab, sshd) = (Slurm::of_another_process(), Sshd::of_another_process());
    let (mark, directory) = (Marked::new(), lab.path("log"));
    let over = |hosts, backend| seen(&lab.member(), &mark, &directory, hosts, backend);
    let by_srun = over("s0001:2,s0002,s0001,s0003", lab.srun().into());
    let by_ssh = over("n1:2,n2,n1,n3", sshd.ssh("main", SshClient::OpenSsh));
    println!("{by_srun:#?}");
    assert_eq!(by_srun, by_ssh);
    let out = &by_srun.0[&(0, Stream::Out)];
    assert_eq!(out[..4], ["0 of 5", "0027 500", &directory, "0"]);
    // What a leader has printed that is killed may be lost with it; ranks 1 and 3 are none.
    let exits = [Exit::Code(0), Exit::Signal(9), Exit::Code(7), Exit::Signal(15), Exit::Code(0)];
    assert!(by_srun.1.values().eq(&exits), "{:?}", by_srun.1);
}

#[test]
fn the_same_program_over_ssh_and_over_srun_does_the_same() {
    let Some(lab) = Slurm::up() else { return };
    let Some(sshd) = Sshd::up() else { return };
    let (program, home) = (std::env::current_exe().unwrap(), sshd.home(USER));
    // As after a login of that user.
    let script = format!(
        "umask 0027; ulimit -S -n 500; exec env -i HOME='{}' USER={USER} LOGNAME={USER} SHELL=/bin/sh \
         PATH=/usr/local/bin:/usr/bin:/bin:/usr/games '{}' --exact --ignored --nocapture {ROLE}",
        home.display(),
        program.display()
    );
    let output = lab.plain("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    let said = said(&output);
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    lab.nothing_is_left();
}
