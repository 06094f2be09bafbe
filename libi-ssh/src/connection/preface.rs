//! Reads what a server sends without being asked: its identification and its list of algorithms.
//!
//! Both are plain text, and are read before russh is asked so that the algorithms can be decided.
//! What was read is replayed to russh, except lines before the identification. The limits are
//! those of OpenSSH.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};

use super::Stop;
use super::stream::Transport;
use super::words::{Lost, Notes, Peer, lost_before_start, of_system};

/// What was read.
pub(super) struct Preface {
    /// What russh is to read again.
    pub(super) replayed: Vec<u8>,
    /// The payload of the server's `SSH_MSG_KEXINIT`.
    pub(super) kexinit: Vec<u8>,
}

const LINES: usize = 1024;
const LINE: usize = 8192;
/// What russh reads as an identification, without the end of the line.
const IDENTIFICATION: usize = 253;
const PACKETS: usize = 64 * 1024;
const PACKET_OF_SSH: usize = 256 * 1024;

const DISCONNECT: u8 = 1;
const IGNORED: [u8; 3] = [2, 3, 4];
const KEXINIT: u8 = 20;

/// Reads until the list of algorithms is complete. The deadline ends with the identification.
pub(super) async fn read(
    transport: &mut dyn Transport,
    peer: Peer,
    notes: &Notes,
    deadline: Option<Instant>,
) -> Result<Preface, Stop> {
    let mut parser = Parser::default();
    loop {
        match parser.step() {
            Ok(Some(kexinit)) => return Ok(Preface { replayed: parser.bytes, kexinit }),
            Ok(None) => {}
            Err(wrong) => return Err(wrong.told(peer, notes)),
        }
        let deadline = deadline.filter(|_| parser.identified.is_none());
        let reading = transport.read_buf(&mut parser.bytes);
        let read = match deadline {
            None => reading.await,
            Some(deadline) => match timeout_at(deadline, reading).await {
                Ok(read) => read,
                Err(_) => {
                    notes.line("Connection timed out during banner exchange");
                    notes.line(&format!("Connection to {peer} timed out"));
                    return Err(Stop::Failed);
                }
            },
        };
        let error = match read {
            Ok(0) => io::ErrorKind::UnexpectedEof.into(),
            Ok(_) => continue,
            Err(error) => error,
        };
        if parser.identified.is_none() {
            notes.line(&match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    "kex_exchange_identification: Connection closed by remote host".to_owned()
                }
                _ => format!("kex_exchange_identification: read: {}", of_system(&error)),
            });
        }
        lost_before_start(notes, peer, &Lost::Failed(error.into()));
        return Err(Stop::Failed);
    }
}

/// What is wrong with the bytes of a server.
#[derive(Debug)]
enum Wrong {
    /// A line to print, and what the connection is ended with.
    Identification(String, &'static str),
    PacketLength(u32),
    Disconnected(Lost),
    /// `ssh` may understand it.
    Unknown(&'static str),
}

impl Wrong {
    fn told(self, peer: Peer, notes: &Notes) -> Stop {
        match self {
            Wrong::Identification(line, end) => {
                notes.line(&line);
                notes.line(&format!("banner exchange: Connection to {peer}: {end}"));
            }
            Wrong::PacketLength(length) => {
                notes.line(&format!("Bad packet length {length}."));
                let why = "message authentication code incorrect";
                notes.line(&format!("ssh_dispatch_run_fatal: Connection to {peer}: {why}"));
            }
            Wrong::Disconnected(lost) => lost_before_start(notes, peer, &lost),
            Wrong::Unknown(what) => return Stop::Declined(what.to_owned()),
        }
        Stop::Failed
    }
}

#[derive(Default)]
struct Parser {
    /// What is not yet dropped.
    bytes: Vec<u8>,
    /// Lines before the identification.
    lines: usize,
    /// Where the identification ends.
    identified: Option<usize>,
}

impl Parser {
    /// Returns the list of algorithms once it is complete.
    fn step(&mut self) -> Result<Option<Vec<u8>>, Wrong> {
        while self.identified.is_none() {
            let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') else {
                return match self.bytes.len() > LINE + 1 {
                    true => Err(invalid("banner line too long")),
                    false => Ok(None),
                };
            };
            self.line(end)?;
        }
        let mut at = self.identified.unwrap_or_default();
        let packets = self.bytes.len() - at;
        while let Some((length, payload)) = packet(self.bytes.get(at..).unwrap_or_default())? {
            match payload.first() {
                Some(&KEXINIT) => return Ok(Some(payload.to_vec())),
                Some(&DISCONNECT) => return Err(Wrong::Disconnected(disconnected(payload))),
                Some(number) if IGNORED.contains(number) => at += length,
                _ => return Err(Wrong::Unknown("the server does not begin with its algorithms")),
            }
        }
        match packets > PACKETS {
            true => Err(Wrong::Unknown("the list of algorithms is too long")),
            false => Ok(None),
        }
    }

    fn line(&mut self, end: usize) -> Result<(), Wrong> {
        let line = self.bytes.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().any(|byte| matches!(byte, 0 | b'\r')) {
            return Err(invalid("banner line contains invalid characters"));
        }
        if line.len() > LINE {
            return Err(invalid("banner line too long"));
        }
        if line.starts_with(b"SSH-") {
            check_version(line)?;
            if line.len() > IDENTIFICATION || std::str::from_utf8(line).is_err() {
                return Err(Wrong::Unknown("the identification of the server is too long"));
            }
            self.identified = Some(end + 1);
            return Ok(());
        }
        self.bytes.drain(..=end);
        self.lines += 1;
        match self.lines < LINES {
            true => Ok(()),
            false => Err(invalid("No SSH version received in first 1024 lines from server")),
        }
    }
}

fn invalid(what: &str) -> Wrong {
    Wrong::Identification(format!("kex_exchange_identification: {what}"), "invalid format")
}

/// `SSH-major.minor-software`, where major is 2, or the version 1.99.
fn check_version(line: &[u8]) -> Result<(), Wrong> {
    let line = String::from_utf8_lossy(line);
    let parse = || {
        let (version, software) = line.strip_prefix("SSH-")?.split_once('-')?;
        let (major, minor) = version.split_once('.')?;
        let numbers = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
        (!software.is_empty()).then_some(numbers)
    };
    match parse() {
        Some((2, 0) | (1, 99)) => Ok(()),
        // russh reads no other.
        Some((2, _)) => Err(Wrong::Unknown("unusual version of the protocol")),
        Some((major, _)) => Err(Wrong::Identification(
            format!("Protocol major versions differ: 2 vs. {major}"),
            "could not read protocol version",
        )),
        None => {
            let shown: String = line.chars().take(100).collect();
            let line = format!("Bad remote protocol version identification: '{shown}'");
            Err(Wrong::Identification(line, "invalid format"))
        }
    }
}

/// Returns the length of the first packet and its payload, or `None` if it is not complete.
fn packet(bytes: &[u8]) -> Result<Option<(usize, &[u8])>, Wrong> {
    let Some((&head, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let announced = u32::from_be_bytes(head);
    let length = announced as usize;
    if !(5..=PACKET_OF_SSH).contains(&length) {
        return Err(Wrong::PacketLength(announced));
    }
    if length > PACKETS {
        return Err(Wrong::Unknown("the list of algorithms is too long"));
    }
    let Some(packet) = rest.get(..length) else {
        return Ok(None);
    };
    let padding = packet.first().map_or(0, |&padding| usize::from(padding));
    let payload = length.checked_sub(padding).and_then(|end| packet.get(1..end));
    payload.map(|payload| Some((length + 4, payload))).ok_or(Wrong::PacketLength(announced))
}

fn disconnected(payload: &[u8]) -> Lost {
    let code = payload.get(1..5).and_then(|code| code.try_into().ok()).map_or(0, u32::from_be_bytes);
    let length = payload.get(5..9).and_then(|length| length.try_into().ok()).map_or(0, u32::from_be_bytes);
    let text = payload.get(9..).unwrap_or_default();
    let text = text.get(..length as usize).unwrap_or(text);
    Lost::Disconnected { code, message: String::from_utf8_lossy(text).chars().take(400).collect() }
}

#[cfg(test)]
mod garbage;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet_of(payload: &[u8]) -> Vec<u8> {
        let mut packet = (payload.len() as u32 + 5).to_be_bytes().to_vec();
        packet.push(4);
        packet.extend_from_slice(payload);
        packet.extend_from_slice(&[0; 4]);
        packet
    }

    /// Feeds the bytes one at a time.
    fn parsed(bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Wrong> {
        let mut parser = Parser::default();
        for &byte in bytes {
            parser.bytes.push(byte);
            if let Some(kexinit) = parser.step()? {
                return Ok((parser.bytes, kexinit));
            }
        }
        panic!("not complete");
    }

    #[test]
    fn the_list_is_found_behind_lines_and_ignored_packets() {
        let expected = [b"SSH-2.0-x y\r\n".to_vec(), packet_of(&[2, 9]), packet_of(&[20, 1, 2])].concat();
        let bytes = [b"Welcome\r\n\n".to_vec(), expected.clone()].concat();
        let (replayed, kexinit) = parsed(&bytes).unwrap();
        assert_eq!(kexinit, [20, 1, 2]);
        assert_eq!(replayed, expected);
    }

    #[test]
    fn no_prefix_and_no_flipped_byte_panics() {
        let bytes = [b"a\nSSH-2.0-x\r\n".to_vec(), packet_of(&[1, 0, 0, 0, 2, 0, 0, 0, 9, b'x'])].concat();
        for at in 0..bytes.len() {
            for value in [0, 4, 10, 20, 127, 255] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let mut parser = Parser { bytes: changed, ..Parser::default() };
                let _ = parser.step();
            }
        }
    }

    #[test]
    fn limits_are_those_of_ssh() {
        let mut parser = Parser { bytes: b"x\n".repeat(LINES), ..Parser::default() };
        assert!(matches!(parser.step(), Err(Wrong::Identification(..))));
        let mut parser = Parser { bytes: vec![b'x'; LINE + 2], ..Parser::default() };
        assert!(matches!(parser.step(), Err(Wrong::Identification(..))));
        let mut parser = Parser { bytes: b"SSH-2.0-x\nHTTP/".to_vec(), ..Parser::default() };
        assert!(matches!(parser.step(), Err(Wrong::PacketLength(0x4854_5450))));
    }
}
