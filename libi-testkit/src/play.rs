//! Decides how real processes run a session of `tests/cases/`: which of its calls the public
//! interface has, and when each process waits for which call.
//!
//! Members and the front end take the steps as in the simulator: as many at a time as the session
//! allows, and steps that run alone, alone. The differences are:
//!
//! - hosts are absent, not single members: a host is absent with its leader, and present with all
//!   members otherwise;
//! - only the master communicates with the front end, and without tags;
//! - only the root knows the length of its data.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use libi::{Bytes, CommError, Member, Number, Pending, Rank};
use libi_comm::reduce::Element;
use libi_comm::{Address, Call, Outcome, Reducer};

use crate::cases;
use crate::cases::shape::Placement;
use crate::cases::step::Step;
use crate::cases::transfers::Pattern;
use crate::cases::{Oracle, Session};

/// How long a call that has to succeed may take.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a call.
pub type Answer = Result<Outcome, CommError>;

/// A call that was started.
pub type Started = Box<dyn FnOnce(Duration) -> Answer>;

/// The sessions of a file of cases, as far as real processes can have them.
pub fn sessions(file: &str) -> Vec<Arc<Session>> {
    let (_, text) = cases::FILES.into_iter().find(|(name, _)| *name == file).unwrap_or_default();
    let sessions = cases::sessions(text).unwrap_or_default();
    sessions.into_iter().map(|session| Arc::new(real(session))).collect()
}

fn real(mut session: Session) -> Session {
    let is_there = |host| session.present.iter().any(|rank| host_of(&session, rank.0) == host);
    let present = (0..session.size).filter(|rank| is_there(host_of(&session, *rank)));
    session.present = present.map(Rank).collect();
    for step in &mut session.steps {
        if let Step::P2p { who: Pattern::ToFront | Pattern::FromFront, tags, .. } = step {
            *tags = vec![0];
        }
    }
    session
}

/// The number of hosts of a session.
pub fn hosts(session: &Session) -> u32 {
    session.size.div_ceil(session.shape.per_host)
}

/// The number of the host of a rank.
pub fn host_of(session: &Session, rank: u32) -> u32 {
    match session.shape.placement {
        Placement::Blocks => rank / session.shape.per_host,
        Placement::Cyclic => rank % hosts(session),
    }
}

/// A process that can make calls.
pub trait Caller {
    fn address(&self) -> Address;
    /// Starts a call. `None` if this process cannot make it.
    fn start(&self, call: Call) -> Option<Started>;
}

/// Makes the calls of a process in a session, and passes each result on with its step and its
/// number there.
///
/// # Errors
/// The error of the first result that is refused.
pub fn play(
    session: &Session,
    caller: &impl Caller,
    timeout: Duration,
    mut check: impl FnMut(u32, usize, Answer) -> Result<(), String>,
) -> Result<(), String> {
    let mut open = VecDeque::<(u32, Vec<(usize, Started)>)>::new();
    let mut finish = |open: &mut VecDeque<(u32, Vec<(usize, Started)>)>| {
        let (step, calls) = open.pop_front().unwrap_or_default();
        calls.into_iter().try_for_each(|(nth, call)| check(step, nth, call(timeout)))
    };
    for (step, taken) in (0..).zip(&session.steps) {
        let most = if taken.runs_alone() { 1 } else { session.flight };
        while open.len() >= most {
            finish(&mut open)?;
        }
        let calls = taken.calls(step, session, caller.address()).into_iter().enumerate();
        let start = |(nth, call)| Some((nth, caller.start(own(call, session))?));
        let started: Vec<_> = calls.filter_map(start).collect();
        if !started.is_empty() {
            open.push_back((step, started));
        }
    }
    while !open.is_empty() {
        finish(&mut open)?;
    }
    Ok(())
}

/// The call with keys of its own session: the same processes run several.
fn own(mut call: Call, session: &Session) -> Call {
    if let Call::Put { key, .. } | Call::Get { key, .. } = &mut call {
        *key = format!("{}, {key}", session.name);
    }
    call
}

/// Makes the calls of a process in a session without faults.
///
/// # Errors
/// The first wrong result.
pub fn play_well(session: &Arc<Session>, caller: &impl Caller) -> Result<(), String> {
    let oracle = Oracle::new(Arc::clone(session), None);
    let check = |step: u32, nth, answer: Answer| match answer {
        Ok(outcome) => oracle.check(caller.address(), step, nth, &outcome),
        Err(error) => {
            let who = caller.address();
            Err(format!("{who}, call {nth} of step {step}, {:?}: {error}", session.steps.get(step as usize)))
        }
    };
    play(session, caller, TIMEOUT, check).map_err(|wrong| format!("{}: {wrong}", session.name))
}

fn started<T: 'static>(pending: Pending<T>, read: impl FnOnce(T) -> Outcome + 'static) -> Option<Started> {
    Some(Box::new(move |timeout| pending.wait(timeout).map(read)))
}

impl Caller for Member {
    fn address(&self) -> Address {
        Address::Rank(self.rank())
    }

    fn start(&self, call: Call) -> Option<Started> {
        let done = |()| Outcome::Done;
        let found = Outcome::Found;
        match call {
            Call::Barrier => started(self.barrier(), done),
            Call::Fence => started(self.fence(), done),
            Call::Broadcast { root, data, .. } => started(self.broadcast(root, data), Outcome::Data),
            Call::Gather { root, data, equal } => {
                let gather = if equal { self.gather_equal(root, data) } else { self.gather(root, data) };
                started(gather, |parts| Outcome::Parts(parts.unwrap_or_default()))
            }
            Call::Scatter { root, parts, .. } => started(self.scatter(root, parts), Outcome::Data),
            Call::AllGather { data, equal: true } => started(self.allgather_equal(data), Outcome::Parts),
            Call::AllGather { data, .. } => started(self.allgather(data), Outcome::Parts),
            Call::AllToAll { parts, equal: true } => started(self.alltoall(parts), Outcome::Parts),
            Call::AllToAll { parts, .. } => started(self.alltoallv(parts), Outcome::Parts),
            Call::Reduce { to, data, reducer } => reduce(self, to, data, reducer),
            Call::Scan { inclusive, data, reducer } => scan(self, inclusive, data, reducer),
            Call::Ring { count, left, right } => started(self.ring(count, left, right), Outcome::Ring),
            Call::Send { to: Address::Rank(to), tag, data } => started(self.send_to(to, tag, data), done),
            Call::Send { to: Address::FrontEnd, data, .. } if self.is_master() => {
                started(self.send(data), done)
            }
            Call::Send { to: Address::FrontEnd, .. } => None,
            Call::Receive { from: Address::Rank(from), tag } => {
                started(self.recv_from(from, tag), Outcome::Data)
            }
            Call::Receive { from: Address::FrontEnd, .. } if self.is_master() => {
                started(self.recv(), Outcome::Data)
            }
            Call::Receive { from: Address::FrontEnd, .. } | Call::Abort(_) => None,
            Call::Put { key, value, scope } => started(self.put(key, value, scope), done),
            Call::Get { key, wait: true } => started(self.get(key), move |value| found(Some(value))),
            Call::Get { key, .. } => started(self.find(key), found),
        }
    }
}

/// The calls of a front end.
impl Caller for libi::Session {
    fn address(&self) -> Address {
        Address::FrontEnd
    }

    fn start(&self, call: Call) -> Option<Started> {
        match call {
            Call::Send { to: Address::Rank(Rank(0)), data, .. } => {
                started(self.send(data), |()| Outcome::Done)
            }
            Call::Receive { from: Address::Rank(Rank(0)), .. } => started(self.recv(), Outcome::Data),
            _ => None,
        }
    }
}

/// The members whose values are combined, and which get the result.
#[derive(Clone, Copy)]
enum Of {
    AllAt(Rank),
    All,
    UpTo,
    Before,
}

fn reduce(member: &Member, to: Option<Rank>, data: Bytes, reducer: Reducer) -> Option<Started> {
    combine(member, to.map_or(Of::All, Of::AllAt), data, reducer)
}

fn scan(member: &Member, inclusive: bool, data: Bytes, reducer: Reducer) -> Option<Started> {
    combine(member, if inclusive { Of::UpTo } else { Of::Before }, data, reducer)
}

fn combine(member: &Member, of: Of, data: Bytes, reducer: Reducer) -> Option<Started> {
    let combined = |data: Option<Bytes>| data.map_or(Outcome::Done, Outcome::Data);
    macro_rules! numbers {
        ($op:ident, $type:ty) => {
            numbers::<$type, _, { size_of::<$type>() }>(
                member,
                of,
                &data,
                $op,
                <$type>::from_ne_bytes,
                <$type>::to_ne_bytes,
            )
        };
    }
    match reducer {
        Reducer::Custom(function) => {
            let function = move |into: &mut Vec<u8>, other: &[u8]| function(into, other);
            match of {
                Of::AllAt(root) => started(member.reduce_by(root, data, function), combined),
                Of::All => started(member.allreduce_by(data, function), Outcome::Data),
                Of::UpTo => started(member.scan_by(data, function), Outcome::Data),
                Of::Before => started(member.exscan_by(data, function), combined),
            }
        }
        Reducer::Elements(op, Element::U8) => numbers!(op, u8),
        Reducer::Elements(op, Element::I32) => numbers!(op, i32),
        Reducer::Elements(op, Element::U32) => numbers!(op, u32),
        Reducer::Elements(op, Element::I64) => numbers!(op, i64),
        Reducer::Elements(op, Element::U64) => numbers!(op, u64),
        Reducer::Elements(op, Element::F32) => numbers!(op, f32),
        Reducer::Elements(op, Element::F64) => numbers!(op, f64),
        Reducer::Elements(_, element) => panic!("unknown element type {element:?}"),
    }
}

/// A reduction of numbers, which are bytes to the oracle.
fn numbers<T: Number + 'static, W: Fn(T) -> [u8; SIZE] + 'static, const SIZE: usize>(
    member: &Member,
    of: Of,
    data: &[u8],
    op: libi::Op,
    read: impl Fn([u8; SIZE]) -> T,
    write: W,
) -> Option<Started> {
    let numbers: Vec<T> = data.chunks(SIZE).filter_map(|bytes| Some(read(bytes.try_into().ok()?))).collect();
    let written = move |numbers: Vec<T>| Outcome::Data(numbers.into_iter().flat_map(&write).collect());
    match of {
        Of::AllAt(root) => {
            started(member.reduce(root, &numbers, op), move |got| got.map_or(Outcome::Done, written))
        }
        Of::All => started(member.allreduce(&numbers, op), written),
        Of::UpTo => started(member.scan(&numbers, op), written),
        Of::Before => started(member.exscan(&numbers, op), move |got| got.map_or(Outcome::Done, written)),
    }
}
