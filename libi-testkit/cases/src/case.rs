//! Decides what a case in `tests/cases/*.toml` means: the sessions that it runs in, and the steps
//! of their programs.
//!
//! A file consists of `[[case]]` tables. A case runs in a session of every combination of
//!
//! - `sizes`: the number of ranks;
//! - `trees`: `"flat"`, `"star"`, `"chain"`, `"binary"`, `"late"`, `"greedy"` (see [`Tree`]);
//!   default flat;
//! - `per_host`: the number of ranks of a host; default 1;
//! - `placement`: `"blocks"`, `"cyclic"` (see [`Placement`]); default blocks;
//! - `absent`: whether some ranks are absent; default no;
//! - `flight`: how many steps of a member may be in progress; default 1.
//!
//! Each of these sessions runs all `ops` of the case in order. An op names a `call`, and stands for
//! one step for every combination of
//!
//! - `roots`: `"first"`, `"middle"`, `"last"`, `"second"`; for `reduce` also `"all"`, which is
//!   allreduce;
//! - `lengths`: bytes, or a formula by which they differ (see [`Formula`]); for `reduce`, `scan` and
//!   `exscan` the number of elements;
//! - `known`: for `broadcast` and `scatter`: whether members other than the root know the length;
//! - `ops` and `elements`: for these three, as in [`Op`] and [`Element`], in lower case;
//! - `own`: for these three, functions of the program (see [`CustomFn`]);
//! - `patterns`: for `p2p`, which process sends to which (see [`Pattern`]); with `tags` and
//!   `count`, the number of messages of each tag;
//! - `scope`: for `kvs`, `"replicated"` or `"local"`; with `count`, how many keys each member puts.
//!
//! A `kvs` op is a sequence: values are put, a fence follows, and `asks` says whose keys are looked
//! up then (see [`KeyOwner`]), once with waiting and once without. `early` keys are looked up
//! before they are put.
//!
//! [`Formula`]: super::data::Formula
//! [`KeyOwner`]: super::step::KeyOwner

use libi_comm::reduce::{Element, Op};
use libi_comm::{KeyScope, Reducer};
use libi_core::ids::Rank;
use serde::Deserialize;

use super::data::Lengths;
use super::shape::{Placement, Shape, Tree};
use super::step::{CustomFn, KeyOwner, ReduceBy, Step};
use super::transfers::Pattern;

/// A session, and the steps that its members take.
#[derive(Clone, Debug)]
pub struct Session {
    /// The name of its case.
    pub name: String,
    pub shape: Shape,
    pub size: u32,
    /// The ranks that are present, ascending.
    pub present: Vec<Rank>,
    /// How many steps of a member may be in progress.
    pub flight: usize,
    pub steps: Vec<Step>,
}

impl Session {
    pub fn new(name: String, shape: Shape, flight: usize) -> Self {
        let present = shape.present();
        Self { name, size: shape.size, present, shape, flight, steps: Vec::new() }
    }

    /// Whether a rank is present.
    pub fn has(&self, rank: Rank) -> bool {
        self.present.binary_search(&rank).is_ok()
    }

    /// The next rank that is present; the first one after the last.
    pub fn next(&self, rank: Rank) -> Option<Rank> {
        let at = self.present.binary_search(&rank).ok()?;
        self.present.get((at + 1) % self.present.len()).copied()
    }

    /// The rank before that one; the last one before the first.
    pub(super) fn previous(&self, rank: Rank) -> Option<Rank> {
        let at = self.present.binary_search(&rank).ok()?;
        self.present.get((at + self.present.len() - 1) % self.present.len()).copied()
    }

    /// The rank that is as far from the end as this one is from the beginning.
    pub(super) fn mirror(&self, rank: Rank) -> Option<Rank> {
        let at = self.present.binary_search(&rank).ok()?;
        self.present.get(self.present.len() - 1 - at).copied()
    }
}

/// The sessions of all cases in a file.
///
/// # Errors
///
/// The text is not a valid file of cases.
pub fn sessions(text: &str) -> Result<Vec<Session>, toml::de::Error> {
    let file: File = toml::from_str(text)?;
    Ok(file.case.iter().flat_map(Case::sessions).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    sizes: Vec<u32>,
    #[serde(default = "flat")]
    trees: Vec<Tree>,
    #[serde(default = "one")]
    per_host: Vec<u32>,
    #[serde(default = "blocks")]
    placement: Vec<Placement>,
    #[serde(default = "no")]
    absent: Vec<bool>,
    #[serde(default = "one")]
    flight: Vec<u32>,
    ops: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    call: Name,
    #[serde(default = "first")]
    roots: Vec<Root>,
    #[serde(default = "eight")]
    lengths: Vec<Lengths>,
    #[serde(default = "no")]
    known: Vec<bool>,
    #[serde(default)]
    ops: Vec<OpName>,
    #[serde(default)]
    elements: Vec<ElementName>,
    #[serde(default)]
    own: Vec<CustomFn>,
    #[serde(default = "next_pattern")]
    patterns: Vec<Pattern>,
    #[serde(default = "zero")]
    tags: Vec<u32>,
    #[serde(default = "single")]
    count: u32,
    #[serde(default = "local_scope")]
    scope: Vec<ScopeName>,
    #[serde(default)]
    asks: Vec<KeyOwner>,
    #[serde(default)]
    early: Vec<KeyOwner>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Barrier,
    Broadcast,
    Gather,
    Scatter,
    AllGather,
    AllToAll,
    Reduce,
    Scan,
    ExScan,
    Ring,
    Fence,
    P2p,
    Kvs,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Root {
    First,
    Second,
    Middle,
    Last,
    All,
}

macro_rules! mirrored {
    ($name:ident of $of:ident: $($variant:ident)*) => {
        #[derive(Clone, Copy, Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum $name { $($variant),* }

        impl From<$name> for $of {
            fn from(name: $name) -> Self {
                match name { $($name::$variant => Self::$variant),* }
            }
        }
    };
}
mirrored!(OpName of Op: Sum Min Max And Or);
mirrored!(ElementName of Element: U8 I32 U32 I64 U64 F32 F64);
mirrored!(ScopeName of KeyScope: Replicated Local);

fn flat() -> Vec<Tree> {
    vec![Tree::Flat]
}
fn blocks() -> Vec<Placement> {
    vec![Placement::Blocks]
}
fn no() -> Vec<bool> {
    vec![false]
}
fn one() -> Vec<u32> {
    vec![1]
}
fn zero() -> Vec<u32> {
    vec![0]
}
const fn single() -> u32 {
    1
}
fn first() -> Vec<Root> {
    vec![Root::First]
}
fn eight() -> Vec<Lengths> {
    vec![Lengths::Equal(8)]
}
fn next_pattern() -> Vec<Pattern> {
    vec![Pattern::Next]
}
fn local_scope() -> Vec<ScopeName> {
    vec![ScopeName::Local]
}

impl Case {
    fn sessions(&self) -> Vec<Session> {
        let mut sessions = Vec::new();
        for &size in &self.sizes {
            for &tree in &self.trees {
                for &per_host in &self.per_host {
                    for &placement in &self.placement {
                        for &absent in &self.absent {
                            let seed = sessions.len() as u64;
                            let shape =
                                Shape { size, per_host, tree, placement, absent, agents: false, seed };
                            sessions.extend(self.flight.iter().map(|flight| self.session(&shape, *flight)));
                        }
                    }
                }
            }
        }
        sessions
    }

    fn session(&self, shape: &Shape, flight: u32) -> Session {
        let name = format!("{}, {} in flight, {shape:?}", self.name, flight);
        let mut session = Session::new(name, shape.clone(), flight as usize);
        for entry in &self.ops {
            entry.add_to(&mut session);
        }
        session
    }
}

impl Root {
    fn of(self, present: &[Rank]) -> Option<Rank> {
        let at = match self {
            Self::First => 0,
            Self::Second => 1,
            Self::Middle => present.len() / 2,
            Self::Last => present.len().saturating_sub(1),
            Self::All => return None,
        };
        present.get(at.min(present.len().saturating_sub(1))).copied()
    }
}

impl Entry {
    /// Adds the steps that the op stands for.
    fn add_to(&self, session: &mut Session) {
        for &lengths in &self.lengths {
            match self.call {
                Name::Barrier => session.steps.push(Step::Barrier),
                Name::Fence => session.steps.push(Step::Fence),
                Name::AllGather => session.steps.push(Step::AllGather { lengths }),
                Name::AllToAll => session.steps.push(Step::AllToAll { lengths }),
                Name::Ring => session.steps.push(Step::Ring { lengths }),
                Name::Broadcast | Name::Gather | Name::Scatter => self.add_rooted(lengths, session),
                Name::Reduce | Name::Scan | Name::ExScan => self.add_reductions(lengths, session),
                Name::P2p => session.steps.extend(self.patterns.iter().map(|who| Step::P2p {
                    who: *who,
                    tags: self.tags.clone(),
                    count: self.count,
                    lengths,
                })),
                Name::Kvs => self.scope.iter().for_each(|scope| self.add_kvs(*scope, lengths, session)),
            }
        }
    }

    fn add_rooted(&self, lengths: Lengths, session: &mut Session) {
        for root in self.roots.iter().filter_map(|root| root.of(&session.present)) {
            let step = |known: &bool| match self.call {
                Name::Broadcast => Step::Broadcast { root, lengths, known: *known },
                Name::Scatter => Step::Scatter { root, lengths, known: *known },
                _ => Step::Gather { root, lengths },
            };
            session.steps.extend(self.known.iter().map(step));
        }
    }

    fn add_reductions(&self, lengths: Lengths, session: &mut Session) {
        let Some(count) = lengths.equal() else { return };
        let elements = |op: &OpName| {
            let op = Op::from(*op);
            self.elements.iter().map(move |element| ReduceBy::Elements(op, Element::from(*element)))
        };
        let own = self.own.iter().map(|own| ReduceBy::CustomFn(*own));
        let exists = |how: &ReduceBy| !matches!(how, ReduceBy::Elements(op, element) if !Reducer::Elements(*op, *element).exists());
        for by in self.ops.iter().flat_map(elements).chain(own).filter(exists) {
            for root in &self.roots {
                session.steps.push(match self.call {
                    Name::Scan => Step::Scan { inclusive: true, by, count },
                    Name::ExScan => Step::Scan { inclusive: false, by, count },
                    _ => Step::Reduce { to: root.of(&session.present), by, count },
                });
            }
        }
    }

    fn add_kvs(&self, scope: ScopeName, lengths: Lengths, session: &mut Session) {
        let put = (session.steps.len() + self.early.len()) as u32;
        let get = |owner: &KeyOwner, wait| Step::Get { of: put, owner: *owner, wait };
        session.steps.extend(self.early.iter().map(|owner| get(owner, true)));
        session.steps.push(Step::Put { scope: scope.into(), count: self.count, lengths });
        session.steps.push(Step::Fence);
        for owner in &self.asks {
            session.steps.push(get(owner, false));
            // A lookup that waits for a missing key would wait forever.
            session.steps.extend((*owner != KeyOwner::Missing).then(|| get(owner, true)));
        }
    }
}
