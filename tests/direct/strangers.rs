//! Strangers connect where children do: none is accepted, delays anything, or stays connected.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libi::{FrontEnd, LinkPolicy, LinkSecurity, SessionId};
use libi_core::ids::HostIndex;
use libi_core::secure::{AwaitReply, CipherOffer, Entropy, LinkKey, OPENING_LEN, Parent, Secret, Terms};
use libi_core::wire;

use crate::packets::{Tap, payload};
use libi_testkit::testbed::{Testbed, direct, follow, is_root, launch, members, sockets_of, soon};

/// How long a stranger may stay, and what a busy machine may add.
const GONE_AFTER: Duration = Duration::from_secs(15);
/// More connections than a leader accepts, with its own descriptors.
const MOST_DESCRIPTORS: usize = 400;
/// More memory than a leader uses, in kB.
const MOST_MEMORY: u64 = 100_000;

/// The opening of a peer that speaks the protocol and has another secret.
fn forged() -> Vec<u8> {
    let secret = Secret::new(Entropy::new(&mut [7; 32]));
    let terms = Terms {
        version: wire::PROTOCOL.newest(),
        session: SessionId(0),
        host: HostIndex(1),
        attempt: 0,
        parent: Parent::FrontEnd,
        mode: LinkSecurity::Encrypted,
    };
    let (_, opening) = AwaitReply::begin(
        &LinkKey::derive(&secret, &terms),
        CipherOffer::PORTABLE,
        Entropy::new(&mut [8; 32]),
    );
    opening.to_vec()
}

fn connect(to: SocketAddr) -> Option<TcpStream> {
    let port = SocketAddr::from(([127, 0, 0, 1], to.port()));
    let stream = TcpStream::connect_timeout(&port, Duration::from_secs(1)).ok()?;
    stream.set_nodelay(true).unwrap();
    Some(stream)
}

/// What strangers send after they have connected.
fn attacks() -> Vec<Vec<u8>> {
    let half = forged()[..OPENING_LEN / 2].to_vec();
    vec![
        Vec::new(),
        vec![0xa5; 10_000],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        half,
        forged(),
        vec![0; OPENING_LEN],
    ]
}

/// Waits until the other side has closed a connection.
fn is_gone(mut stream: TcpStream, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left)).unwrap();
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => {
            assert!(said.is_empty(), "a stranger was answered: {said:?}");
            true
        }
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[test]
fn strangers_neither_join_nor_hold_up_a_launch_nor_stay() {
    let testbed = Testbed::new("seq 10ms\nrem 200ms");
    let front = FrontEnd::new().unwrap();
    let options = testbed.options(LinkPolicy::Direct);
    let words = ["join", "await:go", "out:{rank}", "finish:20000"];
    let session = front.start(&members("n[0-15]", &words), &options).unwrap();
    let (mut held, mut doors) = (Vec::new(), BTreeSet::new());
    while session.report().is_none() {
        for (listener, _) in testbed.listeners() {
            doors.insert(listener);
            for what in attacks() {
                let Some(mut stream) = connect(listener) else { continue };
                let _ = stream.write_all(&what);
                held.push(stream);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let report = session.report().unwrap();
    assert!(report.is_up() && report.joined() == 16, "{report}");
    assert!(doors.len() > 1, "{doors:?}");
    direct(&session, 16);
    // Once more, now that the session is up.
    for listener in testbed.listeners().into_keys() {
        held.extend(attacks().into_iter().filter_map(|what| {
            let mut stream = connect(listener)?;
            let _ = stream.write_all(&what);
            Some(stream)
        }));
    }
    let deadline = Instant::now() + GONE_AFTER;
    let count = held.len();
    let stay = held.into_iter().filter_map(|stream| (!is_gone(stream, deadline)).then_some(())).count();
    assert_eq!(stay, 0, "of {count} strangers");
    std::fs::write(testbed.lab.0.join("go"), "").unwrap();
    let outcome = follow(&front);
    assert_eq!(outcome.exits.len(), 16);
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn a_thousand_connections_cost_little_and_delay_no_member() {
    let testbed = Testbed::new("seq 10ms\nrem 200ms");
    let front = FrontEnd::new().unwrap();
    let options = testbed.options(LinkPolicy::Auto);
    let words = ["join", "await:go", "finish:20000"];
    let session = front.start(&members("n[0-15]", &words), &options).unwrap();
    let own = std::process::id();
    let stop = Arc::new(AtomicBool::new(false));
    soon("a process listens", || !testbed.listeners().is_empty());
    let flood = {
        let (stop, doors) = (Arc::clone(&stop), testbed.listeners());
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for round in 0.. {
                let (listener, _) = doors.iter().nth(round % doors.len()).unwrap();
                held.extend((0..100).filter_map(|_| connect(*listener)));
                if held.len() > 900 {
                    held.drain(..held.len() - 900);
                }
                if stop.load(Relaxed) {
                    return held;
                }
            }
            held
        })
    };
    let mut most = (0, 0);
    while session.report().is_none() {
        for pid in testbed.leaders().into_iter().filter(|pid| *pid != own) {
            most = (most.0.max(sockets_of(pid).len()), most.1.max(memory(pid)));
        }
    }
    stop.store(true, Relaxed);
    let held = flood.join().unwrap();
    let report = session.report().unwrap();
    assert!(report.is_up() && report.joined() == 16, "{report}");
    assert!(most.0 < MOST_DESCRIPTORS && most.1 < MOST_MEMORY, "{most:?}");
    // All at once to each listener of the session that is up.
    drop(held);
    for (listener, pid) in testbed.listeners() {
        let held: Vec<_> = (0..1_000).filter_map(|_| connect(listener)).collect();
        if pid != own {
            assert!(sockets_of(pid).len() < MOST_DESCRIPTORS && memory(pid) < MOST_MEMORY);
        }
        let deadline = Instant::now() + GONE_AFTER;
        let stay = held.into_iter().filter_map(|stream| (!is_gone(stream, deadline)).then_some(())).count();
        assert_eq!(stay, 0);
    }
    std::fs::write(testbed.lab.0.join("go"), "").unwrap();
    assert_eq!(follow(&front).exits.len(), 16);
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn a_replayed_handshake_is_refused() {
    if !is_root() {
        return; // packets
    }
    let testbed = Testbed::new("seq 1ms\nrem 5ms");
    let front = FrontEnd::new().unwrap();
    let tap = Tap::open();
    let words = ["join", "await:go", "finish:20000"];
    let session = launch(&front, "n[0-3]", &words, &testbed.options(LinkPolicy::Direct));
    direct(&session, 4);
    let packets = tap.close();
    let doors: BTreeSet<u16> = testbed.listeners().into_keys().map(|listener| listener.port()).collect();
    let openings = packets
        .iter()
        .filter_map(|packet| payload(packet))
        .filter(|(port, bytes)| doors.contains(port) && bytes.len() == OPENING_LEN);
    let openings: BTreeSet<(u16, &[u8])> = openings.collect();
    assert!(openings.len() >= 4, "{}", openings.len());
    let mut held = Vec::new();
    for (port, opening) in openings {
        for _ in 0..20 {
            let mut stream = connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
            let _ = stream.write_all(opening);
            held.push(stream);
        }
    }
    let deadline = Instant::now() + GONE_AFTER;
    assert!(held.into_iter().all(|stream| is_gone(stream, deadline)), "its ticket is spent");
    std::fs::write(testbed.lab.0.join("go"), "").unwrap();
    assert_eq!(follow(&front).exits.len(), 4);
    assert_eq!(session.links().direct, 4);
    drop((session, front));
    testbed.nothing_is_left();
}
