//! Prints the secret of a session with every bit inverted, in hexadecimal: `libi-test-secret FILE`.
//!
//! The file has what a leader has read from its parent, as the setting `record` of `libi-test-shell` keeps
//! it. This is a program of its own because tests search their own memory for the secret, which therefore
//! must not have passed through it. Ends with status 1 if the file does not have the secret, or not yet.
#![allow(clippy::unwrap_used, reason = "a test program fails by panicking")]

use std::process::ExitCode;

use libi_core::secure::Secret;
use libi_core::wire::{Kind, Limits, Parsed, PreambleScanner, decode_control, parse};
use libi_launch::machine::ParentMessage;

fn main() -> ExitCode {
    let file = std::env::args_os().nth(1).expect("the name of a file is needed");
    let bytes = std::fs::read(file).unwrap_or_default();
    let Some(secret) = secret(&bytes) else { return ExitCode::FAILURE };
    println!("{}", secret.for_ticket().iter().map(|byte| format!("{:02x}", !byte)).collect::<String>());
    ExitCode::SUCCESS
}

/// The secret in the configuration of a session, the first control message after the preamble.
fn secret(bytes: &[u8]) -> Option<Secret> {
    let mut rest = PreambleScanner::new().scan(bytes).found?.rest;
    while let Parsed::Frame { frame, consumed } = parse(rest, &Limits::AUTHENTICATED).unwrap() {
        if frame.header().kind() == Kind::Control
            && let ParentMessage::SessionConfig(config) = decode_control(&frame).unwrap()
        {
            return config.secret.map(|carried| carried.0);
        }
        rest = &rest[consumed..];
    }
    None
}
