//! The rules for single words: host names, user names, counts and ports.

use core::net::Ipv6Addr;
use core::num::NonZeroU16;

use super::MAX_NAME;
use super::error::HostListErrorKind as Kind;

/// Whether this byte is allowed in a host or user name.
pub(super) fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// ASCII white space. Other white space is more likely an accident than a separator.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

pub(super) fn is_separator(byte: u8) -> bool {
    byte == b',' || is_space(byte)
}

/// Checks a host name.
pub(super) fn check_host(name: &str) -> Result<(), Kind> {
    if !name.contains(':') {
        return check_name(name, Kind::MissingHost);
    }
    if name.len() > MAX_NAME {
        return Err(Kind::NameTooLong);
    }
    let (address, zone) = match name.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (name, None),
    };
    let zone_is_fine = zone.is_none_or(|zone| !zone.is_empty() && zone.bytes().all(in_name));
    if zone_is_fine && address.parse::<Ipv6Addr>().is_ok() { Ok(()) } else { Err(Kind::BadAddress) }
}

/// Checks a user name.
pub(super) fn check_user(name: &str) -> Result<(), Kind> {
    check_name(name, Kind::MissingUser)
}

fn check_name(name: &str, missing: Kind) -> Result<(), Kind> {
    if name.is_empty() {
        return Err(missing);
    }
    if let Some(other) = name.chars().find(|&c| !u8::try_from(c).is_ok_and(in_name)) {
        return Err(Kind::UnexpectedCharacter(other));
    }
    if name.starts_with('-') {
        return Err(Kind::LeadingDash);
    }
    if name.len() > MAX_NAME { Err(Kind::NameTooLong) } else { Ok(()) }
}

/// A count of processes.
pub(super) fn parse_count(text: &str) -> Result<u32, Kind> {
    match digits(text)?.parse() {
        Ok(0) => Err(Kind::ZeroCount),
        Ok(count) => Ok(count),
        Err(_) => Err(Kind::CountTooLarge),
    }
}

/// The port of a remote shell.
pub(super) fn parse_port(text: &str) -> Result<NonZeroU16, Kind> {
    digits(text)?.parse().map_err(|_| Kind::BadPort)
}

/// Checks for digits only: the standard library's numbers may begin with a `+`.
fn digits(text: &str) -> Result<&str, Kind> {
    let valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if valid { Ok(text) } else { Err(Kind::MissingNumber) }
}
