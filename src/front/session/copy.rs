//! A copy of what is known of a session, in another process: whole at first, then what has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use libi_core::dist::layout::Layout;
use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;
use libi_launch::options::{CarriedOptions, OnLoss};
use serde::{Deserialize, Serialize};

use super::{LinkCounts, SessionStatus, Stage};
use crate::front::choice::BackendReason;
use crate::front::output_files::OutputError;
use crate::front::report::LaunchReport;

/// All that is known of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::front) struct Snapshot {
    /// The layout at its launch, and how it was launched.
    pub(in crate::front) launched: Layout,
    pub(in crate::front) reason: BackendReason,
    pub(in crate::front) options: CarriedOptions,
    /// What changes.
    pub(in crate::front) parts: Vec<Part>,
    /// How much input may be sent.
    pub(in crate::front) input_credit: Option<usize>,
    /// The number of the last command.
    pub(in crate::front) last_command: u64,
    /// How many bytes of output were dropped.
    pub(in crate::front) missed: u64,
}

/// A part that has changed.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::front) enum Part {
    Stage(Stage),
    Progress((u32, u32, u32)),
    Links(LinkCounts),
    Report(Box<LaunchReport>),
    Layout(Layout),
    Ended(Ranks),
    Detached(Ranks),
    LostHosts(BTreeMap<HostIndex, String>),
    Master(Rank),
    OnLoss(OnLoss),
    OutputError(OutputError),
    /// How many bytes of input have been consumed.
    InputTaken(u64),
}

/// What the other process was told of each part.
#[derive(Default)]
pub(in crate::front) struct Told {
    stage: Option<Stage>,
    progress: Option<(u32, u32, u32)>,
    links: Option<LinkCounts>,
    report: Option<Arc<LaunchReport>>,
    /// Layouts that have the same size are the same.
    size: Option<u32>,
    ended: Option<Ranks>,
    detached: Option<Ranks>,
    lost_hosts: Option<usize>,
    master: Option<Rank>,
    on_loss: Option<OnLoss>,
    output_error: bool,
    input_taken: Option<u64>,
}

impl Told {
    /// The stage that the other process knows of.
    pub(in crate::front) fn stage(&self) -> Option<Stage> {
        self.stage
    }
}

impl SessionStatus {
    /// What has changed since the other process was told.
    pub(in crate::front) fn changes(&mut self, told: &mut Told) -> Vec<Part> {
        let mut parts = Vec::new();
        // The layout first: reports and ranks refer to it.
        if differs(&mut told.size, &self.layout.size()) {
            parts.push(Part::Layout(self.layout.clone()));
        }
        if let Some(report) = self.current_report()
            && told.report.as_ref().is_none_or(|told| !Arc::ptr_eq(told, &report))
        {
            parts.push(Part::Report(Box::new(LaunchReport::clone(&report))));
            told.report = Some(report);
        }
        if differs(&mut told.progress, &self.progress) {
            parts.push(Part::Progress(self.progress));
        }
        if differs(&mut told.links, &self.links) {
            parts.push(Part::Links(self.links));
        }
        if differs(&mut told.ended, &self.ended) {
            parts.push(Part::Ended(self.ended.clone()));
        }
        if differs(&mut told.detached, &self.detached) {
            parts.push(Part::Detached(self.detached.clone()));
        }
        if differs(&mut told.lost_hosts, &self.lost_hosts.len()) {
            parts.push(Part::LostHosts(self.lost_hosts.clone()));
        }
        if differs(&mut told.master, &self.master) {
            parts.push(Part::Master(self.master));
        }
        if differs(&mut told.on_loss, &self.on_loss) {
            parts.push(Part::OnLoss(self.on_loss));
        }
        if let Some(error) = self.output_error.as_ref().filter(|_| !told.output_error) {
            told.output_error = true;
            parts.push(Part::OutputError(error.clone()));
        }
        if differs(&mut told.input_taken, &self.input_taken) {
            parts.push(Part::InputTaken(self.input_taken));
        }
        // The stage last: who waits for it then finds the rest.
        if differs(&mut told.stage, &self.stage) {
            parts.push(Part::Stage(self.stage));
        }
        parts
    }

    /// All of it, for another process that has been told nothing.
    pub(in crate::front) fn snapshot(
        &mut self,
        launched: &Layout,
        options: &CarriedOptions,
        missed: u64,
        told: &mut Told,
    ) -> Snapshot {
        *told = Told::default();
        Snapshot {
            launched: launched.clone(),
            reason: self.reason.clone(),
            options: options.clone(),
            parts: self.changes(told),
            input_credit: self.input_credit,
            last_command: self.commands.last(),
            missed,
        }
    }

    /// A copy of what another process knows.
    pub(in crate::front) fn copied(snapshot: Snapshot) -> Self {
        let Snapshot { launched, reason, options, parts, input_credit, last_command, missed } = snapshot;
        let mut copy = Self::new(launched, reason, None, &options.into_options());
        (copy.is_kept, copy.missed) = (true, missed);
        parts.into_iter().for_each(|part| copy.change(part));
        copy.input_credit = input_credit;
        copy.known_master = copy.master;
        copy.commands.count_from(last_command);
        copy
    }

    /// Changes a part of a copy.
    pub(in crate::front) fn change(&mut self, part: Part) {
        match part {
            Part::Stage(stage) => self.stage = stage,
            Part::Progress(progress) => self.progress = progress,
            Part::Links(links) => self.links = links,
            Part::Report(report) => self.report = Some(Arc::new(*report)),
            Part::Layout(layout) => self.layout = layout,
            Part::Ended(ended) => self.ended = ended,
            Part::Detached(detached) => self.detached = detached,
            Part::LostHosts(lost_hosts) => self.lost_hosts = lost_hosts,
            Part::Master(master) => self.master = master,
            Part::OnLoss(on_loss) => self.on_loss = on_loss,
            Part::OutputError(error) => self.output_error = Some(error),
            Part::InputTaken(taken) => {
                let newly = taken.saturating_sub(self.input_taken);
                self.input_taken = taken;
                if let Some(credit) = &mut self.input_credit {
                    *credit = credit.saturating_add(usize::try_from(newly).unwrap_or(usize::MAX));
                }
            }
        }
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed
    }
}

/// Notes a value, and returns whether it is another one.
fn differs<T: PartialEq + Clone>(told: &mut Option<T>, now: &T) -> bool {
    let differs = told.as_ref() != Some(now);
    if differs {
        *told = Some(now.clone());
    }
    differs
}
