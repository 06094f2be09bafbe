//! What was recorded of real clients and servers, OpenSSH 8.4 and 9.2: each line with the second at
//! which it came, and where from. Names of users and files have been changed.

use std::time::Duration;

use libi_core::time::Instant;

use super::{LoginError, LoginStage, Transcript};

fn seconds(text: &str) -> Instant {
    let micros: u64 = text.replacen('.', "", 1).parse().unwrap();
    Instant::from_nanos(micros * 1_000)
}

/// What comes of a recording; with how the program has ended.
fn read(recording: &str) -> (Transcript, i32) {
    let mut transcript = Transcript::begin(Instant::ZERO);
    for line in recording.lines() {
        let (at, rest) = line.split_once(' ').unwrap();
        let (from, text) = rest.split_once(' ').unwrap();
        match from {
            "err" => transcript.line(text, seconds(at)),
            "out" if text == "marker" => transcript.shell_answered(seconds(at)),
            "end" => return (transcript, text.parse().unwrap()),
            _ => panic!("{line}"),
        }
    }
    panic!("the recording has no end")
}

fn micros(transcript: &Transcript) -> [u128; 4] {
    let timing = transcript.timing();
    [timing.connect, timing.key_exchange, timing.authentication, timing.session]
        .map(|part| part.unwrap().as_micros())
}

#[test]
fn the_parts_of_a_login_add_up_to_its_set_up() {
    for recording in [
        include_str!("recordings/9.2-works.txt"),
        include_str!("recordings/8.4-works.txt"),
        include_str!("recordings/9.2-two-keys.txt"),
        include_str!("recordings/9.2-jumped.txt"),
    ] {
        let (transcript, status) = read(recording);
        assert_eq!((status, transcript.stage(), transcript.error()), (0, LoginStage::Shell, None));
        let sum: u128 = micros(&transcript).iter().sum();
        assert_eq!(sum, transcript.setup_time().unwrap().as_micros());
    }
}

#[test]
fn each_part_ends_with_the_line_that_says_so() {
    let (old, _) = read(include_str!("recordings/8.4-works.txt"));
    let until = [4_799, 17_847, 82_167, 208_637];
    let expected = [until[0], until[1] - until[0], until[2] - until[1], until[3] - until[2]];
    assert_eq!(micros(&old), expected);
}

#[test]
fn what_was_agreed_on_is_known() {
    let (old, _) = read(include_str!("recordings/8.4-works.txt"));
    let details = old.details();
    assert_eq!(details.client.as_deref(), Some("OpenSSH_8.4p1 Debian-5+deb11u3"));
    assert_eq!(details.server.as_deref(), Some("OpenSSH_9.2p1 Debian-2+deb12u10"));
    assert_eq!(details.address.as_deref(), Some("127.0.0.1 port 22022"));
    assert_eq!(details.key_exchange.as_deref(), Some("curve25519-sha256"));
    assert_eq!(details.cipher.as_deref(), Some("chacha20-poly1305@openssh.com"));
    assert_eq!(details.method.as_deref(), Some("publickey"));
    assert!(details.host_key.as_deref().unwrap().starts_with("ssh-ed25519 SHA256:"));
    let (new, _) = read(include_str!("recordings/9.2-two-keys.txt"));
    assert_eq!(new.details().key_exchange.as_deref(), Some("sntrup761x25519-sha512"));
    assert_eq!((new.details().offered, new.details().method.as_deref()), (2, Some("publickey")));
    assert!(
        new.details().key.as_deref().unwrap().starts_with("id ED25519 SHA256:"),
        "{:?}",
        new.details().key
    );
}

#[test]
fn behind_a_jump_host_the_second_login_counts() {
    let (transcript, _) = read(include_str!("recordings/9.2-jumped.txt"));
    let details = transcript.details();
    assert!(details.by_proxy);
    assert_eq!(details.offered, 1, "the key that the jump host was offered is not counted");
    // Its banner comes when the jump host has accepted the login.
    assert_eq!(transcript.timing().connect, Some(Duration::from_micros(190_955)));
}

#[test]
fn of_a_connection_that_was_there_nothing_is_measured() {
    let (transcript, _) = read(include_str!("recordings/9.2-shared.txt"));
    assert!(transcript.details().shared);
    assert_eq!(transcript.timing().connect.or(transcript.timing().session), None);
    assert_eq!(transcript.setup_time(), Some(Duration::from_micros(91_030)));
}

#[test]
fn what_stood_in_the_way_is_recognised() {
    use LoginStage::{Connection, Keys, Nothing};
    let cases = [
        (include_str!("recordings/9.2-unresolved.txt"), LoginError::NameUnknown, Nothing),
        (include_str!("recordings/9.2-refused.txt"), LoginError::ConnectionRefused, Nothing),
        (include_str!("recordings/8.4-refused.txt"), LoginError::ConnectionRefused, Nothing),
        (include_str!("recordings/9.2-timed-out.txt"), LoginError::TimedOut, Nothing),
        (include_str!("recordings/9.2-mute.txt"), LoginError::NoBanner, Connection),
        (include_str!("recordings/9.2-turned-away.txt"), LoginError::ClosedBeforeLogin, Connection),
        (include_str!("recordings/9.2-no-common-algorithm.txt"), LoginError::NoCommonAlgorithm, Connection),
        (include_str!("recordings/9.2-host-key-unknown.txt"), LoginError::HostKeyUnknown, Connection),
        (include_str!("recordings/9.2-host-key-changed.txt"), LoginError::HostKeyChanged, Connection),
        (include_str!("recordings/8.4-host-key-changed.txt"), LoginError::HostKeyChanged, Connection),
        (include_str!("recordings/9.2-denied.txt"), LoginError::Denied, Keys),
        (include_str!("recordings/8.4-denied.txt"), LoginError::Denied, Keys),
        (include_str!("recordings/9.2-bad-option.txt"), LoginError::BadOptions, Nothing),
    ];
    for (recording, error, stage) in cases {
        let (transcript, status) = read(recording);
        let seen = (status, transcript.error().map(|(error, _)| error), transcript.stage());
        assert_eq!(seen, (255, Some(error), stage));
        assert_eq!(transcript.setup_time(), None);
    }
}

/// As `rsh`, and `ssh` that is told to be quiet, have it.
#[test]
fn trouble_is_recognised_and_nothing_else_is_known_without_details() {
    for recording in
        [include_str!("recordings/9.2-denied.txt"), include_str!("recordings/8.4-host-key-changed.txt")]
    {
        let quiet: Vec<_> = recording.lines().filter(|line| !line.contains("debug1")).collect();
        let (transcript, _) = read(&quiet.join("\n"));
        assert_eq!(transcript.error().map(|(t, _)| t), read(recording).0.error().map(|(t, _)| t));
        assert_eq!(transcript.timing(), super::LoginTiming::default());
    }
}

#[test]
fn other_words_lead_to_no_guess() {
    let mut transcript = Transcript::begin(Instant::ZERO);
    for line in
        ["Connecting", "debug1: all is well", "debug1: kex: algorithm: (no match)", "\u{1b}[31mhello", ""]
    {
        transcript.line(line, Instant::from_nanos(5));
    }
    assert_eq!(
        (transcript.stage(), transcript.timing()),
        (LoginStage::Nothing, super::LoginTiming::default())
    );
    assert_eq!(transcript.details(), &super::LoginDetails::default());
    assert_eq!((transcript.error(), transcript.last_line()), (None, "\u{fffd}[31mhello"));
}

/// A command that is not allowed to do something is not a login that was refused.
#[test]
fn what_is_said_over_there_is_no_trouble_of_the_login() {
    let (mut transcript, _) = read(include_str!("recordings/9.2-works.txt"));
    transcript.line("sh: 1: ./daemon: Permission denied", Instant::FAR_FUTURE);
    assert_eq!(transcript.error(), None);
    assert_eq!(transcript.last_line(), "sh: 1: ./daemon: Permission denied");
}

/// As `ControlMaster auto` has it the first time.
#[test]
fn a_connection_that_was_only_looked_for_is_not_shared() {
    let mut transcript = Transcript::begin(Instant::ZERO);
    transcript.line("debug1: auto-mux: Trying existing master", Instant::ZERO);
    assert!(!transcript.details().shared);
}

#[test]
fn a_long_line_is_not_kept_whole() {
    let mut transcript = Transcript::begin(Instant::ZERO);
    transcript.line(&format!("Permission denied {}", "x".repeat(1 << 20)), Instant::ZERO);
    assert_eq!(transcript.last_line().len(), Transcript::MAX_KEPT);
}
