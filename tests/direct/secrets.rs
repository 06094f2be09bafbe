//! Where the secret of a session and the output of members can be seen, and where not.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::process::Command;
use std::time::Duration;

use libi::{FrontEnd, LinkPolicy, LinkSecurity};
use libi_testkit::programs;

use crate::packets::{Tap, shows};
use libi_testkit::testbed::{Testbed, direct, follow, is_root, launch, members, soon};

/// For [`Secret`]: the stand-in records what the first leader reads.
const RECORD: &str = "fault n0 relay\nrecord input";

/// The secret of the launch of a test bed with every bit inverted, so that this copy is not found.
struct Secret([u8; 32]);

impl Secret {
    /// Waits until the first leader has been sent it.
    fn of(testbed: &Testbed) -> Self {
        let mut digits = String::new();
        soon("the first leader has the secret", || {
            let decoded = Command::new(programs::secret()).arg(testbed.lab.0.join("input")).output().unwrap();
            digits = String::from_utf8(decoded.stdout).unwrap();
            decoded.status.success()
        });
        let digits = digits.trim_end();
        Self(std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..][..2], 16).unwrap()))
    }

    fn bytes(&self) -> [u8; 32] {
        self.0.map(|byte| !byte)
    }

    /// How often it occurs in the writable memory of a process. The search inverts what it reads, so
    /// that this process has no copy of the secret itself.
    fn copies_in(&self, pid: u32) -> usize {
        let masked = self.0;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let mut memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        let mut buffer = vec![0; 4 << 20];
        let mut found = 0;
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let (first, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let (mut at, end) =
                (u64::from_str_radix(first, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
            while at < end {
                let most = buffer.len().min((end - at) as usize);
                buffer.fill(0);
                if memory.seek(SeekFrom::Start(at)).is_err()
                    || memory.read_exact(&mut buffer[..most]).is_err()
                {
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
}

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
        let testbed = Testbed::new(&format!("seq 1ms\nrem 5ms\n{RECORD}"));
        let front = FrontEnd::new().unwrap();
        let tap = Tap::open();
        let options = testbed.options(LinkPolicy::Direct).link_security(mode);
        // Programs and their arguments are sent over channels.
        let marker = marker(mode);
        let print = format!("out:{marker}");
        let words = ["join", "await:go", &print, "finish:20000"];
        let session = launch(&front, "n[0-3]", &words, &options);
        direct(&session, 4);
        fs::write(testbed.lab.0.join("go"), "").unwrap();
        let outcome = follow(&front);
        assert!(outcome.out.values().all(|out| *out == format!("{marker}\n").into_bytes()));
        let secret = Secret::of(&testbed).bytes();
        drop((session, front));
        testbed.nothing_is_left();
        let packets = tap.close();
        assert_eq!(shows(&packets, marker.as_bytes()), mode == LinkSecurity::Authenticated, "{mode:?}");
        assert!(!shows(&packets, &secret), "the secret is in a packet");
    }
}

#[test]
fn the_secret_is_in_no_argument_and_in_no_environment() {
    let testbed = Testbed::new(&format!("seq 5ms\nrem 100ms\n{RECORD}"));
    let front = FrontEnd::new().unwrap();
    let words = members("n[0-15]:2", &["join", "wait"]);
    let session = front.start(&words, &testbed.options(LinkPolicy::Auto)).unwrap();
    let (mut seen, mut looked) = (BTreeSet::new(), 0);
    while session.report().is_none() || looked < 5 {
        for pid in testbed.processes() {
            for file in ["cmdline", "environ"] {
                seen.insert((file, fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()));
            }
        }
        looked += 1;
    }
    assert!(session.report().unwrap().is_up());
    let secret = Secret::of(&testbed).bytes();
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    for (file, bytes) in seen {
        for what in [&secret[..], hex.as_bytes()] {
            let has = bytes.windows(what.len()).any(|window| window == what);
            assert!(!has, "{file}: {}", String::from_utf8_lossy(&bytes));
        }
    }
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn the_secret_is_wiped_when_the_session_is_up() {
    if !is_root() {
        return; // the memory of others
    }
    let testbed = Testbed::new(&format!("seq 1ms\nrem 30ms\nfault n5 delay 1500ms\n{RECORD}"));
    let front = FrontEnd::new().unwrap();
    let words = members("n[0-7]:2", &["join", "wait"]);
    let session = front.start(&words, &testbed.options(LinkPolicy::Auto)).unwrap();
    soon("leaders have joined", || testbed.leaders().len() > 3);
    let (own, secret) = (std::process::id(), Secret::of(&testbed));
    assert!(secret.copies_in(own) > 0, "as long as it launches, the front end needs the secret");
    session.wait_up(Duration::from_secs(30)).unwrap();
    assert_eq!(secret.copies_in(own), 0, "of the front end");
    // They hear of it a little later.
    for pid in testbed.leaders() {
        soon("a leader has wiped it", || secret.copies_in(pid) == 0);
    }
    drop((session, front));
    testbed.nothing_is_left();
}
