//! A start with pipes that the test holds, and what becomes of it.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use russh::keys::PublicKey;

use super::super::*;
use crate::settings::{AddressFamily, Algorithms, Login, Strict, Trust};
use std::time::Duration;

/// The other ends of the streams.
pub(super) struct Ends {
    pub(super) stdin: std::io::PipeWriter,
    pub(super) stdout: std::io::PipeReader,
    pub(super) stderr: std::io::PipeReader,
}

/// What became of a start.
pub(super) struct Run {
    pub(super) end: Option<End>,
    pub(super) declined: Option<String>,
    pub(super) out: Vec<u8>,
    pub(super) err: String,
    pub(super) was_taken: bool,
    /// Whether a declined start has left the streams blocking.
    pub(super) streams_block: bool,
}

impl Run {
    pub(super) async fn simple(settings: Settings, policy: Arc<dyn Policy>, command: &str) -> Run {
        let (start, ends) = start(settings, policy, command);
        Run::of(start, ends, b"", None).await
    }

    /// Runs to the end; the reader of the output rests after each chunk.
    pub(super) async fn of(start: Start, ends: Ends, input: &[u8], rest: Option<Duration>) -> Run {
        let Ends { mut stdin, mut stdout, mut stderr } = ends;
        let input = input.to_vec();
        thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let out = thread::spawn(move || {
            let (mut out, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
            while let Ok(length @ 1..) = stdout.read(&mut chunk) {
                out.extend_from_slice(&chunk[..length]);
                rest.into_iter().for_each(thread::sleep);
            }
            out
        });
        let err = thread::spawn(move || {
            let mut err = String::new();
            stderr.read_to_string(&mut err).unwrap();
            err
        });
        let mut was_taken = false;
        let Streams { stdin, stdout, stderr } = &start.streams;
        let kept = [stdin, stdout, stderr].map(|stream| stream.try_clone().unwrap());
        let outcome = run(start, &Identities::default(), || was_taken = true).await;
        let streams_block = kept.iter().all(blocks);
        drop(kept); // the readers wait for their ends
        let (end, declined) = match outcome {
            Outcome::Ended(end) => (Some(end), None),
            Outcome::Declined(reason) => (None, Some(reason)),
        };
        let (out, err) =
            tokio::task::spawn_blocking(|| (out.join().unwrap(), err.join().unwrap())).await.unwrap();
        Run { end, declined, out, err, was_taken, streams_block }
    }
}

pub(super) fn blocks(file: &OwnedFd) -> bool {
    let flags = fcntl(file, FcntlArg::F_GETFL).unwrap();
    !OFlag::from_bits_retain(flags).contains(OFlag::O_NONBLOCK)
}

pub(super) fn start(settings: Settings, policy: Arc<dyn Policy>, command: &str) -> (Start, Ends) {
    let (stdin, to) = std::io::pipe().unwrap();
    let (out, stdout) = std::io::pipe().unwrap();
    let (err, stderr) = std::io::pipe().unwrap();
    let streams = Streams { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() };
    let target = Target { settings: Arc::new(settings), policy };
    let start = Start { jumps: Vec::new(), target, command: command.into(), streams };
    (start, Ends { stdin: to, stdout: out, stderr: err })
}

/// Settings for a port of this host, without any identity.
pub(super) fn settings_for(port: u16) -> Settings {
    let accepted = [
        "ssh-ed25519",
        "ssh-ed25519-cert-v01@openssh.com",
        "ecdsa-sha2-nistp256",
        "rsa-sha2-512",
        "rsa-sha2-256",
    ];
    Settings {
        named: "127.0.0.1".into(),
        host_name: "127.0.0.1".into(),
        port,
        user: "user".into(),
        family: AddressFamily::Any,
        bind_address: None,
        connect_timeout: None,
        connection_attempts: 1,
        tcp_keep_alive: true,
        alive_interval: None,
        alive_count: 3,
        login: Login {
            public_keys: true,
            identities: Vec::new(),
            identities_are_named: true,
            certificates: Vec::new(),
            identities_only: false,
            agent: None,
            accepted: accepted.map(String::from).to_vec(),
        },
        trust: Trust {
            strict: Strict::Yes,
            user_files: Vec::new(),
            global_files: Vec::new(),
            alias: None,
            checks_address: false,
            hashes: false,
            trusts_loopback: false,
            rsa_bits: 1024,
            authority_signatures: Vec::new(),
            revoked: None,
        },
        algorithms: Algorithms {
            kex: Vec::new(),
            host_keys: Vec::new(),
            prefers_known_keys: true,
            ciphers: Vec::new(),
            macs: Vec::new(),
        },
        variables: Vec::new(),
        jumps: Vec::new(),
        prints: true,
        prints_notices: true,
    }
}

struct Fixed {
    offer: Result<Offer, NoOffer>,
    key: Option<PublicKey>,
    trusts_all: bool,
}

impl Policy for Fixed {
    fn offer(&self, kexinit: &[u8]) -> Result<Offer, NoOffer> {
        assert_eq!(kexinit.first(), Some(&20));
        self.offer.clone()
    }

    fn judge(&self, _: Option<SocketAddr>, key: &PublicKeyOrCertificate) -> Judgement {
        let is_trusted = self.trusts_all
            || self.key.as_ref().is_some_and(|known| known.key_data() == key.public_key().key_data());
        let lines = match is_trusted {
            true => Vec::new(),
            false => vec!["No ED25519 host key is known.".into()],
        };
        Judgement { is_trusted, lines }
    }
}

/// Trusts a single key of a host.
pub(super) fn accepting(key: Option<PublicKey>) -> Arc<dyn Policy> {
    accepting_as("ssh-ed25519", key)
}

pub(super) fn accepting_as(host_key: &str, key: Option<PublicKey>) -> Arc<dyn Policy> {
    let offer = Offer {
        kex: "curve25519-sha256".into(),
        host_key: host_key.into(),
        cipher: "aes256-gcm@openssh.com".into(),
        mac: None,
    };
    Arc::new(Fixed { offer: Ok(offer), key, trusts_all: false })
}

pub(super) fn trusting_all(cipher: &str, mac: Option<String>) -> Arc<dyn Policy> {
    let offer =
        Offer { kex: "curve25519-sha256".into(), host_key: "ssh-ed25519".into(), cipher: cipher.into(), mac };
    Arc::new(Fixed { offer: Ok(offer), key: None, trusts_all: true })
}

pub(super) fn declining(reason: &str) -> Arc<dyn Policy> {
    Arc::new(Fixed { offer: Err(NoOffer::Declined(reason.into())), key: None, trusts_all: false })
}

pub(super) fn refusing(why: &str) -> Arc<dyn Policy> {
    Arc::new(Fixed { offer: Err(NoOffer::Refused(why.into())), key: None, trusts_all: false })
}

/// A directory that is removed with the value.
pub(super) struct Directory(pub(super) PathBuf);

static DIRECTORIES: AtomicU32 = AtomicU32::new(0);

impl Directory {
    pub(super) fn new() -> Directory {
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("libi-ssh-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
