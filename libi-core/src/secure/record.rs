//! Records: how bytes travel on an encrypted link, each record encrypted under its number.
//!
//! [`Sealer`] copies its input once, out of buffers that other links may need as well, and encrypts
//! the copy in place. [`Opener`] decrypts a record in the piece in which it arrived; only a record
//! that is split between pieces is assembled first.

use alloc::vec::Vec;
use core::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::RecordFault;
use super::cipher::{DirectionKey, TAG_LEN};

/// The most plaintext bytes in one record. A relay can pass bytes on only when their record is
/// complete, and this much fits into the nearest cache during decryption; records four times as
/// long are hardly faster.
pub const MAX_PLAINTEXT: usize = 16 * 1024;

/// The most ciphertext bytes in one record: the plaintext and its tag.
pub const MAX_CIPHERTEXT: usize = MAX_PLAINTEXT + TAG_LEN;

/// No record is empty: a peer could otherwise cause work without sending anything.
pub(super) const MIN_CIPHERTEXT: usize = 1 + TAG_LEN;

const LENGTH_LEN: usize = 2;

/// The sending half of an encrypted link. Its output has to be sent completely and in order.
pub struct Sealer {
    key: DirectionKey,
}

/// The receiving half of an encrypted link.
pub struct Opener {
    state: OpenerState,
    /// A record that is split between pieces, with its length field. Empty when there is none.
    split: Vec<u8>,
    /// Whether `split` was handed out, and has to be cleared at the next step.
    handed_out: bool,
}

enum OpenerState {
    Alive(DirectionKey),
    Dead(RecordFault),
}

impl Sealer {
    pub(super) const fn new(key: DirectionKey) -> Self {
        Self { key }
    }

    /// Encrypts `parts`, as if they were one slice, and appends the records to `out`.
    ///
    /// With several parts, a frame's header, its payload and further frames share a record without
    /// being copied together first. Empty input makes no record.
    ///
    /// # Errors
    /// The key has too few nonces left. Nothing is appended then, nor by any later call.
    pub fn seal(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), RecordFault> {
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        let records = left.div_ceil(MAX_PLAINTEXT);
        self.key.reserve(records as u64)?;
        out.reserve(left + records * (LENGTH_LEN + TAG_LEN));
        let mut parts = parts.iter().copied();
        let mut part: &[u8] = &[];
        while left > 0 {
            let piece = left.min(MAX_PLAINTEXT);
            left -= piece;
            // At most LONGEST_BOX, which two bytes hold.
            out.extend_from_slice(&((piece + TAG_LEN) as u16).to_le_bytes());
            let start = out.len();
            while out.len() < start + piece {
                match part.split_off(..part.len().min(start + piece - out.len())) {
                    Some(front) if !front.is_empty() => out.extend_from_slice(front),
                    // There is a next part: `left` is the sum of all lengths.
                    _ => part = parts.next().unwrap_or_default(),
                }
            }
            let tag = self.key.seal(&mut out[start..])?;
            out.extend_from_slice(&tag);
        }
        Ok(())
    }

    /// Skips to a later nonce, for tests of the last ones.
    #[cfg(test)]
    pub(super) const fn skip_to(&mut self, nonce: u64) {
        self.key.skip_to(nonce);
    }
}

impl Opener {
    pub(super) const fn new(key: DirectionKey) -> Self {
        Self { state: OpenerState::Alive(key), split: Vec::new(), handed_out: false }
    }

    /// Takes the next record off the front of `input` and returns its plaintext, which is never
    /// empty; `None` when `input` is used up. The plaintext lies in `input` or in this value, and
    /// is valid until the next step.
    ///
    /// # Errors
    /// The next bytes are not the next record. Every later call returns the same error.
    pub fn step<'s, 'i: 's>(&'s mut self, input: &mut &'i mut [u8]) -> Result<Option<&'s [u8]>, RecordFault> {
        if core::mem::take(&mut self.handed_out) {
            self.split.clear();
        }
        let key = match &mut self.state {
            OpenerState::Alive(key) => key,
            OpenerState::Dead(fault) => return Err(*fault),
        };
        let opened = match next_box(&mut self.split, input, key.next()) {
            Ok(Some(sealed)) => {
                self.handed_out = sealed.was_split;
                key.open(sealed.bytes).map(|plain| Some(&*plain))
            }
            Ok(None) => Ok(None),
            Err(fault) => Err(fault),
        };
        opened.inspect_err(|fault| self.state = OpenerState::Dead(*fault))
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// It ended inside a record, or an earlier step failed.
    pub fn end(self) -> Result<(), RecordFault> {
        match &self.state {
            OpenerState::Dead(fault) => Err(*fault),
            OpenerState::Alive(_) if self.handed_out || self.split.is_empty() => Ok(()),
            OpenerState::Alive(key) => Err(RecordFault::Cut { record: key.next(), have: self.split.len() }),
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut open = f.debug_struct("Opener");
        match &self.state {
            OpenerState::Alive(_) => open.finish_non_exhaustive(),
            OpenerState::Dead(fault) => open.field("dead", fault).finish_non_exhaustive(),
        }
    }
}

impl ZeroizeOnDrop for Sealer {}

impl Drop for Opener {
    fn drop(&mut self) {
        self.split.zeroize();
    }
}

impl ZeroizeOnDrop for Opener {}

/// A complete ciphertext.
struct Sealed<'a> {
    bytes: &'a mut [u8],
    was_split: bool,
}

/// Takes the next ciphertext off the front of `input`; an incomplete one goes to `split`. A wrong
/// length is rejected as soon as it is complete, before memory is reserved.
fn next_box<'s, 'i: 's>(
    split: &'s mut Vec<u8>,
    input: &mut &'i mut [u8],
    record: u64,
) -> Result<Option<Sealed<'s>>, RecordFault> {
    if split.is_empty()
        && let Some(&length) = input.first_chunk()
    {
        let whole = LENGTH_LEN + box_length(length, record)?;
        if let Some(bytes) = input.split_off_mut(..whole) {
            return Ok(Some(Sealed { bytes: &mut bytes[LENGTH_LEN..], was_split: false }));
        }
    }
    gather(split, input, LENGTH_LEN);
    let Some(&length) = split.first_chunk() else {
        return Ok(None);
    };
    let whole = LENGTH_LEN + box_length(length, record)?;
    gather(split, input, whole);
    let complete = split.len() == whole;
    Ok(complete.then_some(Sealed { bytes: &mut split[LENGTH_LEN..], was_split: true }))
}

fn box_length(bytes: [u8; LENGTH_LEN], record: u64) -> Result<usize, RecordFault> {
    let length = usize::from(u16::from_le_bytes(bytes));
    if (MIN_CIPHERTEXT..=MAX_CIPHERTEXT).contains(&length) {
        Ok(length)
    } else {
        Err(RecordFault::Length { record, length })
    }
}

/// Moves bytes from `input` to `split` until that has `wanted` bytes.
fn gather(split: &mut Vec<u8>, input: &mut &mut [u8], wanted: usize) {
    let missing = wanted.saturating_sub(split.len());
    let most = missing.min(input.len());
    if let Some(front) = input.split_off_mut(..most) {
        // Reserves for the longest record at once: growing would leave plaintext in freed memory.
        split.reserve_exact(LENGTH_LEN + MAX_CIPHERTEXT - split.len());
        split.extend_from_slice(front);
    }
}

#[cfg(test)]
mod tests;
