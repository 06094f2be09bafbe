//! The programs of an agent's host, if they may be any programs: whether they link libi is not known
//! before they join.
//!
//! | state | event | effect | next state |
//! |---|---|---|---|
//! | idle | the config of an agent | `FindPrograms` | sought |
//! | sought | they are found | the host may join | found |
//! | sought | one cannot be started | the host fails with that cause | |
//! | found | `Go` | they are started | started |
//!
//! A program that was started is a member, and a branch of the tree, from then on:
//!
//! | event | effect |
//! |---|---|
//! | it was not started after all | the reason is printed as its output; it has exited with 126 |
//! | it says hello | config and membership are sent, and what waited for its link |
//! | it closes its link, or sends what is no protocol | the link is cut; it runs on |
//! | it exits | the exit is reported |
//! | the session ends | it gets the signal; it is killed after the grace period |
//! | a signal for all members | it gets the signal |

use libi_core::dist::layout::Block;
use libi_core::dist::{EnvVar, OsBytes};
use libi_core::ids::Rank;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use super::{Effect, Identity, LinkId, Node};
use crate::failure::{Cause, Exit, Failure, Phase};
use crate::machine::child::Child;
use crate::machine::message::{Ending, ParentMessage};
use crate::machine::output_piece::{OutputPiece, Stream};
use crate::machine::restarts::RESTARTS_ENV;

/// The exit status of a program that was found and could not be executed, as shells have it.
const NOT_EXECUTED: Exit = Exit::Code(126);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct OwnPrograms {
    are_sought: bool,
    /// How many are still to be started.
    awaited: u32,
    /// The ranks that did not come up, and the number of all, when this host began: for programs that join.
    /// The communication half tells them how the session has grown since.
    absent: Ranks,
    size: u32,
}

impl OwnPrograms {
    /// Whether the host cannot join yet.
    pub(super) fn are_sought(&self) -> bool {
        self.are_sought
    }

    /// The session is up with so many ranks, without these.
    pub(super) fn set_session(&mut self, size: u32, absent: &Ranks) {
        self.size = size;
        self.absent.clone_from(absent);
    }
}

impl Node {
    /// How many programs this node will start when the session goes up. The driver keeps resources
    /// for them.
    #[must_use]
    pub fn awaited_programs(&self) -> u32 {
        self.own_programs.awaited
    }

    /// Whether data of the session may be sent on this link of the tree: a program that has not said
    /// hello cannot take them.
    #[must_use]
    pub fn carries_data(&self, link: LinkId) -> bool {
        !self.children.get(link).is_some_and(Child::is_running)
    }

    /// The number of members that a program of this host is told of.
    pub(super) fn size_for_programs(&self) -> u32 {
        if self.stage.is_before_up() { self.size } else { self.own_programs.size }
    }

    /// Has the programs of this host sought.
    pub(super) fn find_programs(&mut self, out: &mut Vec<Effect>) {
        let ranks: Vec<(Rank, Block)> = self.identity().into_iter().flat_map(Identity::others).collect();
        let mut distributions: Vec<u32> = ranks.iter().map(|(_, block)| block.distribution).collect();
        distributions.dedup();
        let programs = distributions.iter().filter_map(|number| self.programs.get(*number as usize));
        let programs = programs.cloned().collect();
        self.own_programs.are_sought = true;
        self.own_programs.awaited = ranks.len() as u32; // not more than the session has
        out.push(Effect::FindPrograms(programs));
    }

    pub(super) fn programs_found(&mut self, found: Result<(), String>, now: Instant, out: &mut Vec<Effect>) {
        if !std::mem::take(&mut self.own_programs.are_sought) || self.stage.has_begun_to_end() {
            return;
        }
        match found {
            Ok(()) => self.check_joined(),
            Err(why) => {
                let elapsed = now.since(self.began);
                let failure = Failure::without_evidence(Phase::Joining, Cause::NotStarted(why), elapsed);
                self.host_failed(failure, now, out);
            }
        }
    }

    /// The session is up: starts the programs of this host.
    pub(super) fn start_programs(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if !self.is_agent() || !self.options.has_any_programs() {
            return;
        }
        self.own_programs.awaited = 0;
        let ranks: Vec<(Rank, Block)> = self.identity().into_iter().flat_map(Identity::others).collect();
        let local_size = ranks.len();
        for (local_rank, (rank, block)) in ranks.into_iter().enumerate() {
            let number = self.restarts.of_host();
            if let Some(link) = self.run_program((rank, block), (local_rank, local_size), number, now, out) {
                self.children.set_deadline(link, Instant::FAR_FUTURE);
            }
        }
    }

    /// Starts the program of a member of this host, which may join while it runs, by the attempt of this
    /// number. `None` if there is no program.
    pub(super) fn run_program(
        &mut self,
        (rank, block): (Rank, Block),
        (local_rank, local_size): (usize, usize),
        number: u32,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<LinkId> {
        let block = Block { first: rank, count: 1, ..block };
        let mut program = self.program(&[block])?;
        if self.options.has_any_programs() {
            program.env.extend(self.place_variables(rank, local_rank, local_size));
        }
        program.env.extend(restarts_variable(number));
        let link = self.start_local(rank, block, program, now, out);
        if let Some(child) = self.children.get_mut(link) {
            child.run();
        }
        Some(link)
    }

    /// The variables that tell a program its place.
    fn place_variables(
        &self,
        rank: Rank,
        local_rank: usize,
        local_size: usize,
    ) -> impl Iterator<Item = EnvVar> + use<> {
        let host = self.host().map(|(_, name)| name.to_owned()).unwrap_or_default();
        let list = [
            ("LIBI_RANK", rank.0.to_string()),
            ("LIBI_SIZE", self.size.to_string()),
            ("LIBI_LOCAL_RANK", local_rank.to_string()),
            ("LIBI_LOCAL_SIZE", local_size.to_string()),
            ("LIBI_HOST", host),
        ];
        variables(list)
    }

    /// A program that was found could not be started.
    pub(super) fn program_not_started(
        &mut self,
        link: LinkId,
        why: &Cause,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let Some(child) = self.children.get_mut(link) else { return };
        child.close();
        child.on_exit(NOT_EXECUTED);
        child.end(why.clone());
        let is_first = |rank: &Rank| self.restarts.starting(*rank, link).is_none();
        let rank = child.rank().filter(is_first).filter(|_| !self.stage.has_begun_to_end());
        if let Some(rank) = rank {
            let text = format!("libi: {rank} {why}\n").into_bytes();
            self.buffer_output(link, false, OutputPiece::new(rank, Stream::Err, text), now);
        }
        self.child_gone(link, now, out);
    }

    /// A program has said hello: it takes part in communication from now on.
    pub(super) fn program_joins(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        if self.stage.has_begun_to_end() {
            return; // it was signalled
        }
        self.up(link, now, out);
        let Some(rank) = self.children.get(link).filter(|child| child.is_up()).and_then(Child::rank) else {
            return;
        };
        let below = [rank].into_iter().collect();
        let restarted = self.restarts.joins(rank, link);
        let joins = restarted.is_some() || self.has_joined_late();
        let message = if joins { ParentMessage::Join } else { ParentMessage::Go };
        self.send_membership(link, message, (&self.own_programs.absent, &below), false, out);
        out.push(Effect::Carry(link));
        if let Some(order) = restarted {
            self.is_restarted(link, order, out);
        }
    }

    /// What arrives from a program is not the protocol: a program that does not link libi may do
    /// with its descriptors what it likes.
    pub(super) fn ignore_link(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        if let Some(child) = self.children.get_mut(link) {
            child.close();
            out.push(Effect::Close(link));
            self.cut(link, now, out);
        }
    }

    /// Asks a program that has not joined to end by this time.
    pub(super) fn ask_program_to_end(
        &mut self,
        link: LinkId,
        ending: Ending,
        by: Instant,
        out: &mut Vec<Effect>,
    ) {
        out.push(Effect::Signal(link, ending.signal));
        let before = self.children.deadline(link).unwrap_or(by);
        self.children.set_deadline(link, before.min(by));
    }
}

/// Environment variables of these names and values; what cannot be one is left out.
/// The variable that tells a program how often it was started before, if it was.
pub(super) fn restarts_variable(number: u32) -> Option<EnvVar> {
    variables([(RESTARTS_ENV, number.to_string())]).next().filter(|_| number > 0)
}

pub(super) fn variables<const N: usize>(list: [(&str, String); N]) -> impl Iterator<Item = EnvVar> + use<N> {
    let variable = |(name, value): (&str, String)| {
        EnvVar::new(OsBytes::try_from(name).ok()?, OsBytes::try_from(value.as_str()).ok()?).ok()
    };
    list.into_iter().filter_map(variable).collect::<Vec<_>>().into_iter()
}
