//! Commands on servers of the test itself, and on real ones in [`openssh`] and [`others`].

pub(super) mod garbage;
mod lab;
mod openssh;
mod others;
mod server;
mod wire;

use std::time::{Duration, Instant};

use super::*;
use lab::{Run, accepting, settings_for, start};
use server::Server;

#[tokio::test]
async fn output_error_and_status_arrive() {
    let server = Server::start().await;
    let run = server.run("say").await;
    assert_eq!(run.end, Some(End::Code(7)));
    assert_eq!((run.out.as_slice(), run.err.as_str()), (&b"out"[..], "err"));
    assert!(run.was_taken);
}

#[tokio::test]
async fn a_signal_is_told_by_name() {
    let run = Server::start().await.run("killed").await;
    assert_eq!(run.end, Some(End::Signal("SEGV".into())));
}

#[tokio::test]
async fn a_refused_command_is_told() {
    let run = Server::start().await.run("refused").await;
    assert_eq!(run.end, Some(End::Code(FAILED)));
    assert_eq!(run.err, "exec request failed on channel 0\r\n");
}

#[tokio::test]
async fn megabytes_pass_both_ways_a_slow_reader() {
    let server = Server::start().await;
    let input: Vec<u8> = (0..6_000_000_u32).map(|number| (number % 251) as u8).collect();
    let (start, ends) = start(server.settings(), server.policy(), "cat");
    let slow = Run::of(start, ends, &input, Some(Duration::from_millis(1)));
    let run = slow.await;
    assert_eq!(run.end, Some(End::Code(0)));
    assert!(run.out == input, "{} bytes instead of {}", run.out.len(), input.len());
}

#[tokio::test]
async fn a_reader_that_stops_stops_the_server_and_no_other_host() {
    let server = Server::start().await;
    let (start, ends) = start(server.settings(), server.policy(), "flood");
    let stuck = tokio::spawn(async move { run(start, &Identities::default(), || {}).await });
    let (mut sent, mut rests) = (0, 0);
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = server.flooded();
        rests = if now > 0 && now == sent { rests + 1 } else { 0 };
        sent = now;
        if rests == 10 {
            break;
        }
    }
    assert_eq!(rests, 10, "the server goes on");
    assert!(sent < 16 * 1024 * 1024, "{sent} bytes");
    assert_eq!(server.run("say").await.end, Some(End::Code(7)));
    stuck.abort();
    drop(ends);
}

#[tokio::test]
async fn output_goes_nowhere_once_its_reader_is_gone() {
    let server = Server::start().await;
    let (start, ends) = start(server.settings(), server.policy(), "say");
    let lab::Ends { stdout, .. } = ends;
    drop(stdout);
    let Outcome::Ended(end) = run(start, &Identities::default(), || {}).await else {
        panic!("declined");
    };
    assert_eq!(end, End::Code(7));
}

#[tokio::test]
async fn a_refused_key_is_told_as_by_ssh() {
    let server = Server::start().await;
    let mut settings = server.settings();
    settings.user = "stranger".into();
    let run = Run::simple(settings, server.policy(), "say").await;
    assert_eq!(run.end, Some(End::Code(FAILED)));
    assert_eq!(run.err, "stranger@127.0.0.1: Permission denied (publickey).\r\n");
}

#[tokio::test]
async fn an_unknown_host_key_ends_before_the_login() {
    let server = Server::start().await;
    let policy = accepting(None);
    let run = Run::simple(server.settings(), policy, "say").await;
    assert_eq!(run.end, Some(End::Code(FAILED)));
    assert_eq!(run.err, "No ED25519 host key is known.\r\nHost key verification failed.\r\n");
    assert_eq!(server.logins(), 0);
}

#[tokio::test]
async fn the_loss_of_a_connection_is_told_after_the_output() {
    let run = Server::start().await.run("vanish").await;
    assert_eq!(run.end, Some(End::Code(FAILED)));
    assert_eq!(run.out, b"part");
    assert_eq!(run.err, "Connection to 127.0.0.1 closed by remote host.\r\n");
}

#[tokio::test]
async fn a_silent_server_is_lost_after_its_alive_count() {
    let server = Server::start().await;
    let mut settings = server.settings();
    settings.alive_interval = Some(Duration::from_millis(200));
    settings.alive_count = 1;
    let began = Instant::now();
    let run = Run::simple(settings, server.policy(), "hang").await;
    assert_eq!(run.end, Some(End::Code(FAILED)));
    assert_eq!(run.err, "Timeout, server 127.0.0.1 not responding.\r\n");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_declined_start_leaves_everything_as_it_was() {
    let server = Server::start().await;
    let policy = lab::declining("no such cipher");
    let run = Run::simple(server.settings(), policy, "say").await;
    assert_eq!(run.declined.as_deref(), Some("no such cipher"));
    assert!(!run.was_taken && run.err.is_empty() && run.streams_block);
}

#[tokio::test]
async fn no_common_algorithm_is_told_as_by_ssh() {
    let server = Server::start().await;
    let why = "no matching cipher found. Their offer: none";
    let run = Run::simple(server.settings(), lab::refusing(why), "say").await;
    let port = server.port();
    let told = format!("Unable to negotiate with 127.0.0.1 port {port}: {why}\r\n");
    assert_eq!((run.end, run.err), (Some(End::Code(FAILED)), told));
}

#[tokio::test]
async fn nothing_is_printed_with_the_log_level_quiet() {
    let mut settings = settings_for(1);
    settings.prints = false;
    let run = Run::simple(settings, accepting(None), "say").await;
    assert_eq!((run.end, run.err.as_str()), (Some(End::Code(FAILED)), ""));
}

#[tokio::test]
async fn a_key_of_a_security_token_is_declined_before_anything_is_tried() {
    let directory = lab::Directory::new();
    let path = directory.0.join("id_ed25519_sk");
    std::fs::write(&path, "the handle of a key").unwrap();
    let public = "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fAAAABHNzaDo=";
    std::fs::write(directory.0.join("id_ed25519_sk.pub"), public).unwrap();
    let mut settings = settings_for(1);
    settings.login.identities = vec![path];
    let run = Run::simple(settings, accepting(None), "say").await;
    assert!(run.declined.is_some_and(|reason| reason.ends_with("key of a security token")));
    assert!(!run.was_taken && run.streams_block);
}

#[tokio::test]
async fn files_that_are_no_pipes_are_empty_streams() {
    let server = Server::start().await;
    let (mut start, _ends) = start(server.settings(), server.policy(), "cat");
    let null = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap().into();
    start.streams = Streams { stdin: null(), stdout: null(), stderr: null() };
    let Outcome::Ended(end) = run(start, &Identities::default(), || {}).await else {
        panic!("declined");
    };
    assert_eq!(end, End::Code(0));
}

#[tokio::test]
async fn a_stream_is_blocking_again_after_the_end() {
    let server = Server::start().await;
    let (start, _ends) = start(server.settings(), server.policy(), "say");
    let shared = start.streams.stderr.try_clone().unwrap();
    run(start, &Identities::default(), || {}).await;
    assert!(lab::blocks(&shared));
}

#[tokio::test]
async fn a_key_file_is_read_once_and_again_when_it_changes() {
    let server = Server::start().await;
    let path = server.settings().login.identities.remove(0);
    let identities = Identities::default();
    let (first, second) = (identities.key(&path), identities.key(&path));
    assert!(Arc::ptr_eq(&first, &second) && first.private.is_ok());
    std::fs::write(&path, "other").unwrap();
    assert!(identities.key(&path).private.is_err());
}
