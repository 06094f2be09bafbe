//! Decides which bytes somebody has for somebody at a step. Everybody can work out everybody's.

use libi_comm::Address;
use libi_comm::Bytes;
use libi_comm::reduce::{Element, Op};
use serde::Deserialize;

/// In place of a receiver: everybody.
pub const ALL: u32 = u32::MAX;
/// In place of a rank: the front end.
pub const FRONT: u32 = u32::MAX - 1;

/// The number that stands for somebody here.
pub fn number(who: Address) -> u32 {
    match who {
        Address::FrontEnd => FRONT,
        Address::Rank(rank) => rank.0,
    }
}

/// What bytes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataId {
    /// Which step of the program.
    pub step: u32,
    /// Who has them.
    pub from: u32,
    /// Whom they are for.
    pub to: u32,
    /// Which of several.
    pub nth: u32,
}

impl DataId {
    /// What somebody has for all at a step.
    pub const fn all(step: u32, from: u32) -> Self {
        Self { step, from, to: ALL, nth: 0 }
    }

    /// What somebody has for somebody at a step.
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

    /// So many bytes.
    pub fn bytes(self, length: usize) -> Bytes {
        let mut bytes = vec![0; length];
        // Word by word, since some have megabytes, and tests are not compiled to be fast.
        for (part, number) in bytes.chunks_mut(8).zip(self.numbers()) {
            part.copy_from_slice(&number.to_le_bytes()[..part.len()]);
        }
        bytes.into()
    }

    /// An array of so many elements that can be combined in any order with the same result: integers are anything, floats are
    /// small whole numbers, and not a number for some where that does not count.
    pub fn array(self, op: Op, element: Element, count: usize) -> Bytes {
        let nan_counts = op == Op::Sum || self.from.is_multiple_of(2);
        let float = |bits: u64| {
            if bits % 7 == 3 && !nan_counts { f64::NAN } else { f64::from((bits >> 32) as u32 % 201) - 100.0 }
        };
        let numbers = self.numbers().take(count);
        match element {
            Element::F32 => numbers.flat_map(|bits| (float(bits) as f32).to_ne_bytes()).collect(),
            Element::F64 => numbers.flat_map(|bits| float(bits).to_ne_bytes()).collect(),
            integer => numbers.flat_map(|bits| bits.to_le_bytes().into_iter().take(integer.size())).collect(),
        }
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

/// How long what somebody has for somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Lengths {
    /// All the same.
    Equal(usize),
    /// By a formula.
    By(Formula),
}

/// How long what somebody has for somebody is, if that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Formula {
    /// 3 bytes for each rank below, and one for each below the receiver, up to 97 together.
    Rising,
    /// Nothing, but 5 bytes of every third.
    Few,
    /// Somewhat less or more than 64 KiB.
    Edges,
    /// 1 byte, but 300,001 of the one whose rank is 2, or of the only one.
    Lone,
}

impl Lengths {
    /// The length of what one has for another.
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

    /// The length that all have, if they have.
    pub fn equal(self) -> Option<usize> {
        match self {
            Self::Equal(length) => Some(length),
            Self::By(_) => None,
        }
    }
}
