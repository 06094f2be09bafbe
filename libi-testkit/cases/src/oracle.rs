//! Decides the expected result of each call by a serial computation of what members do together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use libi_comm::reduce::{Element, Op};
use libi_comm::{Address, Bytes, Outcome, RingPosition};
use libi_core::ids::Rank;

use super::case::Session;
use super::data::{ALL, DataId, Lengths};
use super::step::{ReduceBy, Step, ring_count, ring_part};
use super::transfers::Transfer;

/// Knows the expected results of the calls of a session.
#[derive(Debug)]
pub struct Oracle {
    pub session: Arc<Session>,
    /// The order of the members in a ring, if it is known.
    ring: Option<Vec<Rank>>,
    /// The results of reductions, by step.
    folded: Mutex<BTreeMap<u32, Bytes>>,
    /// The results of prefix reductions, by step: of the first members up to each.
    prefixes: Mutex<BTreeMap<u32, Vec<Bytes>>>,
}

impl Oracle {
    pub fn new(session: Arc<Session>, ring: Option<Vec<Rank>>) -> Self {
        Self { session, ring, folded: Mutex::default(), prefixes: Mutex::default() }
    }

    /// What is expected of calls without these members.
    #[must_use]
    pub fn without(&self, missing: &[Rank]) -> Self {
        let is_there = |rank: &Rank| !missing.contains(rank);
        let mut session = Session::clone(&self.session);
        session.present.retain(is_there);
        let ring = self.ring.clone().map(|ring| ring.into_iter().filter(is_there).collect());
        Self::new(Arc::new(session), ring)
    }

    /// Compares the outcome of a call with the expected one. `call` is its number among the calls
    /// of a process at a step.
    pub fn check(&self, who: Address, step: u32, call: usize, outcome: &Outcome) -> Result<(), String> {
        let nothing = || format!("{who} calls nothing at step {step}");
        let at = self.session.steps.get(step as usize).ok_or_else(nothing)?;
        if let (Step::Ring { lengths }, None) = (at, &self.ring) {
            return self.is_some_place(step, *lengths, outcome);
        }
        let expected = self.expected(at, who, step, call).ok_or_else(nothing)?;
        if expected == *outcome {
            return Ok(());
        }
        Err(format!(
            "{who}, call {call} of step {step}, {at:?}: {} instead of {}",
            Short(outcome),
            Short(&expected)
        ))
    }

    fn expected(&self, at: &Step, who: Address, step: u32, call: usize) -> Option<Outcome> {
        let session = &*self.session;
        match at {
            Step::P2p { lengths, .. } => Some(match at.transfer(step, session, who, call)? {
                Transfer::Sent { .. } => Outcome::Done,
                Transfer::Expected { id, .. } => Outcome::Data(id.bytes(lengths.of(id.from, id.nth))),
            }),
            Step::Put { .. } => Some(Outcome::Done),
            Step::Get { of, .. } => {
                let id = *at.asked(session, who).get(call)?;
                let Step::Put { lengths, .. } = session.steps.get(*of as usize)? else { return None };
                let is_there = session.has(Rank(id.from));
                Some(Outcome::Found(is_there.then(|| id.bytes(lengths.of(id.from, id.nth)))))
            }
            _ => {
                let Address::Rank(me) = who else { return None };
                self.collective(at, me, step)
            }
        }
    }

    fn collective(&self, at: &Step, me: Rank, step: u32) -> Option<Outcome> {
        let all = |from: Rank, lengths: Lengths| DataId::all(step, from.0).bytes(lengths.of(from.0, 0));
        let one = |from: Rank, to: Rank, lengths: Lengths| {
            DataId::one(step, from.0, to.0).bytes(lengths.of(from.0, to.0))
        };
        Some(match *at {
            Step::Barrier | Step::Fence => Outcome::Done,
            Step::Broadcast { root, lengths, .. } => Outcome::Data(all(root, lengths)),
            Step::Gather { root, .. } if root != me => Outcome::Parts(Vec::new()),
            Step::Gather { lengths, .. } | Step::AllGather { lengths } => {
                self.parts(|from| all(from, lengths))
            }
            Step::Scatter { root, lengths, .. } => Outcome::Data(one(root, me, lengths)),
            Step::AllToAll { lengths } => self.parts(|from| one(from, me, lengths)),
            Step::Reduce { to: Some(to), .. } if to != me => Outcome::Done,
            Step::Reduce { by, count, .. } => Outcome::Data(self.folded(step, by, count)),
            Step::Scan { inclusive, by, count } => {
                let at = self.session.present.binary_search(&me).ok()? + usize::from(inclusive);
                at.checked_sub(1)
                    .map_or(Outcome::Done, |last| Outcome::Data(self.prefix(step, by, count, last)))
            }
            Step::Ring { lengths } => Outcome::Ring(self.place(me, step, lengths)?),
            Step::P2p { .. } | Step::Put { .. } | Step::Get { .. } => return None,
        })
    }

    /// A part for each rank, empty for absent ones.
    fn parts(&self, of: impl Fn(Rank) -> Bytes) -> Outcome {
        let part = |rank| if self.session.has(rank) { of(rank) } else { Bytes::new() };
        Outcome::Parts((0..self.session.size).map(Rank).map(part).collect())
    }

    /// The values of all members combined in the order of ranks.
    fn folded(&self, step: u32, by: ReduceBy, count: usize) -> Bytes {
        let mut known = self.folded.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let reducer = || {
            let mut values = self.session.present.iter().map(|rank| by.value(step, *rank, count));
            let mut result = Vec::from(values.next().unwrap_or_default());
            values.for_each(|value| append(by, &mut result, &value));
            result.into()
        };
        known.entry(step).or_insert_with(reducer).clone()
    }

    /// The values of the first members combined in the order of ranks, up to the one at `last`.
    fn prefix(&self, step: u32, by: ReduceBy, count: usize, last: usize) -> Bytes {
        let mut known = self.prefixes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let prefixes = || {
            let mut result: Option<Vec<u8>> = None;
            let values = self.session.present.iter().map(|rank| by.value(step, *rank, count));
            let prefix = |value: Bytes| {
                match &mut result {
                    None => result = Some(value.into()),
                    Some(result) => append(by, result, &value),
                }
                Bytes::from(result.clone().unwrap_or_default())
            };
            values.map(prefix).collect()
        };
        known.entry(step).or_insert_with(prefixes)[last].clone()
    }

    fn place(&self, me: Rank, step: u32, lengths: Lengths) -> Option<RingPosition> {
        let ring = self.ring.as_ref()?;
        let at = ring.iter().position(|rank| *rank == me)?;
        let left = ring[at.checked_sub(1).unwrap_or(ring.len() - 1)];
        let right = ring[(at + 1) % ring.len()];
        Some(RingPosition {
            rank: at as u32,
            size: ring.len() as u32,
            before: ring[..at].iter().copied().map(ring_count).sum(),
            left: ring_part(step, left, 1, lengths),
            right: ring_part(step, right, 0, lengths),
        })
    }

    /// Whether this can be a position in a ring whose order is not known.
    fn is_some_place(&self, step: u32, lengths: Lengths, outcome: &Outcome) -> Result<(), String> {
        let Outcome::Ring(place) = outcome else { return Err(format!("{} is no place", Short(outcome))) };
        let present = &self.session.present;
        let has =
            |nth: u32, part: &Bytes| present.iter().any(|rank| ring_part(step, *rank, nth, lengths) == part);
        let right = place.size as usize == present.len() && place.rank < place.size;
        let before = u64::from(place.rank)..=u64::from(place.rank) * 5;
        if right && before.contains(&place.before) && has(1, &place.left) && has(0, &place.right) {
            return Ok(());
        }
        Err(format!("step {step}: no member can have this position in the ring: {}", Short(outcome)))
    }
}

/// Combines a value with that of the members after it.
fn append(by: ReduceBy, into: &mut Vec<u8>, other: &[u8]) {
    match by {
        ReduceBy::Elements(op, element) => combine(op, element, into, other),
        ReduceBy::CustomFn(own) => own.combine(into, other),
    }
}

/// Combines two arrays of numbers into the first.
fn combine(op: Op, element: Element, into: &mut [u8], other: &[u8]) {
    // Computed in a type that holds all results. Its lowest bytes are right for sums that wrap around, too.
    macro_rules! each {
        ($number:ty, $compute:ident) => {
            for (a, b) in into.as_chunks_mut().0.iter_mut().zip(other.as_chunks().0) {
                let [x, y] = [*a, *b].map(<$number>::from_ne_bytes);
                *a = ($compute(op, x.into(), y.into()) as $number).to_ne_bytes();
            }
        };
    }
    match element {
        Element::F32 => each!(f32, float),
        Element::F64 => each!(f64, float),
        Element::I32 => each!(i32, integer),
        Element::I64 => each!(i64, integer),
        Element::U8 => each!(u8, integer),
        Element::U32 => each!(u32, integer),
        Element::U64 => each!(u64, integer),
        other => panic!("unknown to the oracle: {other:?}"),
    }
}

fn integer(op: Op, x: i128, y: i128) -> i128 {
    match op {
        Op::Sum => x.wrapping_add(y),
        Op::Min => x.min(y),
        Op::Max => x.max(y),
        Op::And => x & y,
        Op::Or => x | y,
        other => panic!("unknown to the oracle: {other:?}"),
    }
}

fn float(op: Op, x: f64, y: f64) -> f64 {
    match op {
        Op::Min if y < x || x.is_nan() => y,
        Op::Max if y > x || x.is_nan() => y,
        Op::Sum => x + y,
        _ => x,
    }
}

/// An outcome of any length, in short.
struct Short<'a>(&'a Outcome);

impl std::fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digest = |bytes: &Bytes| {
            let sum = bytes.iter().fold(ALL, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
            format!("{} bytes {:02x?}… ({sum:08x})", bytes.len(), &bytes[..bytes.len().min(8)])
        };
        match self.0 {
            Outcome::Data(bytes) => f.write_str(&digest(bytes)),
            Outcome::Found(Some(bytes)) => write!(f, "found {}", digest(bytes)),
            Outcome::Parts(parts) => {
                write!(f, "{} parts", parts.len())?;
                parts.iter().take(5).try_for_each(|part| write!(f, ", {}", digest(part)))
            }
            other => write!(f, "{other:?}"),
        }
    }
}
