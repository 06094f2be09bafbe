//! Tree views and the frames on their links: every view must fit the view of the node above.
//!
//! Each node sends frames on all links of its tree, and answers the first few.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::Rank;
use libi_core::join::MemberRole;
use libi_core::ranks::Ranks;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_core::topology::Topology;
use libi_core::wire::Header;
use libi_launch::machine::{HostState, LinkId};

use crate::scenario::Scenario;
use crate::world::{Cluster, FRONT, MINIMAL_LATENCY};

/// How many frames are exchanged on a link.
const ANSWERS: u32 = 4;

/// The tree views of a session, and the frames on their links.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    known: BTreeMap<Id, Topology>,
    /// How many frames were sent and received at each end of a link.
    sent: BTreeMap<(Id, LinkId), u32>,
    received: BTreeMap<(Id, LinkId), u32>,
    cut: BTreeSet<(Id, LinkId)>,
    pub(crate) wrong: Option<String>,
}

impl Cluster {
    /// A node gives its tree view to its communication half.
    pub(crate) fn on_session_up(&mut self, id: Id, tree: Topology, agenda: &mut Agenda<Self>) {
        if let Err(wrong) = self.check_tree(id, &tree, agenda) {
            self.trees.wrong.get_or_insert(format!("{id:?}: {wrong}: {tree:?}"));
        }
        if self.trees.known.insert(id, tree).is_some() {
            self.trees.wrong.get_or_insert(format!("{id:?} gets a second tree"));
        }
        self.talk(id, agenda);
    }

    /// A node sends a frame on all links of its tree.
    pub(crate) fn talk(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        for link in self.trees.links(id) {
            self.send_frame(id, link, agenda);
        }
    }

    pub(crate) fn send_frame(&mut self, id: Id, link: LinkId, agenda: &mut Agenda<Self>) {
        let said = self.trees.sent.entry((id, link)).or_default();
        let payload = [id.0.to_le_bytes(), said.to_le_bytes()].concat();
        *said += 1;
        let header = Header::session_data(payload.len()).unwrap();
        let frame = [&header.encode()[..], &payload].concat();
        if !self.holds_frame(id, link, &frame, agenda) {
            self.send(id, link, frame, agenda);
        }
    }

    /// A frame arrives for the communication half of a node.
    pub(crate) fn on_frame(&mut self, id: Id, link: LinkId, frame: &[u8], agenda: &mut Agenda<Self>) {
        let heard = self.trees.received.entry((id, link)).or_default();
        let speaker = match link {
            LinkId::PARENT => self.processes[id.0 as usize].origin.map(|(parent, _)| parent),
            _ => self.processes[id.0 as usize].started.get(&link).copied(),
        };
        let expected = speaker.map(|speaker| [speaker.0.to_le_bytes(), heard.to_le_bytes()].concat());
        *heard += 1;
        let (number, may_hear) = (*heard, self.trees.links(id).contains(&link));
        if expected.as_deref() != Some(frame) || !may_hear {
            let wrong = format!("{id:?} hears {frame:?} on {link}, not {expected:?}; {may_hear}");
            self.trees.wrong.get_or_insert(wrong);
        } else if number < ANSWERS {
            self.send_frame(id, link, agenda);
        }
    }

    /// A node cuts a link of its tree.
    pub(crate) fn on_link_cut(&mut self, id: Id, link: LinkId) {
        if !self.trees.links(id).contains(&link) {
            self.trees.wrong.get_or_insert(format!("{link} of {id:?} is cut, but is none"));
        }
        self.trees.cut.insert((id, link));
    }

    /// Everything below a node has ended.
    pub(crate) fn on_over(&mut self, id: Id) {
        let left: Vec<_> = self.trees.links(id).into_iter().filter(|link| *link != LinkId::PARENT).collect();
        if !left.is_empty() {
            self.trees.wrong.get_or_insert(format!("it is over for {id:?}, but these are not cut: {left:?}"));
        }
    }

    fn check_tree(&self, id: Id, tree: &Topology, agenda: &Agenda<Self>) -> Result<(), String> {
        let scenario = &self.scenario;
        let process = &self.processes[id.0 as usize];
        let leader = |host: u32| Rank(host * scenario.members);
        let (me, local) = match process.place {
            None => (None, false),
            Some(MemberRole::Leader(_)) if scenario.agents.is_some() => (None, false),
            Some(MemberRole::Leader(host)) => (Some(leader(host.0)), false),
            Some(MemberRole::Local(rank)) => (Some(rank), true),
        };
        let size = scenario.hosts * scenario.members;
        let own = (tree.me, tree.local, tree.has_parent) == (me, local, id != FRONT);
        if !own || !self.may_have(tree.size) {
            return Err(format!("it is {me:?}, local: {local}"));
        }
        let mut all: Ranks = me.into_iter().collect();
        let mut count = all.len() + tree.lost.len();
        for branch in &tree.branches {
            let child = process.started.get(&branch.link);
            let child = child.and_then(|child| self.processes[child.0 as usize].place);
            let child = child.or_else(|| self.program_rank(id, branch.link).map(MemberRole::Local));
            let (rank, its) = match child {
                Some(MemberRole::Leader(host)) => (leader(host.0), false),
                Some(MemberRole::Local(rank)) => (rank, true),
                None => return Err(format!("no process joined over {}", branch.link)),
            };
            if !branch.ranks.contains(rank) || branch.local != its || its && branch.ranks.len() > 1 {
                return Err(format!("{rank} is behind {}", branch.link));
            }
            all.add_all(&branch.ranks);
            count += branch.ranks.len();
        }
        all.add_all(&tree.lost);
        if !tree.branches.is_sorted_by_key(|branch| branch.ranks.lowest()) || all.len() != count {
            return Err("the branches are not in order, or overlap".to_owned());
        }
        let (absent, below, top) = match process.origin {
            None => {
                let known = agenda.machine(id).into_iter().flat_map(|node| node.host_states());
                let failed = (0..).zip(known).filter(|(_, known)| matches!(known, HostState::Failed(_)));
                let mut absent = Ranks::new();
                failed.for_each(|(host, _)| absent.add_run(leader(host).0, scenario.members));
                // Hosts that were lost just when the session came up are in it, and lost.
                absent.remove_all(&tree.lost);
                let mut present = Ranks::first(size);
                present.remove_all(&absent);
                (absent, present, tree.branches.len() != 1 || scenario.replace_master)
            }
            Some((parent, link)) => {
                let Some(above) = self.trees.known.get(&parent) else {
                    return Err("its parent has no tree".to_owned());
                };
                let branch = above.branches.iter().find(|branch| branch.link == link);
                let Some(branch) = branch else { return Err("it is in no tree".to_owned()) };
                let top = parent == FRONT && !above.top;
                (above.absent.clone(), branch.ranks.clone(), top)
            }
        };
        if (&tree.absent, &all, tree.top) != (&absent, &below, top) {
            return Err(format!("where {absent} are absent, and {below} are there; top: {top}"));
        }
        let all_is_well = !scenario.has_faults() && scenario.hosts_are_well();
        let quiet = all_is_well && self.last_fault == Instant::ZERO && scenario.links_are_sure();
        let no_processes = match process.place {
            Some(MemberRole::Leader(host)) if scenario.is_without_programs() => {
                let own = leader(host.0).0..leader(host.0).0 + scenario.members;
                own.map(Rank).collect()
            }
            _ => Ranks::new(),
        };
        if quiet && tree.lost != no_processes {
            return Err("ranks are lost without a cause".to_owned());
        }
        Ok(())
    }
}

impl Trees {
    /// The tree of a node, which may grow.
    pub(crate) fn known(&mut self, id: Id) -> Option<&mut Topology> {
        self.known.get_mut(&id)
    }

    /// The links on which a node may send.
    fn links(&self, id: Id) -> Vec<LinkId> {
        let Some(tree) = self.known.get(&id) else { return Vec::new() };
        tree.links().filter(|link| !self.cut.contains(&(id, *link))).collect()
    }
}

/// Invariants once everything has settled.
pub(crate) fn checks(scenario: &Scenario, world: &Cluster, now: Instant) -> Result<(), String> {
    if let Some(wrong) = &world.trees.wrong {
        return Err(wrong.clone());
    }
    // The end of a link may still be on its way, through all levels of the tree. A silent process is
    // noticed at a heartbeat after the timeout, and then the links below it end.
    let levels = 2 + world.deepest();
    let freezes = !scenario.freezes.is_empty();
    let silence = if freezes { scenario.rules.peer_timeout * 3 / 2 } else { Duration::ZERO };
    let told =
        world.last_fault + silence + (scenario.latency + scenario.direct_latency + MINIMAL_LATENCY) * levels;
    for (id, process) in world.alive().filter(|(_, process)| process.told_up) {
        let Some(tree) = world.trees.known.get(&id) else {
            return Err(format!("is told that the session is up, but has no tree: {process:?}"));
        };
        let has_link = tree.has_parent && world.trees.links(id).contains(&LinkId::PARENT);
        if has_link && world.parent_of(id).is_none() && now >= told {
            return Err(format!("has no parent any more, and was not told: {process:?}"));
        }
    }
    let tops = world.trees.known.values().filter(|tree| tree.top).count();
    if tops > 1 || tops == 0 && world.processes[0].told_up && !scenario.has_faults() && !world.was_cut {
        return Err(format!("{tops} nodes are at the top"));
    }
    // The news that the session is up, and then answers, may still be on their way.
    let all_are_up = world.up_at().is_none_or(|up| up + world.way(levels + 2 * ANSWERS) < now);
    if all_are_up && !scenario.has_faults() && !world.was_cut {
        let too_little = world.trees.received.iter().find(|(_, heard)| **heard < ANSWERS);
        if let Some(((id, link), heard)) = too_little {
            return Err(format!("{id:?} has heard {heard} frames on {link}"));
        }
    }
    Ok(())
}
