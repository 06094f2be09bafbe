//! Servers that do not get as far as a login, in the words of OpenSSH 9.2.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::*;
use super::lab::{Run, accepting, settings_for, start};

/// Runs against a server that handles a single connection; returns what was printed, with `P` for
/// its port.
async fn told<F: Future<Output = ()> + Send + 'static>(
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await });
    let mut settings = settings_for(port);
    settings.connect_timeout = Some(Duration::from_millis(500));
    let run = Run::simple(settings, accepting(None), "true").await;
    server.abort();
    assert_eq!(run.end, Some(End::Code(FAILED)));
    run.err.replace(&port.to_string(), "P").replace("\r\n", "\n")
}

/// Sends bytes, reads until the client has sent all, and closes.
async fn told_after(bytes: Vec<u8>) -> String {
    told(move |mut stream| async move {
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await
}

async fn told_after_reset(bytes: &'static [u8]) -> String {
    told(move |mut stream| async move {
        stream.write_all(bytes).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        stream.set_zero_linger().unwrap();
    })
    .await
}

#[tokio::test]
async fn endings_before_the_identification() {
    let closed = "kex_exchange_identification: Connection closed by remote host\n\
        Connection closed by 127.0.0.1 port P\n";
    assert_eq!(told_after(Vec::new()).await, closed);
    let reset = "kex_exchange_identification: read: Connection reset by peer\n\
        Connection reset by 127.0.0.1 port P\n";
    assert_eq!(told_after_reset(b"").await, reset);
    let began = Instant::now();
    let hung = told(|stream| async move {
        let _held = stream;
        tokio::time::sleep(Duration::from_secs(30)).await;
    });
    let timed_out = "Connection timed out during banner exchange\n\
        Connection to 127.0.0.1 port P timed out\n";
    assert_eq!(hung.await, timed_out);
    assert!(began.elapsed() < Duration::from_secs(25), "the server holds it for 30 s");
}

#[tokio::test]
async fn identifications_that_are_none() {
    let end = "banner exchange: Connection to 127.0.0.1 port P: invalid format\n";
    let cases = [
        (b"hello\n".repeat(1100), "No SSH version received in first 1024 lines from server"),
        (b"hel\0lo\n".to_vec(), "banner line contains invalid characters"),
        (b"x".repeat(9000), "banner line too long"),
    ];
    for (bytes, what) in cases {
        assert_eq!(told_after(bytes).await, format!("kex_exchange_identification: {what}\n{end}"));
    }
    assert_eq!(
        told_after(b"SSH-x\n".to_vec()).await,
        format!("Bad remote protocol version identification: 'SSH-x'\n{end}")
    );
    assert_eq!(
        told_after(b"SSH-1.5-old\n".to_vec()).await,
        "Protocol major versions differ: 2 vs. 1\n\
         banner exchange: Connection to 127.0.0.1 port P: could not read protocol version\n"
    );
}

#[tokio::test]
async fn endings_after_the_identification() {
    let identification = b"SSH-2.0-x\r\n";
    let closed = "Connection closed by 127.0.0.1 port P\n";
    assert_eq!(told_after(identification.to_vec()).await, closed);
    let reset = "Connection reset by 127.0.0.1 port P\n";
    assert_eq!(told_after_reset(identification).await, reset);
    let web = [&identification[..], b"HTTP/1.0 400 Bad Request\r\n"].concat();
    assert_eq!(
        told_after(web).await,
        "Bad packet length 1213486160.\nssh_dispatch_run_fatal: Connection to 127.0.0.1 port P: \
         message authentication code incorrect\n"
    );
    let many = b"\0\0\0\x1c\x0a\x01\0\0\0\x0c\0\0\0\x08too many\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let disconnected = [&identification[..], many].concat();
    assert_eq!(
        told_after(disconnected).await,
        "Received disconnect from 127.0.0.1 port P:12: too many\nDisconnected from 127.0.0.1 port P\n"
    );
}

#[tokio::test]
async fn hosts_that_cannot_be_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let run = Run::simple(settings_for(port), accepting(None), "true").await;
    assert_eq!(run.end, Some(End::Code(FAILED)));
    let refused = format!("ssh: connect to host 127.0.0.1 port {port}: Connection refused\r\n");
    assert_eq!(run.err, refused);
    let mut settings = settings_for(22);
    settings.host_name = "no-such-host.invalid".into();
    let run = Run::simple(settings, accepting(None), "true").await;
    assert!(run.err.starts_with("ssh: Could not resolve hostname no-such-host.invalid: "), "{}", run.err);
}

/// Also while russh agrees on keys: its task must not survive.
#[tokio::test]
async fn a_dropped_start_closes_its_connection_at_once() {
    let kexinit = {
        let mut payload = vec![20];
        payload.extend_from_slice(&[7; 16]);
        let lists = ["curve25519-sha256", "ssh-ed25519", "aes256-gcm@openssh.com", "aes256-gcm@openssh.com"];
        for list in lists.into_iter().chain(["hmac-sha2-256", "hmac-sha2-256", "none", "none", "", ""]) {
            agent::put(&mut payload, list.as_bytes());
        }
        payload.extend_from_slice(&[0; 5]);
        let padding = 8 - (payload.len() + 5) % 8 + 8;
        let mut packet = ((payload.len() + 1 + padding) as u32).to_be_bytes().to_vec();
        packet.push(padding as u8);
        packet.extend_from_slice(&payload);
        packet.resize(packet.len() + padding, 0);
        packet
    };
    for sent in [Vec::new(), b"SSH-2.0-x\r\n".to_vec(), [b"SSH-2.0-x\r\n".to_vec(), kexinit].concat()] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = settings_for(listener.local_addr().unwrap().port());
        let (start, _ends) = start(settings, accepting(None), "true");
        let tasks = tokio::runtime::Handle::current().metrics();
        let others = tasks.num_alive_tasks();
        let running = tokio::spawn(async move { run(start, &Identities::default(), || {}).await });
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&sent).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!running.is_finished());
        running.abort();
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        let _ = tokio::time::timeout(Duration::from_secs(1), read).await.expect("still open");
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(tasks.num_alive_tasks(), others);
    }
}
