//! Against dropbear and tinysshd, with what decides in production: compared with the real `ssh`.
//!
//! They need root and mount namespaces. Without these, or the servers, the tests print that they are
//! skipped; with `CI=true` they fail.

mod servers;

use super::super::*;
use super::lab::Run;
use super::openssh::sshd::ended;
use servers::{Kind, Other};

const MIB: u32 = 1024 * 1024;

/// A command on both ways, which come to the same.
async fn same(server: &Other, key: &str, fast: bool, command: &str, input: &[u8]) -> Run {
    let run = server.run(key, fast, command, input).await;
    let ssh = server.ssh(key, command, input).await;
    assert_eq!((ended(&run), run.err.as_str()), (ssh.code, ssh.err.as_str()), "{command}");
    assert!(run.out == ssh.out, "{command}: {} bytes, with ssh {}", run.out.len(), ssh.out.len());
    run
}

async fn serves(server: &Other, fast: bool) {
    let run = same(server, "user", fast, "echo out; echo err >&2; exit 3", b"").await;
    assert_eq!((run.end, run.out.as_slice(), run.err.as_str()), (Some(End::Code(3)), &b"out\n"[..], "err\n"));
    let killed = same(server, "user", fast, "kill -SEGV $$", b"").await;
    assert_eq!(killed.end, Some(End::Signal("SEGV".into())));
    let input: Vec<u8> = (0..MIB).map(|number| (number % 251) as u8).collect();
    let run = same(server, "user", fast, "cat; exit 4", &input).await;
    assert!(run.end == Some(End::Code(4)) && run.out == input, "{} bytes", run.out.len());
    let refused = same(server, "stranger", fast, "true", b"").await;
    assert!(refused.err.starts_with("root@127.0.0.1: Permission denied (publickey"), "{}", refused.err);
}

#[tokio::test]
async fn dropbear_is_served_as_by_ssh() {
    let Some(server) = Other::start(Kind::Dropbear) else { return };
    serves(&server, false).await;
    // tinysshd often ends without the status of such a command.
    let unread = same(&server, "user", false, "exit 5", &vec![0; MIB as usize]).await;
    assert_eq!(unread.end, Some(End::Code(5)));
}

#[tokio::test]
async fn tinyssh_is_served_as_by_ssh() {
    let Some(server) = Other::start(Kind::Tinyssh("-P")) else { return };
    serves(&server, false).await;
}

/// By default it has the post-quantum key exchange that `ssh` prefers and russh lacks.
#[tokio::test]
async fn tinyssh_with_a_better_key_exchange_is_left_to_ssh() {
    let Some(server) = Other::start(Kind::Tinyssh("-p")) else { return };
    let run = server.run("user", false, "true", b"").await;
    let reason = run.declined.unwrap_or_default();
    assert!(reason.starts_with("ssh would use the key exchange method `sntrup761x25519-sha512"), "{reason}");
    assert!(!run.was_taken && run.streams_block && run.err.is_empty());
    serves(&server, true).await;
}
