//! Decides which sessions of a file of cases run in one launch, and how they are launched.
//!
//! Sessions whose processes would be launched alike run one after the other in the same processes.
//! The front end launches only the master; trees in which all hosts are below the front end become
//! trees in which all are below the master. With one or two hosts there is only one tree.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use libi::{Distribution, Rank, SessionId};
use libi_core::plan::{Shape, Strategy};

use crate::cases::shape::{Placement, Tree};
use crate::cases::{FILES, Session};
use crate::play::{host_of, hosts, sessions};
use crate::programs::member;

/// Whether all cases are asked for, also those that take minutes: by `LIBI_CASES=all`, which
/// `tests/run all` sets.
pub fn is_every_case_asked_for() -> bool {
    std::env::var("LIBI_CASES").is_ok_and(|cases| cases == "all")
}

/// Sessions of a file that run in the same processes.
pub struct Launch {
    pub file: &'static str,
    /// The sessions with their numbers in the file.
    pub sessions: Vec<(usize, Arc<Session>)>,
    pub strategy: Strategy,
}

/// What makes two launches alike.
type Shared = (Vec<(u32, bool)>, Strategy);

/// The launches that run all sessions of a file that `meant` accepts. Without `all`, two that
/// differ much stand for those that differ only in their hosts and trees.
pub fn launches(file: &str, all: bool, meant: impl Fn(&Session) -> bool) -> Vec<Launch> {
    let (file, _) = FILES.into_iter().find(|(name, _)| *name == file).unwrap();
    let mut launches = BTreeMap::<Shared, Launch>::new();
    let mut sessions: Vec<_> = sessions(file).into_iter().enumerate().collect();
    sessions.retain(|(_, session)| meant(session));
    if !all {
        sessions = a_few(sessions);
    }
    for (number, session) in sessions {
        let strategy = strategy(&session);
        let ranks = (0..session.size).map(|rank| (host_of(&session, rank), session.has(Rank(rank))));
        let empty = || Launch { file, sessions: Vec::new(), strategy };
        let launch = launches.entry((ranks.collect(), strategy)).or_insert_with(empty);
        // One of two that differ only in their trees is enough.
        let is_other = |(_, other): &(usize, Arc<Session>)| {
            (&other.steps, other.flight) != (&session.steps, session.flight)
        };
        if launch.sessions.iter().all(is_other) {
            launch.sessions.push((number, session));
        }
    }
    launches.into_values().collect()
}

/// Of the sessions of each case with the same size: one on many hosts and one on few, with trees
/// that depend on the size.
fn a_few(sessions: Vec<(usize, Arc<Session>)>) -> Vec<(usize, Arc<Session>)> {
    let mut alike = BTreeMap::<(String, u32, bool, bool), Vec<(usize, Arc<Session>)>>::new();
    for (number, session) in sessions {
        let case = session.name.split(", Shape").next().unwrap_or_default().to_owned();
        let placed = session.shape.placement == Placement::Blocks;
        alike.entry((case, session.size, placed, session.shape.absent)).or_default().push((number, session));
    }
    let trees = [Tree::Late, Tree::Star, Tree::Chain, Tree::Binary, Tree::Flat];
    let turn = |session: &Session, by: u32| {
        let tree = trees.iter().position(|tree| *tree == session.shape.tree).unwrap_or_default();
        (tree as u32 + session.size + by) % trees.len() as u32
    };
    let two = |sessions: Vec<(usize, Arc<Session>)>| {
        let many = sessions.iter().min_by_key(|(_, session)| (session.shape.per_host, turn(session, 0)));
        let few = sessions.iter().max_by_key(|(_, session)| (session.shape.per_host, turn(session, 2)));
        many.into_iter().chain(few).cloned().collect::<Vec<_>>()
    };
    alike.into_values().flat_map(two).collect()
}

fn strategy(session: &Session) -> Strategy {
    if hosts(session) <= 2 {
        return Strategy::Late;
    }
    Strategy::Static(match session.shape.tree {
        Tree::Late => return Strategy::Late,
        Tree::Flat | Tree::Star => Shape::Flat,
        Tree::Greedy => Shape::Greedy,
        Tree::Chain => Shape::Chain,
        Tree::Binary => Shape::Kary(NonZeroU32::MIN.saturating_add(1)),
    })
}

impl Launch {
    /// The number of hosts with members.
    pub fn hosts(&self) -> u32 {
        hosts(&self.sessions[0].1)
    }

    /// What members do from beginning to end.
    pub fn words(&self) -> Vec<String> {
        let numbers: Vec<String> = self.sessions.iter().map(|(number, _)| number.to_string()).collect();
        let case = format!("case:{}:{}", self.file, numbers.join("+"));
        ["join".to_owned(), case, "finish:60000".to_owned()].into()
    }

    /// The distributions for these members. Members of absent hosts are programs that do not exist.
    pub fn distributions(&self, id: SessionId, words: &[String]) -> Vec<Distribution> {
        self.distributions_of(member(), id, words)
    }

    /// The same, of another member.
    pub fn distributions_of(&self, member: &str, id: SessionId, words: &[String]) -> Vec<Distribution> {
        let session = &self.sessions[0].1;
        let mut runs = Vec::<(bool, Vec<(u32, u32)>)>::new();
        for rank in 0..session.size {
            let (host, is_there) = (host_of(session, rank), session.has(Rank(rank)));
            match runs.last_mut() {
                Some((there, hosts)) if *there == is_there => match hosts.last_mut() {
                    Some((last, count)) if *last == host => *count += 1,
                    _ => hosts.push((host, 1)),
                },
                _ => runs.push((is_there, vec![(host, 1)])),
            }
        }
        let distribution = |(is_there, hosts): (bool, Vec<(u32, u32)>)| {
            let hosts: Vec<String> = hosts.iter().map(|(host, count)| format!("n{host}:{count}")).collect();
            let program = if is_there { member } else { "/no/such/program" };
            Distribution::new(program).args(words).hosts(hosts.join(",")).session(id)
        };
        runs.into_iter().map(distribution).collect()
    }
}
