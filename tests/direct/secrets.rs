//! Where the secret of a session and the output of members can be seen, and where not.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use libi::{FrontEnd, LinkPolicy, LinkSecurity};

use crate::packets::{Tap, shows};
use libi_testkit::testbed::{Testbed, direct, follow, is_root, launch, members, soon};

/// 64 bytes that occur nowhere else.
fn marker(mode: LinkSecurity) -> String {
    format!("{:-<64}", format!("marker of {} in {mode:?}", std::process::id()))
}

#[test]
fn output_is_readable_on_the_wire_only_if_links_are_not_encrypted() {
    if !is_root() {
        return; // packets
    }
    for mode in [LinkSecurity::Authenticated, LinkSecurity::Encrypted] {
        let testbed = Testbed::new("seq 1ms\nrem 5ms");
        let front = FrontEnd::new().unwrap();
        let tap = Tap::open();
        let options = testbed.options(LinkPolicy::Auto).link_security(mode);
        // Programs and their arguments are sent over channels.
        let marker = marker(mode);
        let print = format!("out:{marker}");
        let words = ["join", "await:go", &print, "finish:20000"];
        let session = launch(&front, "n[0-3]", &words, &options);
        direct(&session, 4);
        fs::write(testbed.lab.0.join("go"), "").unwrap();
        let outcome = follow(&front);
        assert!(outcome.out.values().all(|out| *out == format!("{marker}\n").into_bytes()));
        let secret = libi::testing::last_secret();
        drop((session, front));
        testbed.nothing_is_left();
        let packets = tap.close();
        assert_eq!(shows(&packets, marker.as_bytes()), mode == LinkSecurity::Authenticated, "{mode:?}");
        assert!(!shows(&packets, &secret), "the secret is in a packet");
    }
}

#[test]
fn the_secret_is_in_no_argument_and_in_no_environment() {
    let testbed = Testbed::new("seq 5ms\nrem 100ms");
    let front = FrontEnd::new().unwrap();
    let words = members("n[0-15]:2", &["join", "wait"]);
    let session = front.start(&words, &testbed.options(LinkPolicy::Auto)).unwrap();
    let mut looked = 0;
    while session.report().is_none() || looked < 5 {
        let secret = libi::testing::last_secret();
        for pid in testbed.processes() {
            for file in ["cmdline", "environ"] {
                let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
                for what in [&secret[..], hex.as_bytes()] {
                    assert!(!bytes.windows(what.len()).any(|window| window == what), "{file} of {pid}");
                }
            }
        }
        looked += 1;
    }
    assert!(session.report().unwrap().is_up());
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn the_secret_is_wiped_when_the_session_is_up() {
    if !is_root() {
        return; // the memory of others
    }
    let testbed = Testbed::new("seq 1ms\nrem 30ms\nfault n5 delay 700ms");
    let front = FrontEnd::new().unwrap();
    let words = members("n[0-7]:2", &["join", "wait"]);
    let session = front.start(&words, &testbed.options(LinkPolicy::Auto)).unwrap();
    soon("leaders have joined", || testbed.leaders().len() > 3);
    let own = std::process::id();
    assert!(copies(own) > 0, "as long as it launches, the front end needs the secret");
    session.wait_up(Duration::from_secs(30)).unwrap();
    direct(&session, 8);
    assert_eq!(copies(own), 0, "of the front end");
    for pid in testbed.leaders() {
        assert_eq!(copies(pid), 0, "of a leader");
    }
    drop((session, front));
    testbed.nothing_is_left();
}

/// How often the secret of the last launch occurs in the writable memory of a process. The search
/// inverts what it reads, so that this process has no copy of the secret itself.
fn copies(pid: u32) -> usize {
    let masked = libi::testing::last_secret_inverted();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut buffer = vec![0; 4 << 20];
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (first, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let (mut at, end) = (u64::from_str_radix(first, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        while at < end {
            let most = buffer.len().min((end - at) as usize);
            buffer.fill(0);
            if memory.seek(SeekFrom::Start(at)).is_err() || memory.read_exact(&mut buffer[..most]).is_err() {
                break; // a mapping that cannot be read, or is gone
            }
            buffer.iter_mut().for_each(|byte| *byte = !*byte);
            let here = buffer[..most].windows(masked.len()).filter(|window| **window == masked);
            let here = here.count();
            if here > 0 {
                println!("{here} in {line}");
            }
            found += here;
            at += if most < buffer.len() { most as u64 } else { (most - masked.len()) as u64 };
        }
    }
    found
}
