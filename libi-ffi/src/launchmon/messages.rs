//! What front end and daemons send each other: a first byte, and data behind it.
//!
//! | message | from, to | first byte | data |
//! |---|---|---|---|
//! | [`Startup`] | front end, all daemons | bit 0: ranks are held; bit 1: there are data | as packed |
//! | [`Ready`] | each daemon, front end | 1: ready; 3: with data; 4: it has failed | as packed |
//! | [`Message`] | front end and master, daemons | 0: data; 1: let the ranks go, or how many are still held | as packed, or a number |

use libi::Bytes;

use super::codes::EBDMSG;
use crate::compat::{CallError, CallResult};

const HELD: u8 = 1;
const DATA: u8 = 2;
const READY: u8 = 1;
const FAILED: u8 = 4;

/// What daemons get at the handshake.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Startup {
    pub(super) is_held: bool,
    pub(super) data: Option<Bytes>,
}

impl Startup {
    pub(super) fn encoded(&self) -> Bytes {
        let held = if self.is_held { HELD } else { 0 };
        joined(held | flag(self.data.as_ref()), self.data.as_ref())
    }

    pub(super) fn decoded(message: &Bytes) -> CallResult<Self> {
        let (first, data) = split(message)?;
        if first & !(HELD | DATA) != 0 {
            return Err(unknown());
        }
        Ok(Self { is_held: first & HELD != 0, data: (first & DATA != 0).then_some(data) })
    }
}

/// What the front end gets of each daemon.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ready {
    Yes(Option<Bytes>),
    /// Its part was to pack data.
    Failed,
}

impl Ready {
    pub(super) fn encoded(&self) -> Bytes {
        match self {
            Self::Yes(data) => joined(READY | flag(data.as_ref()), data.as_ref()),
            Self::Failed => joined(FAILED, None),
        }
    }

    pub(super) fn decoded(message: &Bytes) -> CallResult<Self> {
        let (first, data) = split(message)?;
        match first {
            READY => Ok(Self::Yes(None)),
            first if first == READY | DATA => Ok(Self::Yes(Some(data))),
            FAILED => Ok(Self::Failed),
            _ => Err(unknown()),
        }
    }
}

/// What is sent once all daemons are ready.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    Data(Bytes),
    /// To daemons: let the ranks go within so many milliseconds. From them: how many are held.
    Release(u32),
}

impl Message {
    pub(super) fn encoded(&self) -> Bytes {
        match self {
            Self::Data(data) => joined(0, Some(data)),
            Self::Release(number) => joined(1, Some(&Bytes::copy_from_slice(&number.to_le_bytes()))),
        }
    }

    pub(super) fn decoded(message: &Bytes) -> CallResult<Self> {
        match split(message)? {
            (0, data) => Ok(Self::Data(data)),
            (1, number) => {
                let number = <[u8; 4]>::try_from(&number[..]).map_err(|_| unknown())?;
                Ok(Self::Release(u32::from_le_bytes(number)))
            }
            _ => Err(unknown()),
        }
    }
}

fn flag(data: Option<&Bytes>) -> u8 {
    if data.is_some() { DATA } else { 0 }
}

fn joined(first: u8, data: Option<&Bytes>) -> Bytes {
    let data = data.map_or(&b""[..], |data| &data[..]);
    [&[first], data].concat().into()
}

fn split(message: &Bytes) -> CallResult<(u8, Bytes)> {
    let first = *message.first().ok_or_else(unknown)?;
    Ok((first, message.slice(1..)))
}

fn unknown() -> CallError {
    CallError::new(
        EBDMSG,
        "the other side has sent what this interface does not know: it uses libi otherwise",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written_and_others_are_refused() {
        for data in [None, Some(Bytes::new()), Some(Bytes::from_static(b"abc"))] {
            for is_held in [false, true] {
                let startup = Startup { is_held, data: data.clone() };
                assert_eq!(Startup::decoded(&startup.encoded()).unwrap(), startup);
            }
            let ready = Ready::Yes(data.clone());
            assert_eq!(Ready::decoded(&ready.encoded()).unwrap(), ready);
            let message = Message::Data(data.unwrap_or_default());
            assert_eq!(Message::decoded(&message.encoded()).unwrap(), message);
        }
        assert_eq!(Ready::decoded(&Ready::Failed.encoded()).unwrap(), Ready::Failed);
        assert_eq!(Message::decoded(&Message::Release(77).encoded()).unwrap(), Message::Release(77));
        for odd in [&b""[..], b"\x08", b"\x02abc", b"\x01abc"] {
            let odd = Bytes::from_static(odd);
            assert_eq!(Message::decoded(&odd).unwrap_err().code, EBDMSG);
        }
        assert!(Ready::decoded(&Bytes::from_static(b"\x02")).is_err());
        assert!(Startup::decoded(&Bytes::from_static(b"\x08")).is_err());
    }
}
