//! Lost hosts whose members come back: the front end orders a growth by new hosts for them. The head of
//! [`machine::returns`](crate::machine::returns) has the table.

use libi_core::ids::{HostIndex, Rank};
use libi_core::time::Instant;

use super::{Effect, Node, Notice, Role};
use crate::backend::LaunchMethod;
use crate::machine::growth::GrowthRequest;
use crate::machine::host_table::{HostState, Policy};
use crate::machine::message::{HostSpec, Spare};
use crate::machine::restarts::RestartError;
use crate::machine::returns::Wanted;
use crate::options::OnLoss;

/// The front end.
impl Node {
    /// The host of a rank: where it was launched last.
    pub(super) fn host_of(&self, rank: Rank) -> Option<HostIndex> {
        let home = self.front_end().and_then(|front| front.returns.home(rank));
        let has_rank = |spec: &&HostSpec| spec.blocks.iter().any(|block| block.contains(rank));
        home.or_else(|| self.launcher.specs(..).find(has_rank).map(|spec| spec.host))
    }

    /// A host is lost: a spare takes its place if members are restarted by themselves.
    pub(super) fn return_by_itself(&mut self, lost: HostIndex) {
        let may = self.options.on_loss == OnLoss::Continue && !self.options.has_no_programs();
        let is_bulk = self.options.launch_method().bulk().is_some();
        if may
            && !is_bulk
            && self.stage.is_up()
            && let Some(spec) = self.launcher.spec(lost)
            && let Role::FrontEnd(front) = &mut self.role
        {
            front.return_by_itself(spec, self.options.restarts);
        }
    }

    /// Launches new hosts for those that are to return, or those of a growth that has waited.
    pub(super) fn begin_returns(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Role::FrontEnd(front) = &mut self.role else { return };
        if !self.stage.is_up() || front.is_growing() {
            return;
        }
        if let Some(growth) = front.returns.take_growth() {
            return self.grow(*growth, now, out);
        }
        let wanted = front.returns.take_wanted();
        if wanted.is_empty() {
            return;
        }
        let hosts = wanted.iter().filter_map(|wanted| self.new_host_for(wanted)).collect();
        let policy = Policy::AtLeast(1); // each has its own verdict
        let deadline = self.options.deadline;
        let request = GrowthRequest { hosts, programs: Vec::new(), size: 0, policy, deadline };
        match self.order_growth(request, now, out) {
            Ok(grown) => {
                let Role::FrontEnd(front) = &mut self.role else { return };
                front.returns.begin(grown.first_host, wanted);
            }
            Err(why) => {
                for wanted in &wanted {
                    self.does_not_return(wanted, &RestartError::NoHost(why.to_string()), out);
                }
            }
        }
    }

    fn new_host_for(&self, wanted: &Wanted) -> Option<HostSpec> {
        let lost = self.launcher.spec(wanted.lost)?;
        let Spare { name, user, port } = wanted.place.clone();
        let (blocks, restarts) = (wanted.blocks.clone(), wanted.number);
        Some(HostSpec { name, user, port, blocks, restarts, ..lost.clone() })
    }

    /// The new hosts have their verdicts, and those that have joined are in the session.
    pub(super) fn end_returns(&mut self, out: &mut Vec<Effect>) {
        let Role::FrontEnd(front) = &mut self.role else { return };
        for (host, wanted) in front.returns.end() {
            let Role::FrontEnd(front) = &mut self.role else { return };
            let state = front.host(host).cloned();
            let is_up = state == Some(HostState::Joined);
            let blocks = if is_up { wanted.blocks.clone() } else { Vec::new() };
            let (lost, place) = (wanted.lost, wanted.place.clone());
            out.push(Effect::Notify(Notice::Returned { lost, host, place, blocks }));
            if is_up {
                front.are_back(host, &wanted);
                out.extend(wanted.ranks().iter().map(|rank| Effect::Notify(Notice::Restarted(rank))));
            } else {
                let why = match state {
                    Some(HostState::Failed(failure)) => failure.cause.to_string(),
                    _ => RestartError::Ending.to_string(),
                };
                self.does_not_return(&wanted, &RestartError::NoHost(why), out);
            }
        }
    }

    fn does_not_return(&mut self, wanted: &Wanted, why: &RestartError, out: &mut Vec<Effect>) {
        let Role::FrontEnd(front) = &mut self.role else { return };
        let ranks = front.do_not_return(wanted);
        Self::not_restarted(ranks, why, out);
    }
}
