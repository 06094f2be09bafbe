//! Servers that send garbage: each start ends in time, without a panic, and never as if the command
//! had run.
//!
//! `LIBI_SEED_BASE` (else `PROPTEST_RNG_SEED`) is the first seed, `LIBI_SSH_CASES` how many there are
//! in each test. One seed is replayed with `LIBI_SEED_BASE=seed LIBI_SSH_CASES=1`.

pub(in super::super) mod source;

use std::io::{Read, Seek};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::*;
use super::lab::{accepting, settings_for, trusting_all};
use super::server::Server;
use crate::policy::HostPolicy;
use source::{Rng, identification, panics, preface, record_panics, seeds};

/// Until a start must have ended: much more than it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long a server that sends nothing more is waited for.
const SILENCE: Duration = Duration::from_millis(40);
const AT_ONCE: usize = 16;
/// More than libi-ssh prints of what a server sends.
const TOLD: u64 = 80 * 1024;

/// Runs a command without input whose output is dropped; checks what holds for every start.
async fn ended(seed: u64, settings: Settings, policy: Arc<dyn Policy>) -> Option<End> {
    let null = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap().into();
    let mut told = tempfile::tempfile().unwrap();
    let streams = Streams { stdin: null(), stdout: null(), stderr: told.try_clone().unwrap().into() };
    let target = Target { settings: Arc::new(settings), policy };
    let start = Start { jumps: Vec::new(), target, command: b"say".to_vec(), streams };
    let mut was_taken = false;
    let identities = Identities::default();
    let running = run(start, &identities, || was_taken = true);
    let Ok(outcome) = timeout(DEADLINE, running).await else { panic!("seed {seed}: hangs") };
    let mut printed = Vec::new();
    told.rewind().unwrap();
    told.read_to_end(&mut printed).unwrap();
    assert!(printed.len() as u64 <= TOLD, "seed {seed}: {} bytes are printed", printed.len());
    let is_control = |byte: &u8| byte.is_ascii_control() && !b"\r\n\t".contains(byte);
    assert!(!printed.iter().any(is_control), "seed {seed}: {:?}", String::from_utf8_lossy(&printed));
    match outcome {
        Outcome::Declined(_) => {
            assert!(!was_taken && printed.is_empty(), "seed {seed}");
            None
        }
        Outcome::Ended(end) => {
            assert!(was_taken, "seed {seed}");
            Some(end)
        }
    }
}

/// How many starts ended, and how many were declined.
#[derive(Debug, Default)]
struct Ends {
    failed: u32,
    declined: u32,
    succeeded: u32,
}

impl Ends {
    fn count(&mut self, end: Option<&End>) {
        match end {
            None => self.declined += 1,
            Some(End::Code(FAILED)) => self.failed += 1,
            Some(_) => self.succeeded += 1,
        }
    }
}

/// Listens on an address of its own: to find a free port of one that had thousands takes long.
async fn listen(seed: u64, mut settings: Settings) -> (TcpListener, Settings) {
    let [.., third, fourth] = seed.to_be_bytes();
    let address = std::net::Ipv4Addr::new(127, 1, third, fourth);
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    settings.port = listener.local_addr().unwrap().port();
    settings.host_name = address.to_string();
    (listener, settings)
}

/// Serves what it has, and then ends its side, or all.
async fn serve(listener: TcpListener, bytes: Vec<u8>, is_abrupt: bool) {
    let (mut stream, _) = listener.accept().await.unwrap();
    // The client may close first.
    let _ = stream.write_all(&bytes).await;
    if !is_abrupt {
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
}

/// As in production, or offering russh whatever the server sends.
fn policy(settings: &Settings, rng: &mut Rng) -> Arc<dyn Policy> {
    if rng.below(2) == 0 {
        return accepting(None);
    }
    let mut settings = settings.clone();
    let list = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    settings.algorithms = crate::settings::Algorithms {
        kex: list(&["curve25519-sha256", "ecdh-sha2-nistp256"]),
        host_keys: list(&["ssh-ed25519"]),
        prefers_known_keys: true,
        ciphers: list(&["aes256-gcm@openssh.com", "aes128-ctr"]),
        macs: list(&["hmac-sha2-256-etm@openssh.com", "hmac-sha2-256"]),
    };
    Arc::new(HostPolicy { settings: Arc::new(settings), known: Arc::default(), fast: rng.below(2) == 0 })
}

async fn many(count: u64, generate: fn(&mut Rng) -> Vec<u8>) {
    record_panics();
    let (mut ends, mut running) = (Ends::default(), JoinSet::<Option<End>>::new());
    for seed in seeds(count) {
        let rng = &mut Rng::new(seed);
        let (bytes, is_abrupt) = (generate(rng), rng.below(4) == 0);
        let (listener, settings) = listen(seed, settings_for(0)).await;
        let policy = policy(&settings, rng);
        if running.len() == AT_ONCE {
            ends.count(running.join_next().await.unwrap().unwrap().as_ref());
        }
        running.spawn(async move {
            let server = tokio::spawn(serve(listener, bytes, is_abrupt));
            let end = ended(seed, settings, policy).await;
            assert!(matches!(end, None | Some(End::Code(FAILED))), "seed {seed}: {end:?}");
            server.abort();
            end
        });
    }
    all_end(running, ends).await;
}

/// Awaits the cases that still run, and tells how all have ended.
async fn all_end(mut running: JoinSet<Option<End>>, mut ends: Ends) {
    while let Some(end) = running.join_next().await {
        ends.count(end.unwrap().as_ref());
    }
    println!("{ends:?}");
    assert_eq!(panics(), [""; 0]);
}

#[tokio::test]
async fn identifications_of_all_kinds() {
    many(600, identification).await;
}

#[tokio::test]
async fn lists_of_algorithms_of_all_kinds() {
    many(1500, preface).await;
}

/// What happens to the bytes of a server, at a place.
#[derive(Clone, Debug)]
enum Change {
    Flip(u8),
    Cut(usize),
    Insert(Vec<u8>),
    /// As many bytes before the place are sent once more.
    Again(usize),
    Stop,
}

fn change(rng: &mut Rng) -> Change {
    let length = rng.pick(&[1, 2, 4, 16, 36, 200]);
    match rng.below(8) {
        0 => Change::Cut(length),
        1 => Change::Insert(rng.bytes(length)),
        2 => Change::Again(length),
        3 => Change::Stop,
        4 => Change::Flip(1 + rng.below(255) as u8),
        _ => Change::Flip(1 << rng.below(8)),
    }
}

/// Passes a connection on. Returns what the server sent; with a change, up to its place.
async fn pass(listener: TcpListener, port: u16, change: Option<(usize, Change)>) -> Vec<u8> {
    let (client, _) = listener.accept().await.unwrap();
    let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let upward = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    });
    let (mut seen, mut is_changed) = (Vec::new(), false);
    loop {
        let mut chunk = vec![0; 4096];
        // Both sides may wait for each other from then on.
        let limit = if is_changed { SILENCE } else { DEADLINE };
        let Ok(Ok(length @ 1..)) = timeout(limit, from_server.read(&mut chunk)).await else { break };
        chunk.truncate(length);
        let sent = match &change {
            Some((place, change)) if !is_changed && seen.len() + length > *place => {
                let at = place - seen.len();
                is_changed = true;
                let (before, after) = chunk.split_at(at);
                seen.extend_from_slice(before);
                let after = match change {
                    Change::Flip(bits) => [&[after[0] ^ bits], &after[1..]].concat(),
                    Change::Cut(length) => after[(*length).min(after.len())..].to_vec(),
                    Change::Insert(bytes) => [bytes, after].concat(),
                    Change::Again(length) => {
                        let again = &seen[seen.len().saturating_sub(*length)..];
                        [again, after].concat()
                    }
                    Change::Stop => Vec::new(),
                };
                [before, &after].concat()
            }
            _ => {
                if !is_changed {
                    seen.extend_from_slice(&chunk);
                }
                chunk
            }
        };
        if to_client.write_all(&sent).await.is_err()
            || matches!(change, Some((_, Change::Stop)) if is_changed)
        {
            break;
        }
    }
    let _ = to_client.shutdown().await;
    upward.abort();
    seen
}

/// Where the packets before the first keys begin, and where the last ends.
fn packets(transcript: &[u8]) -> Vec<usize> {
    let mut starts = vec![transcript.iter().position(|&byte| byte == b'\n').unwrap() + 1];
    loop {
        let at = starts[starts.len() - 1];
        let length = u32::from_be_bytes(transcript[at..at + 4].try_into().unwrap()) as usize;
        starts.push(at + 4 + length);
        if transcript[at + 5] == 21 {
            return starts;
        }
    }
}

/// Nothing protects the padding of packets before the first keys.
fn is_unprotected(transcript: &[u8], place: usize) -> bool {
    let is_padding =
        |ends: &[usize]| (ends[1] - usize::from(transcript[ends[0] + 4])..ends[1]).contains(&place);
    packets(transcript).windows(2).any(is_padding)
}

/// Ciphers with a MAC, or without one; of the first, the length of a packet is used before its MAC.
const CIPHERS: [(&str, Option<&str>); 4] = [
    ("aes128-ctr", Some("hmac-sha2-256")),
    ("aes256-ctr", Some("hmac-sha2-512-etm@openssh.com")),
    ("aes256-gcm@openssh.com", None),
    ("chacha20-poly1305@openssh.com", None),
];

/// Every host key is trusted: only signatures tell that bytes were changed.
async fn through_proxy(
    seed: u64,
    server: &Server,
    (cipher, mac): (&str, Option<&str>),
    change: Option<(usize, Change)>,
) -> (Option<End>, Vec<u8>) {
    let (listener, settings) = listen(seed, server.settings()).await;
    let proxy = tokio::spawn(pass(listener, server.port(), change));
    let end = ended(seed, settings, trusting_all(cipher, mac.map(str::to_owned))).await;
    (end, proxy.await.unwrap())
}

#[tokio::test]
async fn transcripts_that_are_changed_underway() {
    record_panics();
    let server = Arc::new(Server::start().await);
    let mut transcripts = Vec::new();
    for cipher in CIPHERS {
        let (end, transcript) = through_proxy(0, &server, cipher, None).await;
        assert_eq!(end, Some(End::Code(7)), "{cipher:?}");
        println!("{cipher:?}: {} bytes from the server", transcript.len());
        transcripts.push((cipher, Arc::new(transcript)));
    }
    let (mut ends, mut running) = (Ends::default(), JoinSet::<Option<End>>::new());
    for seed in seeds(600) {
        if running.len() == AT_ONCE {
            let end = running.join_next().await.unwrap().unwrap();
            ends.count(end.as_ref());
        }
        let mut rng = Rng::new(seed);
        let server = Arc::clone(&server);
        let (cipher, transcript) = transcripts[rng.below(CIPHERS.len())].clone();
        running.spawn(async move {
            // The identification may end in other ways, and after other lines.
            let first = packets(&transcript)[0];
            let place = first + rng.below(transcript.len() - first);
            let change = change(&mut rng);
            let (end, seen) = through_proxy(seed, &server, cipher, Some((place, change.clone()))).await;
            let may_succeed = matches!(change, Change::Flip(_)) && is_unprotected(&transcript, place);
            assert!(
                may_succeed || matches!(end, None | Some(End::Code(FAILED))),
                "seed {seed}: {cipher:?}, {change:?} at {place} of {}, {} sent before: {end:?}",
                transcript.len(),
                seen.len()
            );
            end
        });
    }
    all_end(running, ends).await;
}

/// The numbers of packets start anew with the keys, so that only the rule that nothing else may come
/// before (strict key exchange) tells that a packet was inserted.
#[tokio::test]
async fn packets_that_are_inserted_before_the_keys_are_noticed() {
    record_panics();
    let server = Server::start().await;
    for cipher in CIPHERS {
        let (_, transcript) = through_proxy(0, &server, cipher, None).await;
        for place in packets(&transcript) {
            for payload in [&[2, 0, 0, 0, 0][..], &[3, 0, 0, 0, 9], &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
                let inserted = Change::Insert(source::packet(payload));
                let (end, _) = through_proxy(1, &server, cipher, Some((place, inserted))).await;
                assert_eq!(end, Some(End::Code(FAILED)), "{cipher:?}, {payload:?} at {place}");
            }
        }
    }
    assert_eq!(panics(), [""; 0]);
}
