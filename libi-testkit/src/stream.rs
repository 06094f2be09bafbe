//! The command `stream:SEED:STEPS:DIRECTORY`: takes so many random steps, which follow from the
//! seed, while members may be killed, and checks the results when the victims are known.
//!
//! After the last step it makes the file `over-RANK` and waits for the file `gone`, in which the
//! test writes the victims and everything below them. Every call must then have succeeded with the
//! right result, or failed with a true reason:
//!
//! - a collective call: some of the victims are lost;
//! - a message: its other end is lost, and is a victim;
//! - a key: some of the victims are lost, among them the member that put it; or it is not found, if
//!   that member is lost or the fence after the put failed.
//!
//! No call may take longer than its timeout, and in the end exactly the victims are known to be
//! lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libi::{CommError, KeyScope, Member, Rank, Ranks};
use libi_comm::reduce::{Element, Op};
use libi_comm::{Address, Call, Outcome};
use libi_core::sim::rng::Rng;

use crate::cases::data::{Formula, Lengths};
use crate::cases::shape::{Shape, Tree};
use crate::cases::step::{CustomFn, KeyOwner, ReduceBy, Step};
use crate::cases::transfers::Pattern;
use crate::cases::{Oracle, Session};
use crate::play::{Answer, play};

/// How long a call may take whose members are present or lost.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The steps of a session of this size.
pub fn drawn(seed: u64, size: u32, steps: usize) -> Arc<Session> {
    let mut rng = Rng::new(seed);
    let shape = Shape::plain(size, 1, Tree::Flat, seed);
    let flight = [1, 3, 8][rng.below(3) as usize];
    let mut session = Session::new(format!("stream {seed}"), shape, flight);
    while session.steps.len() < steps {
        add_step(&mut session, &mut rng);
    }
    Arc::new(session)
}

fn add_step(session: &mut Session, rng: &mut Rng) {
    let mut draw = |count: u64| rng.below(count) as usize;
    let root = Rank(draw(session.size.into()) as u32);
    let lengths = match draw(8) {
        0 => Lengths::By(Formula::Rising),
        1 => Lengths::Equal(70_000),
        2 => Lengths::By(Formula::Few),
        _ => Lengths::Equal([0, 1, 8, 1_000][draw(4)]),
    };
    let known = false;
    let to = [None, Some(root)][draw(2)];
    let step = match draw(14) {
        0 => Step::Barrier,
        1 | 2 => Step::Broadcast { root, lengths, known },
        3 => Step::Gather { root, lengths },
        4 => Step::Scatter { root, lengths, known },
        5 => Step::AllGather { lengths },
        6 => Step::AllToAll { lengths },
        7 => Step::Reduce { to, by: ReduceBy::Elements(Op::Sum, Element::F64), count: [1, 20_000][draw(2)] },
        8 => Step::Reduce {
            to,
            by: ReduceBy::CustomFn([CustomFn::Concat, CustomFn::Matrix][draw(2)]),
            count: 3,
        },
        9 => Step::Ring { lengths },
        10 | 11 => {
            use Pattern::{All, FromLast, Mirror, Next, ToFirst};
            let who = [Next, Mirror, ToFirst, FromLast, All][draw(5)];
            // A late message of one step must not be received in another.
            let tag = session.steps.len() as u32 * 2;
            Step::P2p { who, tags: vec![tag + 1, tag], count: 2, lengths }
        }
        12 => Step::P2p {
            who: [Pattern::ToFront, Pattern::FromFront][draw(2)],
            tags: vec![0],
            count: 2,
            lengths,
        },
        _ => {
            let of = session.steps.len() as u32;
            let scope = [KeyScope::Replicated, KeyScope::Local][draw(2)];
            let owner = [KeyOwner::Next, KeyOwner::First, KeyOwner::All, KeyOwner::Missing][draw(4)];
            session.steps.extend([Step::Put { scope, count: 1, lengths }, Step::Fence]);
            Step::Get { of, owner, wait: false }
        }
    };
    session.steps.push(step);
}

/// A call that did not end as in a run without faults.
struct Odd {
    step: u32,
    nth: usize,
    answer: Answer,
}

/// Runs the steps. The error names the first wrong result.
pub fn stream(member: &Member, word: &str) -> Result<(), String> {
    let mut words = word.splitn(3, ':');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or("a number is missing");
    let (seed, steps) = (number()?, number()?);
    let directory = Path::new(words.next().ok_or("a directory is missing")?);
    let session = drawn(seed, member.size(), steps as usize);
    let oracle = Oracle::new(Arc::clone(&session), None);
    let me = Address::Rank(member.rank());
    let mut odd = Vec::new();
    let check = |step, nth, answer: Answer| {
        match &answer {
            Ok(outcome) if *outcome != Outcome::Found(None) => return oracle.check(me, step, nth, outcome),
            Ok(outcome) if oracle.check(me, step, nth, outcome).is_ok() => {}
            _ => odd.push(Odd { step, nth, answer }),
        }
        Ok(())
    };
    play(&session, member, TIMEOUT, check)?;
    let failed = |error: std::io::Error| error.to_string();
    std::fs::write(directory.join(format!("over-{}", member.rank().0)), "").map_err(failed)?;
    let file = directory.join("gone");
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let gone: Ranks = text.split_whitespace().filter_map(|rank| rank.parse().ok()).map(Rank).collect();
    let mut peers = Peers { session: &session, who: me, known: BTreeMap::new() };
    let has_failed = |step| odd.iter().any(|odd| odd.step == step && odd.answer.is_err());
    for odd in &odd {
        let step = session.steps.get(odd.step as usize).ok_or("there is no such step")?;
        if !is_justified(odd, step, &mut peers, &gone, has_failed) {
            let Odd { step: number, nth, answer } = odd;
            return Err(format!(
                "{gone} are gone, and call {nth} of step {number}, {step:?}, gives {answer:?}"
            ));
        }
    }
    // The report of a loss may reach this member later than others.
    let deadline = Instant::now() + TIMEOUT;
    while member.lost() != gone {
        if Instant::now() > deadline {
            return Err(format!("{gone} are gone, and {} are known to be", member.lost()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// The other process of each call of a step.
struct Peers<'a> {
    session: &'a Session,
    who: Address,
    /// The results for steps that were asked for; computing them makes all data of the step anew.
    known: BTreeMap<u32, Vec<Option<Rank>>>,
}

impl Peers<'_> {
    fn of(&mut self, odd: &Odd, step: &Step) -> Option<Rank> {
        if let Step::Get { .. } = step {
            return step.asked(self.session, self.who).get(odd.nth).map(|id| Rank(id.from));
        }
        let calls = || step.calls(odd.step, self.session, self.who);
        let peer = |call: Call| match call {
            Call::Send { to: Address::Rank(peer), .. } => Some(peer),
            Call::Receive { from: Address::Rank(peer), .. } => Some(peer),
            _ => None,
        };
        let known = self.known.entry(odd.step).or_insert_with(|| calls().into_iter().map(peer).collect());
        known.get(odd.nth).copied()?
    }
}

fn is_justified(
    odd: &Odd,
    step: &Step,
    peers: &mut Peers<'_>,
    gone: &Ranks,
    has_failed: impl Fn(u32) -> bool,
) -> bool {
    let lost = match &odd.answer {
        Err(CommError::PeerLost { ranks, .. }) => Some(ranks),
        Ok(Outcome::Found(None)) => None,
        _ => return false,
    };
    if lost.is_some_and(|ranks| ranks.is_empty() || !ranks.iter().all(|rank| gone.contains(rank))) {
        return false;
    }
    let is_named = |peer: Option<Rank>| peer.is_some_and(|peer| lost.is_some_and(|lost| lost.contains(peer)));
    match step {
        Step::Get { of, .. } => {
            let owner = peers.of(odd, step);
            let is_gone = owner.is_some_and(|owner| gone.contains(owner));
            // The leader of its host stored the value, and is named.
            is_gone || lost.is_none() && has_failed(of + 1)
        }
        Step::P2p { .. } => is_named(peers.of(odd, step)),
        Step::Put { .. } => false,
        _ => lost.is_some(),
    }
}
