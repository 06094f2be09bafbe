//! Against a real sshd: what is printed, and how it ends, is compared with the real `ssh`.
//!
//! Without OpenSSH these tests print that they are skipped; with `CI=true` they fail.

pub(super) mod sshd;

use super::super::*;
use super::lab::{Run, accepting_as, start};
use sshd::{Sshd, ended, keygen};

/// Runs a command on both ways and compares what comes of it. The settings are those of `lines`
/// of a configuration file.
async fn same(sshd: &Sshd, lines: &str, command: &str) -> Run {
    let ssh = sshd.ssh(lines, &[], command).await;
    let run = Run::simple(sshd.settings(lines), sshd.policy(), command).await;
    assert_eq!((ended(&run), &run.out, run.err.as_str()), (ssh.code, &ssh.out, ssh.err.as_str()), "{lines}");
    run
}

#[tokio::test]
async fn commands_end_as_with_ssh() {
    let Some(sshd) = Sshd::start("AcceptEnv LC_LIBI\nBanner none").await else { return };
    let key = sshd.authorized("ed25519");
    let run = same(&sshd, &key, "echo out; echo err >&2; exit 3").await;
    assert_eq!((run.end, run.err.as_str()), (Some(End::Code(3)), "err\n"));
    assert_eq!(same(&sshd, &key, "kill -SEGV $$").await.end, Some(End::Signal("SEGV".into())));
    let environment = format!("{key}SetEnv LC_LIBI=value\n");
    assert_eq!(same(&sshd, &environment, "echo $LC_LIBI").await.out, b"value\n");
    // Its server is killed when it has read the end of the input: what is not read resets a connection.
    let lost = same(&sshd, &key, "cat; kill -9 $PPID; sleep 1").await;
    assert_eq!(lost.err, "Connection to 127.0.0.1 closed by remote host.\r\n");
}

#[tokio::test]
async fn megabytes_pass_a_server_that_changes_keys() {
    let Some(sshd) = Sshd::start("RekeyLimit 500K").await else { return };
    let input: Vec<u8> = (0..4_000_000_u32).map(|number| (number % 251) as u8).collect();
    let (start, ends) = start(sshd.settings(&sshd.authorized("ed25519")), sshd.policy(), "cat");
    let run = Run::of(start, ends, &input, None).await;
    assert!(run.out == input && run.end == Some(End::Code(0)), "{}", run.out.len());
}

#[tokio::test]
async fn keys_of_every_type_log_in() {
    let Some(sshd) = Sshd::start("").await else { return };
    for kind in ["ed25519", "ecdsa", "rsa"] {
        assert_eq!(same(&sshd, &sshd.authorized(kind), "exit 4").await.end, Some(End::Code(4)), "{kind}");
    }
    let classic = sshd.path("classic");
    keygen(&["-t", "rsa", "-m", "PEM", "-N", "", "-f", &classic]);
    sshd.authorize(&classic);
    assert_eq!(same(&sshd, &sshd::identity(&classic), "exit 5").await.end, Some(End::Code(5)));
}

#[tokio::test]
async fn refused_logins_are_told_as_by_ssh() {
    let Some(sshd) = Sshd::start("MaxAuthTries 2").await else { return };
    let others: Vec<_> = (0..3).map(|number| sshd.key(&format!("other{number}"), "ed25519")).collect();
    let denied = same(&sshd, &sshd::identity(&others[0]), "true").await;
    assert!(denied.err.contains(": Permission denied ("), "{}", denied.err);
    let many: String = others.iter().map(|key| sshd::identity(key)).collect();
    let many = same(&sshd, &many, "true").await;
    assert!(many.err.contains(":2: Too many authentication failures"), "{}", many.err);

    // Whether a key can be used matters only if the server wants it.
    let open = sshd.key("open", "ed25519");
    sshd::set_mode(&open, 0o644);
    let refused = same(&sshd, &sshd::identity(&open), "true").await;
    assert!(!refused.err.contains("UNPROTECTED"), "{}", refused.err);
    sshd.authorize(&open);
    for _ in 0..2 {
        let wanted = same(&sshd, &sshd::identity(&open), "true").await;
        assert!(wanted.err.contains("UNPROTECTED PRIVATE KEY FILE!"), "{}", wanted.err);
        let _ = std::fs::remove_file(format!("{open}.pub"));
    }

    let junk = sshd.path("junk");
    std::fs::write(&junk, "junk\n").unwrap();
    sshd::set_mode(&junk, 0o600);
    assert!(same(&sshd, &sshd::identity(&junk), "true").await.err.starts_with("Load key "));
    same(&sshd, &sshd::identity(&sshd.path("missing")), "true").await;

    let locked = sshd.path("locked");
    keygen(&["-t", "ed25519", "-N", "secret", "-f", &locked]);
    same(&sshd, &sshd::identity(&locked), "true").await;
    sshd.authorize(&locked);
    let next = format!("{}{}", sshd::identity(&locked), sshd.authorized("ed25519"));
    assert_eq!(same(&sshd, &next, "exit 2").await.end, Some(End::Code(2)));
}

#[tokio::test]
async fn two_keys_are_used_where_the_server_wants_two() {
    let Some(sshd) = Sshd::start("AuthenticationMethods publickey,publickey").await else { return };
    let one = sshd.authorized("ed25519");
    assert_eq!(same(&sshd, &one, "exit 6").await.end, Some(End::Code(FAILED)));
    let two = format!("{one}{}", sshd.authorized("ecdsa"));
    assert_eq!(same(&sshd, &two, "exit 6").await.end, Some(End::Code(6)));
}

#[tokio::test]
async fn the_agent_logs_in() {
    let Some(sshd) = Sshd::start("MaxAuthTries 3").await else { return };
    let agent = sshd.agent().await;
    let socket = format!("IdentityAgent {}\n", agent.socket);
    for kind in ["ed25519", "rsa", "ecdsa"] {
        let path = sshd.key(&format!("agent-{kind}"), kind);
        agent.add(&path);
        sshd.authorize(&path);
        // Only the agent knows the private key.
        std::fs::remove_file(&path).unwrap();
        let lines = format!("{socket}{}", sshd::identity(&path));
        let run = same(&sshd, &lines, "exit 7").await;
        assert_eq!(run.end, Some(End::Code(7)), "{kind}: {}", run.err);
    }
    let only = format!("{socket}IdentitiesOnly yes\n{}", sshd::identity(&sshd.path("missing")));
    assert_eq!(same(&sshd, &only, "exit 7").await.end, Some(End::Code(FAILED)));
}

#[tokio::test]
async fn certificates_log_in() {
    let Some(sshd) = Sshd::start("TrustedUserCAKeys @/authority.pub").await else { return };
    let authority = sshd.key("authority", "ed25519");
    for kind in ["ed25519", "rsa"] {
        let key = sshd.key(&format!("certified-{kind}"), kind);
        let user = sshd::user();
        keygen(&["-s", &authority, "-I", "test", "-n", &user, &format!("{key}.pub")]);
        let mut lines = sshd::identity(&key);
        if kind == "ed25519" {
            assert_eq!(same(&sshd, &lines, "exit 8").await.end, Some(End::Code(8)), "{kind}");
        } else {
            lines += &format!(
                "CertificateFile {key}-cert.pub\nPubkeyAcceptedAlgorithms +rsa-sha2-512-cert-v01@openssh.com\n"
            );
            assert_eq!(same(&sshd, &lines, "exit 8").await.end, Some(End::Code(8)), "{kind}");
        }
    }
}

#[tokio::test]
async fn a_certificate_of_the_host_is_judged() {
    let Some(sshd) = Sshd::start("HostCertificate @/host-cert.pub").await else { return };
    let settings = sshd.settings(&sshd.authorized("ed25519"));
    let policy = accepting_as("ssh-ed25519-cert-v01@openssh.com", Some(sshd.host_key.clone()));
    assert_eq!(Run::simple(settings, policy, "exit 9").await.end, Some(End::Code(9)));
}

#[tokio::test]
async fn jumps_are_those_of_ssh() {
    let Some(sshd) = Sshd::start("").await else { return };
    let lines = sshd.authorized("ed25519");
    let jump = |lines: &str| {
        let mut settings = sshd.settings(lines);
        settings.host_name = "localhost".into();
        Target { settings: Arc::new(settings), policy: sshd.policy() }
    };
    let through = |port: u16, jump: Target, command: &'static str| {
        let mut settings = sshd.settings(&lines);
        settings.port = port;
        let (mut start, ends) = start(settings, sshd.policy(), command);
        start.jumps = vec![jump];
        Run::of(start, ends, b"input", None)
    };
    let run = through(sshd.port, jump(&lines), "cat; exit 5").await;
    assert_eq!((run.end, run.out.as_slice()), (Some(End::Code(5)), &b"input"[..]), "{}", run.err);

    let options = |port: u16| [format!("-J{}", sshd.destination()), format!("-p{port}")];
    let closed = options(1);
    let ssh = sshd.ssh(&lines, &closed.each_ref().map(String::as_str), "true").await;
    let run = through(1, jump(&lines), "true").await;
    assert_eq!((ended(&run), run.err), (ssh.code, ssh.err));

    let unknown = sshd.key("unknown", "ed25519");
    let refused = sshd::identity(&unknown);
    let to_itself = options(sshd.port);
    let ssh = sshd.ssh(&refused, &to_itself.each_ref().map(String::as_str), "true").await;
    let run = through(sshd.port, jump(&refused), "true").await;
    assert_eq!((ended(&run), run.err), (ssh.code, ssh.err));
}

/// The cost of a login: `cargo test --release -p libi-ssh -- --ignored --nocapture cost`.
#[test]
#[ignore = "measures"]
fn cost_of_logins() {
    let single = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let multi = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for (name, runtime) in
        [("current_thread", single()), ("multi_thread", multi()), ("current_thread", single())]
    {
        let Some((elapsed, spent)) = runtime.block_on(sshd::logins(128, 32)) else { return };
        println!("{name}: {elapsed:?} in all, {:?} of processor time for each login", spent / 128);
    }
}

/// Another server: its port, a key that it accepts, its cipher and MAC are named in variables.
#[tokio::test]
#[ignore = "needs a server"]
async fn another_server() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let mac = Some(variable("TEST_MAC")).filter(|mac| !mac.is_empty());
    let policy = super::lab::trusting_all(&variable("TEST_CIPHER"), mac);
    let mut settings = super::lab::settings_for(variable("TEST_PORT").parse().unwrap());
    settings.user = sshd::user();
    settings.login.identities = variable("TEST_KEYS").split(',').map(Into::into).collect();
    let input = vec![b'x'; 3_000_000];
    let (start, ends) = start(settings, policy, "cat; echo err >&2; exit 3");
    let run = Run::of(start, ends, &input, None).await;
    println!("{:?} {:?} {} bytes {:?}", run.end, run.declined, run.out.len(), run.err);
    assert!(run.end == Some(End::Code(3)) && run.out == input && run.err == "err\n");
}
