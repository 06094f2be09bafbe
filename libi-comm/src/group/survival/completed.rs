//! Which calls all members have completed, so that what was kept for them can be forgotten.

use libi_core::ids::LinkId;

use super::Survival;

impl Survival {
    /// It is to be told as soon as all have completed the calls before this number.
    pub(crate) fn want(&mut self, before: u64) {
        self.wanted = before.max(self.wanted);
    }

    /// The parent has told of what is wanted, so it need not be told the same.
    pub(crate) fn hears_of_wanted(&mut self, before: u64) {
        self.want(before);
        self.wanted_told = before.max(self.wanted_told);
    }

    pub(crate) const fn completed(&self) -> u64 {
        self.completed
    }

    /// Whether all members have completed the calls before this number.
    pub(crate) const fn have_all_completed(&self, before: u64) -> bool {
        before <= self.completed
    }

    /// This member, if there is one, has completed the calls before this number. Returns what is to be
    /// told of the members here and below, if it is time, and what is wanted.
    pub(crate) fn completes(&mut self, own: Option<u64>, lead: u64) -> Option<(u64, u64)> {
        if let Some(own) = own.filter(|_| self.bytes > self.much) {
            self.want(own);
        }
        let before = own.into_iter().chain(self.completed_below.values().copied()).min()?;
        let is_wanted = self.told < self.wanted && self.wanted <= before;
        let is_due = is_wanted || before >= self.told + (lead / 2).max(1) || self.wanted_told < self.wanted;
        is_due.then(|| {
            (self.told, self.wanted_told) = (before, self.wanted);
            (before, self.wanted)
        })
    }

    /// A branch has told of completed calls, and of what is wanted.
    pub(crate) fn has_completed(&mut self, link: LinkId, before: u64, wanted: u64) {
        self.want(wanted);
        if let Some(known) = self.completed_below.get_mut(link) {
            *known = before.max(*known);
        }
    }

    /// All members have completed the calls before this number.
    pub(crate) fn forget_before(&mut self, before: u64) {
        self.completed = before.max(self.completed);
        let kept = self.kept.split_off(&self.completed);
        let forgotten = std::mem::replace(&mut self.kept, kept);
        self.bytes -= forgotten.values().map(|kept| kept.bytes).sum::<u64>();
        self.repeated = self.repeated.split_off(&self.completed);
        self.settled = self.settled.split_off(&self.completed);
    }
}
