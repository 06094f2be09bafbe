//! Decides which bytes each process has for each other at a step. Every process can compute all of
//! them.

use libi_comm::Address;
use libi_comm::Bytes;
use libi_comm::reduce::{Element, Op};
use serde::Deserialize;

/// The receiver of data that are for all.
pub const ALL: u32 = u32::MAX;
/// The number of the front end, in place of a rank.
pub const FRONT: u32 = u32::MAX - 1;

/// The number of a process.
pub fn number(who: Address) -> u32 {
    match who {
        Address::FrontEnd => FRONT,
        Address::Rank(rank) => rank.0,
    }
}

/// What bytes are for: the seed of their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataId {
    /// The step of the program.
    pub step: u32,
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// The number among several.
    pub nth: u32,
}

impl DataId {
    /// The data of a process for all at a step.
    pub const fn all(step: u32, from: u32) -> Self {
        Self { step, from, to: ALL, nth: 0 }
    }

    /// The data of a process for another at a step.
    pub const fn one(step: u32, from: u32, to: u32) -> Self {
        Self { step, from, to, nth: 0 }
    }

    fn numbers(self) -> Numbers {
        let mut state = 0xcbf2_9ce4_8422_2325_u64;
        for word in [self.step, self.from, self.to, self.nth] {
            state = (state ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
        }
        Numbers(state)
    }

    /// The bytes themselves.
    pub fn bytes(self, length: usize) -> Bytes {
        let mut bytes = vec![0; length];
        // Eight bytes at a time: some data have megabytes, and tests are built without
        // optimization.
        for (part, number) in bytes.chunks_mut(8).zip(self.numbers()) {
            part.copy_from_slice(&number.to_le_bytes()[..part.len()]);
        }
        bytes.into()
    }

    /// An array that gives the same result in whatever order it is combined. Integers are
    /// arbitrary; floats are small whole numbers, and NaN for some members where that has no
    /// effect.
    pub fn array(self, op: Op, element: Element, count: usize) -> Bytes {
        let nan_counts = op == Op::Sum || self.from.is_multiple_of(2);
        let float = |bits: u64| {
            if bits % 7 == 3 && !nan_counts { f64::NAN } else { f64::from((bits >> 32) as u32 % 201) - 100.0 }
        };
        let size = element.size();
        let mut bytes = vec![0; size * count];
        for (part, bits) in bytes.chunks_exact_mut(size).zip(self.numbers()) {
            match element {
                Element::F32 => part.copy_from_slice(&(float(bits) as f32).to_ne_bytes()),
                Element::F64 => part.copy_from_slice(&float(bits).to_ne_bytes()),
                _ => part.copy_from_slice(&bits.to_le_bytes()[..size]),
            }
        }
        bytes.into()
    }
}

/// splitmix64.
struct Numbers(u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(x ^ (x >> 31))
    }
}

/// The lengths of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Lengths {
    /// All the same.
    Equal(usize),
    /// By a formula.
    By(Formula),
}

/// A formula for lengths that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Formula {
    /// 3 bytes times the sender's rank plus 1 times the receiver's, modulo 97.
    Rising,
    /// 5 bytes from every third rank, nothing from the others.
    Few,
    /// Somewhat less or more than 64 KiB.
    Edges,
    /// 300,001 bytes from rank 2, and 1 byte from every other rank.
    Lone,
}

impl Lengths {
    /// The length of the data of one process for another.
    pub fn of(self, from: u32, to: u32) -> usize {
        match self {
            Self::Equal(length) => length,
            Self::By(Formula::Rising) => (from as usize * 3 + (to as usize & 0xffff)) % 97,
            Self::By(Formula::Few) => {
                if from % 3 == 1 {
                    5
                } else {
                    0
                }
            }
            Self::By(Formula::Edges) => 65_535 + (from as usize + (to as usize & 0xff)) % 3,
            Self::By(Formula::Lone) => {
                if from == 2 {
                    300_001
                } else {
                    1
                }
            }
        }
    }

    /// The length of all data, if they have the same.
    pub fn equal(self) -> Option<usize> {
        match self {
            Self::Equal(length) => Some(length),
            Self::By(_) => None,
        }
    }
}
