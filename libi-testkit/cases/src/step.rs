//! Decides which process makes which calls at a step of a program.

use libi_comm::reduce::{Element, Op};
use libi_comm::{Address, Bytes, Call, KeyScope, Reducer};
use libi_core::ids::Rank;
use serde::Deserialize;

use super::case::Session;
use super::data::{DataId, Lengths, number};
use super::transfers::{Pattern, Transfer, Transfers};

/// A step of a program: all members or some of them make one or several calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Barrier,
    /// `known`: the other members know the length.
    Broadcast {
        root: Rank,
        lengths: Lengths,
        known: bool,
    },
    Gather {
        root: Rank,
        lengths: Lengths,
    },
    Scatter {
        root: Rank,
        lengths: Lengths,
        known: bool,
    },
    AllGather {
        lengths: Lengths,
    },
    AllToAll {
        lengths: Lengths,
    },
    Reduce {
        to: Option<Rank>,
        by: ReduceBy,
        count: usize,
    },
    Scan {
        inclusive: bool,
        by: ReduceBy,
        count: usize,
    },
    Ring {
        lengths: Lengths,
    },
    Fence,
    P2p {
        who: Pattern,
        tags: Vec<u32>,
        count: u32,
        lengths: Lengths,
    },
    Put {
        scope: KeyScope,
        count: u32,
        lengths: Lengths,
    },
    /// Looks up what was put at step `of`, which may be a later one if the lookups wait.
    Get {
        of: u32,
        owner: KeyOwner,
        wait: bool,
    },
}

/// How values are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceBy {
    Elements(Op, Element),
    CustomFn(CustomFn),
}

/// Functions that are associative and not commutative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CustomFn {
    /// Concatenation of texts.
    Concat,
    /// Products of 2×2 matrices of bytes.
    Matrix,
    /// The left operand.
    Left,
    /// The right operand.
    Right,
}

/// Whose keys are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyOwner {
    /// The next rank's.
    Next,
    /// One's own.
    Own,
    /// The first rank's.
    First,
    /// All ranks'.
    All,
    /// Keys that there was no put of.
    Missing,
}

/// The length in bytes of an element of [`CustomFn::Matrix`].
pub const MATRIX: usize = 4;

impl Step {
    /// Whether all members take part in the same order.
    pub fn is_collective(&self) -> bool {
        !matches!(self, Self::P2p { .. } | Self::Put { .. } | Self::Get { .. })
    }

    /// Whether all earlier steps must be over when it begins.
    pub fn runs_alone(&self) -> bool {
        matches!(self, Self::Get { wait: false, .. })
    }

    /// The calls of a process at this step.
    pub fn calls(&self, step: u32, session: &Session, who: Address) -> Vec<Call> {
        match self {
            Self::P2p { who: pattern, tags, count, lengths } => {
                let transfers = Transfers::of(*pattern, tags, *count, step, session, who);
                let transfers = (0..transfers.len()).filter_map(|nth| transfers.nth(nth));
                transfers.map(|transfer| transfer.call(*lengths)).collect()
            }
            Self::Put { scope, .. } => {
                let put = |(key, value)| Call::Put { key, value, scope: *scope };
                self.puts(step, session, who).map(put).collect()
            }
            Self::Get { of, wait, .. } => {
                let keys = self.asked(session, who).into_iter().map(|id| key(*of, id));
                keys.map(|key| Call::Get { key, wait: *wait }).collect()
            }
            _ => match who {
                Address::Rank(me) => self.collective(step, session, me).into_iter().collect(),
                Address::FrontEnd => Vec::new(),
            },
        }
    }

    fn collective(&self, step: u32, session: &Session, me: Rank) -> Option<Call> {
        let mine = |lengths: Lengths| DataId::all(step, me.0).bytes(lengths.of(me.0, 0));
        let parts = |lengths: Lengths| {
            let part = |to| DataId::one(step, me.0, to).bytes(lengths.of(me.0, to));
            (0..session.size).map(part).collect()
        };
        Some(match *self {
            Self::Barrier => Call::Barrier,
            Self::Broadcast { root, lengths, known } => Call::Broadcast {
                root,
                data: (me == root).then(|| mine(lengths)),
                length: (known || me == root).then(|| lengths.of(root.0, 0) as u64),
            },
            Self::Gather { root, lengths } => {
                Call::Gather { root, data: mine(lengths), equal: lengths.equal().is_some() }
            }
            Self::Scatter { root, lengths, known } => Call::Scatter {
                root,
                parts: (me == root).then(|| parts(lengths)),
                length: lengths.equal().filter(|_| known).map(|length| length as u64),
            },
            Self::AllGather { lengths } => {
                Call::AllGather { data: mine(lengths), equal: lengths.equal().is_some() }
            }
            Self::AllToAll { lengths } => {
                Call::AllToAll { parts: parts(lengths), equal: lengths.equal().is_some() }
            }
            Self::Reduce { to, by, count } => {
                Call::Reduce { to, data: by.value(step, me, count), reducer: by.fold() }
            }
            Self::Scan { inclusive, by, count } => {
                Call::Scan { inclusive, data: by.value(step, me, count), reducer: by.fold() }
            }
            Self::Ring { lengths } => {
                let [left, right] = [0, 1].map(|nth| ring_part(step, me, nth, lengths));
                Call::Ring { count: ring_count(me), left, right }
            }
            Self::Fence => Call::Fence,
            Self::P2p { .. } | Self::Put { .. } | Self::Get { .. } => return None,
        })
    }

    /// The message of one call of a process.
    pub(super) fn transfer(
        &self,
        step: u32,
        session: &Session,
        who: Address,
        call: usize,
    ) -> Option<Transfer> {
        let Self::P2p { who: pattern, tags, count, .. } = self else { return None };
        Transfers::of(*pattern, tags, *count, step, session, who).nth(call)
    }

    /// The process at the other end of the message of one call of a process.
    pub fn peer(&self, step: u32, session: &Session, who: Address, call: usize) -> Option<Address> {
        match self.transfer(step, session, who, call)? {
            Transfer::Sent { to, .. } => Some(to),
            Transfer::Expected { from, .. } => Some(from),
        }
    }

    fn puts(&self, step: u32, session: &Session, who: Address) -> impl Iterator<Item = (String, Bytes)> {
        let (count, lengths) = match (self, who) {
            (Self::Put { count, lengths, .. }, Address::Rank(rank)) if session.has(rank) => {
                (*count, *lengths)
            }
            _ => (0, Lengths::Equal(0)),
        };
        let id = move |nth| DataId { nth, ..DataId::all(step, number(who)) };
        (0..count).map(move |nth| (key(step, id(nth)), id(nth).bytes(lengths.of(number(who), nth))))
    }

    /// The keys that a process looks up.
    pub fn asked(&self, session: &Session, who: Address) -> Vec<DataId> {
        let (Self::Get { of, owner, .. }, Address::Rank(me)) = (self, who) else { return Vec::new() };
        let Some(Self::Put { count, .. }) = session.steps.get(*of as usize) else { return Vec::new() };
        let owner = match owner {
            KeyOwner::Next => session.next(me).into_iter().collect(),
            KeyOwner::Own => vec![me],
            KeyOwner::First => session.present.first().copied().into_iter().collect(),
            KeyOwner::All => session.present.clone(),
            KeyOwner::Missing => vec![Rank(session.size + 7)],
        };
        let id = |owner: Rank| (0..*count).map(move |nth| DataId { nth, ..DataId::all(*of, owner.0) });
        owner.into_iter().flat_map(id).collect()
    }
}

fn key(step: u32, id: DataId) -> String {
    format!("step {step}, rank {}, {}", id.from, id.nth)
}

/// What a member has for its left neighbor (0) or its right one (1).
pub(super) fn ring_part(step: u32, me: Rank, nth: u32, lengths: Lengths) -> Bytes {
    DataId { nth, ..DataId::all(step, me.0) }.bytes(lengths.of(me.0, nth))
}

/// The weight of a member in rings.
pub(super) fn ring_count(me: Rank) -> u64 {
    1 + u64::from(me.0 % 5)
}

impl ReduceBy {
    /// A member's value.
    pub fn value(self, step: u32, me: Rank, count: usize) -> Bytes {
        let id = DataId::all(step, me.0);
        match self {
            Self::Elements(op, element) => id.array(op, element, count),
            Self::CustomFn(CustomFn::Concat) => format!("<{}{}>", me.0, "+".repeat(count)).into(),
            Self::CustomFn(CustomFn::Matrix) => id.bytes(count * MATRIX),
            Self::CustomFn(CustomFn::Left | CustomFn::Right) => id.bytes(count),
        }
    }

    fn fold(self) -> Reducer {
        match self {
            Self::Elements(op, element) => Reducer::Elements(op, element),
            Self::CustomFn(own) => Reducer::by(move |into, other| own.combine(into, other)),
        }
    }
}

impl CustomFn {
    /// Combines both values into the left one.
    pub fn combine(self, into: &mut Vec<u8>, other: &[u8]) {
        match self {
            Self::Concat => into.extend_from_slice(other),
            Self::Matrix => {
                for (a, b) in into.chunks_exact_mut(MATRIX).zip(other.chunks_exact(MATRIX)) {
                    let product = |row: usize, column: usize| {
                        let [x, y] =
                            [a[row * 2].wrapping_mul(b[column]), a[row * 2 + 1].wrapping_mul(b[2 + column])];
                        x.wrapping_add(y)
                    };
                    let both = [product(0, 0), product(0, 1), product(1, 0), product(1, 1)];
                    a.copy_from_slice(&both);
                }
            }
            Self::Left => {}
            Self::Right => {
                into.clear();
                into.extend_from_slice(other);
            }
        }
    }
}
