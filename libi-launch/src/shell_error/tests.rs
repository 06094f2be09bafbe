//! What ssh and rsh say, word for word, and what it is taken for.

use std::time::Duration;

use super::*;
use crate::failure::{Cause, Exit, Failure, Phase};
use crate::quote::NO_DIRECTORY;

fn failure(phase: Phase, status: i32, tail: &str) -> Failure {
    let exit = Exit::Code(status);
    let failure = Failure::without_evidence(phase, Cause::Exited(exit), Duration::from_secs(1));
    Failure { exit: Some(exit), tail: tail.to_owned(), ..failure }
}

fn shell_error(status: i32, tail: &str) -> Option<ShellError> {
    failure(Phase::Starting, status, tail).shell_error()
}

#[test]
fn what_ssh_says_of_a_connection_that_is_not_made() {
    use ShellError::{
        ClosedBeforeLogin, ConnectionRefused, NameService, NameUnknown, NoPort, NoRoute, TimedOut,
    };
    for (reason, expected) in [
        ("Connection refused", ConnectionRefused),
        ("Connection timed out", TimedOut),
        ("Operation timed out", TimedOut),
        ("No route to host", NoRoute),
        ("Network is unreachable", NoRoute),
        ("Permission denied", NoRoute),
        ("Cannot assign requested address", NoPort),
        ("Connection reset by peer", ClosedBeforeLogin),
    ] {
        let said = format!("Welcome\nssh: connect to host n1 port 22: {reason}\r\n");
        assert_eq!(shell_error(255, &said), Some(expected.clone()), "{said}");
        let behind = format!(
            "channel 0: open failed: connect failed: {reason}\nstdio forwarding failed\n\
             kex_exchange_identification: Connection closed by remote host\n\
             Connection closed by UNKNOWN port 65535\n"
        );
        assert_eq!(shell_error(255, &behind), Some(expected), "a jump host: {behind}");
    }
    for (reason, expected) in [
        ("Name or service not known", NameUnknown),
        ("No address associated with hostname", NameUnknown),
        ("Name does not resolve", NameUnknown),
        ("Temporary failure in name resolution", NameService),
        ("Try again", NameService),
    ] {
        let said = format!("ssh: Could not resolve hostname n1: {reason}\r\n");
        assert_eq!(shell_error(255, &said), Some(expected), "{said}");
    }
}

#[test]
fn what_ssh_says_of_a_server_that_does_not_let_it_in() {
    use ShellError::{
        ClosedBeforeLogin, HostKeyChanged, HostKeyUnknown, LoginDenied, NoCommonAlgorithm, TimedOut,
    };
    for (said, expected) in [
        (
            "kex_exchange_identification: Connection closed by remote host\r\n\
             Connection closed by ::1 port 22\r\n",
            ClosedBeforeLogin,
        ),
        (
            "kex_exchange_identification: read: Connection reset by peer\r\n\
             Connection reset by ::1 port 22\r\n",
            ClosedBeforeLogin,
        ),
        ("ssh_exchange_identification: read: Connection reset by peer\r\n", ClosedBeforeLogin),
        ("ssh_exchange_identification: Connection closed by remote host\r\n", ClosedBeforeLogin),
        ("Exceeded MaxStartups\r\n", ClosedBeforeLogin),
        ("Connection closed by 10.0.0.1 port 22\r\n", ClosedBeforeLogin),
        ("Connection reset by 10.0.0.1 port 22\r\n", ClosedBeforeLogin),
        ("Connection timed out during banner exchange\r\nConnection to ::1 port 22 timed out\r\n", TimedOut),
        ("me@n1: Permission denied (publickey,password).\r\n", LoginDenied),
        ("Permission denied (publickey,gssapi-with-mic).\r\n", LoginDenied),
        (
            "Received disconnect from ::1 port 22:2: Too many authentication failures\r\n\
             Disconnected from ::1 port 22\r\n",
            LoginDenied,
        ),
        (
            "Access denied by pam_slurm_adopt: you have no active jobs on this node\r\n\
             Connection closed by ::1 port 22\r\n",
            LoginDenied,
        ),
        (
            "Unable to negotiate with ::1 port 22: no matching host key type found. Their offer: x\r\n",
            NoCommonAlgorithm,
        ),
        ("Host key verification failed.\r\n", HostKeyUnknown),
        (
            "No ED25519 host key is known for n1 and you have requested strict checking.\r\n\
             Host key verification failed.\r\n",
            HostKeyUnknown,
        ),
        (
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\nOffending key in /x:1\r\n\
             Host key for n1 has changed and you have requested strict checking.\r\n\
             Host key verification failed.\r\n",
            HostKeyChanged,
        ),
    ] {
        assert_eq!(shell_error(255, said), Some(expected), "{said}");
    }
}

#[test]
fn what_ssh_says_of_itself_and_of_connections_that_break() {
    use ShellError::{BadOptions, ConnectionLost, ShellFailed};
    for (said, expected) in [
        ("command-line: line 0: Bad configuration option: foo\r\n", BadOptions),
        ("command-line line 0: invalid time value.\r\n", BadOptions),
        (
            "Unsupported KEX algorithm \"x\"\r\ncommand-line line 0: Bad SSH2 KexAlgorithms '^x'.\r\n",
            BadOptions,
        ),
        (
            "/h/.ssh/config: line 2: Bad configuration option: usekeychain\r\n\
             /h/.ssh/config: terminating, 1 bad configuration options\r\n",
            BadOptions,
        ),
        ("unknown option -- Z\r\nusage: ssh [-46AaCfGg]\r\n          [-B bind_interface]\r\n", BadOptions),
        ("Can't open user config file /x: No such file or directory\r\n", BadOptions),
        ("Bad owner or permissions on /h/.ssh/config\r\n", BadOptions),
        ("Cannot execute command-line and remote command.\r\n", BadOptions),
        ("half a line of output Connection\nConnection to n1 closed by remote host.\r\n", ConnectionLost),
        ("client_loop: send disconnect: Broken pipe\r\n", ConnectionLost),
        (
            "Read from remote host n1: Connection reset by peer\r\n\
             client_loop: send disconnect: Broken pipe\r\n",
            ConnectionLost,
        ),
        ("packet_write_wait: Connection to ::1 port 22: Broken pipe\r\n", ConnectionLost),
        ("Timeout, server n1 not responding.\r\n", ConnectionLost),
        ("", ShellFailed),
        ("Something else.\n\n", ShellFailed),
    ] {
        assert_eq!(shell_error(255, said), Some(expected), "{said}");
    }
}

#[test]
fn once_the_program_was_heard_of_a_server_that_hangs_up_has_broken_the_connection() {
    let said = "Connection reset by ::1 port 22\r\n";
    for phase in [Phase::Handshaking, Phase::Joining, Phase::Joined] {
        assert_eq!(failure(phase, 255, said).shell_error(), Some(ShellError::ConnectionLost), "{phase}");
        assert_eq!(
            failure(phase, 255, "me@n1: Permission denied (x).").shell_error(),
            Some(ShellError::ShellFailed)
        );
        for status in [1, 125, 126, 127] {
            assert_eq!(failure(phase, status, "rsh: connect: Connection refused").shell_error(), None);
        }
    }
}

#[test]
fn what_rsh_says() {
    use ShellError::{
        ClosedBeforeLogin, ConnectionRefused, LoginDenied, NameUnknown, NoPort, NoRoute, ShellFailed,
    };
    for (said, expected) in [
        ("rsh: unknown host n1\n", NameUnknown),
        ("n1: Unknown host\n", NameUnknown),
        ("rcmd: getaddrinfo: Name or service not known\n", NameUnknown),
        ("rsh: Error looking up host: Name or service not known\n", NameUnknown),
        ("connect to address 10.0.0.1: Connection refused\n", ConnectionRefused),
        ("connect: Connection refused\n", ConnectionRefused),
        ("rsh: connect: No route to host\n", NoRoute),
        ("poll: protocol failure in circuit setup\n", ClosedBeforeLogin),
        ("rcmd: socket: All ports in use\n", NoPort),
        ("Permission denied.\n", LoginDenied),
        ("rshd: Permission denied.\n", LoginDenied),
        ("rcmd: Permission denied.\n", LoginDenied),
        ("/usr/bin/rsh: Could not make a connection.\n", ShellFailed),
    ] {
        assert_eq!(shell_error(1, said), Some(expected), "{said}");
    }
    for programs in
        ["", "./tool: Connection refused\n", "Permission denied\n", "tool: Permission denied.\n", "done\n"]
    {
        assert_eq!(shell_error(1, programs), None, "{programs}");
    }
}

/// Of an rsh that was to be told by the host how the program has ended, and was not.
fn cut_off(phase: Phase, status: i32, tail: &str) -> Failure {
    let exit = Exit::Shell(status);
    let failure = Failure::without_evidence(phase, Cause::Exited(exit), Duration::from_secs(1));
    Failure { exit: Some(exit), exit_from_host: true, tail: tail.to_owned(), ..failure }
}

#[test]
fn what_the_rsh_and_rshd_of_debian_say() {
    use ShellError::{
        BadOptions, ClosedBeforeLogin, ConnectionLost, ConnectionRefused, LoginDenied, LoginEnded,
        NameService, NameUnknown, NoPort, NoPrivilegedPort, NoRoute, ShellFailed, TimedOut,
    };
    let trying = |reason: &str| {
        format!(
            "Trying 10.0.0.1 port 514... Connection failed: {reason}\nrsh: Could not make a connection.\n"
        )
    };
    let connected = |words: &str| format!("Trying 10.0.0.1 port 514... Connected.\n{words}");
    let cases = [
        (1, trying("Connection refused"), ConnectionRefused, true),
        (1, trying("Connection timed out"), TimedOut, true),
        (1, trying("No route to host"), NoRoute, true),
        (1, trying("Network is unreachable"), NoRoute, true),
        (1, "rsh: Could not make a connection.\n".to_owned(), ShellFailed, true),
        (1, "rsh: Error looking up host: Name or service not known\n".to_owned(), NameUnknown, false),
        (
            1,
            "rsh: Error looking up host: Temporary failure in name resolution\n".to_owned(),
            NameService,
            true,
        ),
        (
            1,
            "rsh: Error looking up host: Servname not supported for ai_socktype\n".to_owned(),
            BadOptions,
            false,
        ),
        (1, connected("rsh: Didn't receive NULL byte from server: Success\n"), ClosedBeforeLogin, true),
        (
            1,
            connected("rsh: Didn't receive NULL byte from server: Connection reset by peer\n"),
            ClosedBeforeLogin,
            true,
        ),
        (1, connected("rsh: Didn't receive NULL byte from server: Connection timed out\n"), TimedOut, true),
        (1, connected("rsh: Connection reset by peer\n"), LoginEnded, true),
        (1, "rsh: Could not bind to privileged port: Address already in use\n".to_owned(), NoPort, true),
        (
            1,
            "rsh: Could not bind to privileged port: Permission denied\n".to_owned(),
            NoPrivilegedPort,
            false,
        ),
        (
            1,
            "rsh: invalid option -- 'x'\nrsh: Unknown option!\nUsage: rsh [-46vn] …\n".to_owned(),
            BadOptions,
            false,
        ),
        (0, connected("Authentication failure\n"), LoginDenied, false),
        (0, "Authentication failure\n".to_owned(), LoginDenied, false),
        (1, connected("Authentication failure\nrsh: Connection reset by peer\n"), LoginDenied, false),
        (0, connected("This account is currently not available.\n"), LoginEnded, true),
        (0, String::new(), LoginEnded, true),
        (1, String::new(), ShellFailed, true),
    ];
    for (status, said, expected, again) in cases {
        let failure = cut_off(Phase::Starting, status, &said);
        assert_eq!(
            (failure.shell_error(), failure.is_retryable()),
            (Some(expected), again),
            "{status}: {said}"
        );
        let later = cut_off(Phase::Joining, status, &said);
        assert_eq!(later.shell_error(), Some(ConnectionLost), "{said}");
    }
}

#[test]
fn what_a_login_shell_has_said_before_it_ended_is_the_evidence() {
    let failure = cut_off(
        Phase::Starting,
        1,
        "Trying 10.0.0.1 port 514... Connected.\nno way\nrsh: Connection reset by peer\n",
    );
    assert_eq!((failure.shell_error(), failure.evidence()), (Some(ShellError::LoginEnded), "no way"));
}

#[test]
fn what_a_host_says_of_its_programs_end_is_never_the_shells() {
    let from_host =
        |status, tail: &str| Failure { exit_from_host: true, ..failure(Phase::Starting, status, tail) };
    for (status, tail) in
        [(1, "Permission denied.\n"), (255, "ssh: connect to host x port 22: Connection refused")]
    {
        assert_eq!(from_host(status, tail).shell_error(), None);
        assert!(!from_host(status, tail).is_retryable() && !from_host(status, tail).may_be_launcher_fault());
    }
    assert_eq!(from_host(127, "").shell_error(), Some(ShellError::ProgramNotFound));
    assert_eq!(from_host(126, "").shell_error(), Some(ShellError::ProgramNotExecutable));
    let killed = Cause::Exited(Exit::Signal(11));
    let killed = Failure::without_evidence(Phase::Starting, killed, Duration::ZERO);
    assert!(
        killed.may_be_launcher_fault() && !Failure { exit_from_host: true, ..killed }.may_be_launcher_fault()
    );
}

#[test]
fn what_the_command_says_is_its_status() {
    assert_eq!(
        shell_error(127, "bash: line 1: ./x: Datei oder Verzeichnis nicht gefunden"),
        Some(ShellError::ProgramNotFound)
    );
    assert_eq!(shell_error(126, ""), Some(ShellError::ProgramNotExecutable));
    let interpreter = "bash: ./x: /bin/python9: bad interpreter: No such file or directory";
    for status in [126, 127] {
        assert_eq!(shell_error(status, interpreter), Some(ShellError::InterpreterMissing));
    }
    assert_eq!(
        shell_error(125, &format!("noise\n{NO_DIRECTORY}/data/run\n")),
        Some(ShellError::DirectoryNotFound)
    );
    assert_eq!(shell_error(125, "anything else"), None);
    for status in [0, 2, 124, 128, 137, 254] {
        assert_eq!(shell_error(status, "Connection refused"), None);
    }
    let member = Failure { member: Some(libi_core::ids::Rank(3)), ..failure(Phase::Starting, 127, "") };
    assert_eq!(member.shell_error(), None, "no shell has started it");
}

#[test]
fn a_missing_library_is_told_from_a_missing_program() {
    let said = "./x: error while loading shared libraries: liby.so.1: cannot open shared object \
                file: No such file or directory\nConnection to n1 closed.\n";
    let expected = ShellError::LibraryMissing("liby.so.1".to_owned());
    let leader = failure(Phase::Starting, 127, said);
    assert_eq!(leader.shell_error(), Some(expected.clone()));
    assert_eq!(leader.evidence(), said.lines().next().unwrap());
    assert!(!leader.is_retryable() && !leader.may_be_launcher_fault() && !leader.is_overload());
    let member = Failure { member: Some(libi_core::ids::Rank(3)), ..leader };
    assert_eq!(member.shell_error(), Some(expected), "no remote shell is needed to tell");
    assert_eq!(failure(Phase::Joining, 127, said).shell_error(), None, "it was loaded");
    assert_eq!(shell_error(1, said), None, "the loader exits with 127");
}

#[test]
fn a_remote_shell_that_is_not_there_is_told_from_a_program_that_is_not() {
    let missing = |why: &str| {
        Failure::without_evidence(Phase::Starting, Cause::NotStarted(why.to_owned()), Duration::ZERO)
            .shell_error()
    };
    for why in [
        "ssh: not found in PATH=/bin",
        "exec /opt/bin/ssh: No such file or directory",
        "rsh: not found in PATH=",
    ] {
        assert_eq!(missing(why), Some(ShellError::ShellNotFound), "{why}");
    }
    for why in [
        "./ssh-tool: not found in PATH=/bin",
        "exec ssh: Argument list too long",
        "exec ./x: No such file",
        "ssh",
    ] {
        assert_eq!(missing(why), None, "{why}");
    }
}

#[test]
fn the_line_that_tells_is_the_evidence() {
    let evidence = |status, tail: &str| failure(Phase::Starting, status, tail).evidence().to_owned();
    let changed = "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\n\
                   Host key for n1 has changed and you have requested it.\r\n\
                   Host key verification failed.\r\n";
    assert_eq!(evidence(255, changed), "Host key for n1 has changed and you have requested it.");
    let jump = "ssh: Could not resolve hostname gate: Name or service not known\r\n\
                Connection closed by UNKNOWN port 65535\r\n";
    assert_eq!(evidence(255, jump), "ssh: Could not resolve hostname gate: Name or service not known");
    assert_eq!(evidence(127, "one\n two \n\n"), "two");
    assert_eq!(evidence(0, ""), "");
}

#[test]
fn only_what_helps_is_tried_again_and_only_a_crowd_is_thinned_out() {
    let cases = [
        ("ssh: connect to host n1 port 22: Connection timed out", true, false),
        ("ssh: connect to host n1 port 22: Connection refused", true, false),
        ("ssh: connect to host n1 port 22: No route to host", true, false),
        ("Connection closed by ::1 port 22", true, true),
        ("Connection to n1 closed by remote host.", true, true),
        ("ssh: Could not resolve hostname n1: Temporary failure in name resolution", true, false),
        ("", true, false),
        ("ssh: Could not resolve hostname n1: Name or service not known", false, false),
        ("Host key verification failed.", false, false),
        ("me@n1: Permission denied (publickey).", false, false),
        ("command-line: line 0: Bad configuration option: foo", false, false),
    ];
    for (said, again, fewer) in cases {
        let failure = failure(Phase::Starting, 255, said);
        assert_eq!((failure.is_retryable(), failure.is_overload()), (again, fewer), "{said}");
    }
    for status in [125, 126, 127] {
        let failure = failure(Phase::Starting, status, NO_DIRECTORY);
        assert_eq!((failure.is_retryable(), failure.is_overload()), (false, false), "{status}");
    }
    let closed = Failure::without_evidence(Phase::Handshaking, Cause::Closed, Duration::ZERO);
    assert!(closed.is_retryable() && closed.is_overload());
}
