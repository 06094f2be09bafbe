//! Decides whether launching from a host works at all, from what becomes of its first launches.
//!
//! A refused launch may be the fault of the host that was to be launched, or of the one that launches: no remote shell is
//! installed there, it has no keys, a firewall is in between. One failure does not tell; several, and nothing else, do.
//!
//! ```text
//!          a child speaks our protocol, or a shell has reached its host and failed there
//!   Open ---------------------------------------------------------------------------------> Firm
//!     |
//!     | the launches that were made first have failed, and are ENOUGH; or all that there are have
//!     v
//!   Lost
//! ```
//!
//! - **Open**: launches go on as always, and what may pass is repeated; but no host is given up for what the launcher may be
//!   to blame for. It is held until the question is decided.
//! - **Firm**: for good. Who was held is given up with what was seen of it: somebody who can launch has tried.
//! - **Lost**: for good. Everything goes back to the parent (`returning.rs`).
//!
//! "First" is meant in the order of starts, for refusals come sooner than hellos: among many hosts some are dead, and theirs
//! come before anybody can have said hello. So a launch that is still in flight stands between its launcher
//! and the verdict, unless it has been silent for long. How many are enough depends on what they say: that a shell cannot
//! be started, one; that it is not let in, three, for dead hosts do not say that; that nobody answers, eight,
//! for hosts that are neighbours in a list may be dead together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;

use crate::failure::{Cause, Failure};

/// How much has to speak against the launcher, and what its failures weigh by what they say.
const ENOUGH: u32 = 8;
const NOT_STARTED: u32 = 8;
const NOT_LET_IN: u32 = 3;
const NOT_REACHED: u32 = 1;
/// How many hosts have to fail if those are all there are; of fewer, how often each that is refused is tried.
const FEW: usize = 3;

/// What a node knows of who can launch.
#[derive(Debug)]
pub(super) struct Footing {
    own: Own,
    /// How many children have said that they cannot, and how many have launched somebody.
    unable: u32,
    able: u32,
    /// Whether the last launch from here was refused for want of room.
    full: bool,
}

#[derive(Debug)]
enum Own {
    Open(Box<Doubt>),
    Firm,
    Lost,
}

/// What was tried, as long as nothing has come of it.
#[derive(Debug, Default)]
struct Doubt {
    /// Every host that was launched, in the order of that.
    tried: Vec<(HostIndex, Instant)>,
    failed: BTreeMap<HostIndex, Suspect>,
    /// Those that would have been given up.
    held: Vec<(Launch, Failure)>,
    first: Option<Failure>,
    /// When a launch will have been silent for so long that something follows.
    wake: Option<Instant>,
}

/// A host whose launches have failed, so that the launcher may be to blame.
#[derive(Clone, Copy, Debug, Default)]
struct Suspect {
    times: u16,
    weight: u32,
    timed_out: bool,
    held: bool,
}

/// Launching from here does not work.
#[derive(Debug)]
pub(super) struct Collapse {
    /// The first failure.
    pub(super) why: Failure,
    /// Whether there is no doubt: it may as well be the few hosts that there were.
    pub(super) certain: bool,
    /// Who would have been given up.
    pub(super) held: Vec<Launch>,
    /// Everybody who has failed.
    pub(super) failed: BTreeSet<HostIndex>,
}

impl Footing {
    /// Of a leader.
    pub(super) fn open() -> Self {
        Self { own: Own::Open(Box::default()), unable: 0, able: 0, full: false }
    }

    /// Of the front end, behind which there is nobody who could launch instead.
    pub(super) fn firm() -> Self {
        Self { own: Own::Firm, unable: 0, able: 0, full: false }
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.own, Own::Lost)
    }

    /// Whether children that come up are to launch: not if more of them have said that they cannot than have launched
    /// anybody.
    pub(super) fn trusts_children(&self) -> bool {
        self.unable <= self.able
    }

    pub(super) fn child_is_unable(&mut self) {
        self.unable = self.unable.saturating_add(1);
    }

    pub(super) fn child_is_able(&mut self) {
        self.able = self.able.saturating_add(1);
    }

    /// Whether there is room for more launches, as far as it is known.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn fills(&mut self, full: bool) {
        self.full = full;
    }

    /// A host is launched.
    pub(super) fn launched(&mut self, host: HostIndex, now: Instant) {
        if let Own::Open(doubt) = &mut self.own
            && !doubt.failed.contains_key(&host)
        {
            doubt.tried.push((host, now));
        }
    }

    /// Launching from here works. Who was held until that is known is to be given up.
    pub(super) fn settles(&mut self) -> Vec<(Launch, Failure)> {
        match &mut self.own {
            Own::Open(doubt) => {
                let held = std::mem::take(&mut doubt.held);
                self.own = Own::Firm;
                held
            }
            Own::Firm | Own::Lost => Vec::new(),
        }
    }

    /// A launch has failed so that the launcher may be to blame, and is repeated or is not. Tells whether the host is held.
    pub(super) fn suspect(&mut self, launch: Launch, failure: &Failure, is_repeated: bool) -> bool {
        let Own::Open(doubt) = &mut self.own else { return false };
        let suspect = doubt.failed.entry(launch.host).or_default();
        suspect.times = suspect.times.saturating_add(1);
        suspect.timed_out = failure.cause == Cause::TimedOut;
        suspect.weight = match failure.cause {
            Cause::NotStarted(_) => NOT_STARTED,
            _ if failure.is_login_denied() => NOT_LET_IN,
            _ => NOT_REACHED,
        };
        suspect.held = !is_repeated;
        doubt.first.get_or_insert_with(|| failure.clone());
        if !is_repeated {
            doubt.held.push((launch, failure.clone()));
        }
        !is_repeated
    }

    /// Who is held, if the question is not to be decided any more.
    pub(super) fn take_held(&mut self) -> Vec<(Launch, Failure)> {
        match &mut self.own {
            Own::Open(doubt) => std::mem::take(&mut doubt.held),
            Own::Firm | Own::Lost => Vec::new(),
        }
    }

    /// Decides whether launching from here works, if it does not. So many launches are in flight, and so many hosts wait or
    /// back off; a launch is silent after this patience.
    pub(super) fn weigh(
        &mut self,
        now: Instant,
        timeout: Duration,
        in_flight: usize,
        waiting: usize,
    ) -> Option<Collapse> {
        let Own::Open(doubt) = &mut self.own else { return None };
        let all = in_flight + waiting + doubt.held.len();
        let certain = doubt.is_certain(now, timeout);
        let may_be = doubt.all_have_failed(all) || in_flight == 0 && doubt.has_nothing_else(waiting);
        let collapses = certain || may_be;
        let why = doubt.first.take_if(|_| collapses)?;
        let held = std::mem::take(&mut doubt.held).into_iter().map(|(launch, _)| launch).collect();
        let failed = doubt.failed.keys().copied().collect();
        self.own = Own::Lost;
        Some(Collapse { why, certain, held, failed })
    }

    /// When it has to be weighed again, if nothing happens before.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        match &self.own {
            Own::Open(doubt) => doubt.wake,
            Own::Firm | Own::Lost => None,
        }
    }
}

impl Doubt {
    /// Whether so many of the launches that were made first have failed that it is not the hosts.
    fn is_certain(&mut self, now: Instant, timeout: Duration) -> bool {
        self.wake = None;
        if self.failed.is_empty() {
            return false;
        }
        let mut weight = 0;
        for (host, since) in &self.tried {
            match self.failed.get(host) {
                Some(suspect) => weight += suspect.weight,
                None if now > *since + timeout => {}
                None => {
                    let in_the_end: u32 = self.failed.values().map(|suspect| suspect.weight).sum();
                    self.wake = (in_the_end >= ENOUGH).then(|| *since + timeout + Duration::from_nanos(1));
                    return false;
                }
            }
            if weight >= ENOUGH {
                return true;
            }
        }
        false
    }

    /// Whether all the hosts that there are, so many, have failed, and are not too few to be worth another attempt here.
    fn all_have_failed(&self, all: usize) -> bool {
        self.failed.len() >= FEW.max(all)
    }

    /// Whether nothing is left to be tried here but what need not be tried here again. A host that is refused is, a few
    /// times; one that has cost its time is not, for that could be spent by somebody who can launch.
    fn has_nothing_else(&self, waiting: usize) -> bool {
        let is_tried = |suspect: &&Suspect| suspect.timed_out || usize::from(suspect.times) >= FEW;
        let tried = self.failed.values().filter(|suspect| !suspect.held).filter(is_tried).count();
        waiting == tried && tried + self.held.len() > 0
    }
}

#[cfg(test)]
mod tests {
    use libi_core::plan::late::Attempt;

    use super::*;
    use crate::failure::{Exit, Phase};

    const TIMEOUT: Duration = Duration::from_secs(3);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn launch(host: u32) -> Launch {
        Launch { host: HostIndex(host), attempt: Attempt::default() }
    }

    fn failure(cause: Cause) -> Failure {
        Failure::without_evidence(Phase::Starting, cause, Duration::ZERO)
    }

    fn refused() -> Failure {
        failure(Cause::Exited(Exit::Code(255)))
    }

    fn denied() -> Failure {
        Failure { tail: "me@n1: Permission denied (publickey).\r\n".to_owned(), ..refused() }
    }

    /// A leader that has launched these hosts, ten milliseconds after each other.
    fn leader(hosts: u32) -> Footing {
        let mut footing = Footing::open();
        (0..hosts).for_each(|host| footing.launched(HostIndex(host), at(10 * u64::from(host))));
        footing
    }

    /// Whether it is certain at this time that it cannot launch, while many others are in flight and wait.
    fn certain(footing: &mut Footing, millis: u64) -> bool {
        footing.weigh(at(millis), TIMEOUT, 100, 100).is_some_and(|collapse| collapse.certain)
    }

    #[test]
    fn it_takes_the_first_to_fail_and_not_any() {
        for (failed, why, expected) in [
            (&[0, 1, 2][..], denied(), true),
            (&[2, 0, 1], denied(), true),
            (&[0, 1], denied(), false),
            (&[0, 0, 0], denied(), false),
            (&[1, 2, 3, 4, 5, 6], denied(), false),
            (&[0, 1, 3, 4, 5, 6], denied(), false),
            (&[0, 1, 2, 3, 4, 5, 6], refused(), false),
            (&[7, 6, 5, 4, 3, 2, 1, 0], refused(), true),
            (&[9, 8, 7, 6, 5, 4, 3, 2, 1], refused(), false),
        ] {
            let mut footing = leader(20);
            for host in failed {
                assert!(!footing.suspect(launch(*host), &why, true));
            }
            assert_eq!(certain(&mut footing, 200), expected, "{failed:?}");
            assert_eq!(footing.is_lost(), expected);
        }
    }

    #[test]
    fn if_all_there_are_have_failed_a_few_are_enough() {
        for (hosts, others, expected) in [(3, 0, true), (4, 0, true), (3, 1, false), (2, 0, false)] {
            let mut footing = leader(hosts);
            for host in 0..hosts {
                footing.suspect(launch(host), &refused(), true);
            }
            // One is in flight again.
            let collapse = footing.weigh(at(500), TIMEOUT, 1, hosts as usize - 1 + others);
            assert_eq!(collapse.is_some_and(|collapse| !collapse.certain), expected, "{hosts} {others}");
        }
    }

    #[test]
    fn who_is_silent_stands_in_nobodys_way() {
        let mut footing = leader(20);
        for host in [0, 2, 3] {
            footing.suspect(launch(host), &denied(), true);
        }
        assert!(!certain(&mut footing, 200));
        assert_eq!(footing.wakes_at(), Some(at(3_010) + Duration::from_nanos(1)));
        assert!(!certain(&mut footing, 3_010));
        assert!(certain(&mut footing, 3_011));
    }

    #[test]
    fn a_shell_that_cannot_be_started_says_it_by_itself_if_nothing_was_started_before() {
        let cause = || failure(Cause::NotStarted("No such file or directory".to_owned()));
        let mut footing = leader(20);
        assert!(footing.suspect(launch(0), &cause(), false));
        assert!(certain(&mut footing, 200));
        let mut footing = leader(20);
        assert!(footing.suspect(launch(5), &cause(), false));
        assert!(!certain(&mut footing, 200));
    }

    #[test]
    fn who_is_given_nothing_but_dead_hosts_says_so_and_is_not_sure() {
        let weigh = |footing: &mut Footing, in_flight, waiting| {
            footing.weigh(at(40_000), TIMEOUT, in_flight, waiting).map(|collapse| collapse.certain)
        };
        let mut footing = leader(2);
        footing.suspect(launch(0), &failure(Cause::TimedOut), true);
        assert_eq!(weigh(&mut footing, 1, 1), None, "the other may come");
        footing.suspect(launch(1), &refused(), true);
        assert_eq!(weigh(&mut footing, 0, 2), None, "it is refused again first");
        assert!(footing.suspect(launch(1), &refused(), false));
        assert_eq!(weigh(&mut footing, 0, 1), Some(false));
    }

    #[test]
    fn who_is_given_one_host_to_be_tried_for_ever_leaves_that_to_others() {
        let mut footing = leader(1);
        for times in 1..=3 {
            footing.suspect(launch(0), &refused(), true);
            let collapse = footing.weigh(at(1_000), TIMEOUT, 0, 1);
            assert_eq!(collapse.map(|collapse| collapse.certain), (times == 3).then_some(false));
        }
    }

    #[test]
    fn hosts_are_held_until_it_is_known_that_launching_works_and_given_up_then() {
        let mut footing = leader(20);
        assert!(footing.suspect(launch(0), &refused(), false));
        assert!(!certain(&mut footing, 100));
        let held = footing.settles();
        assert_eq!(held.len(), 1);
        assert_eq!(held[0].0, launch(0));
        assert!(!footing.suspect(launch(1), &refused(), false), "nobody is held any more");
        for host in 1..20 {
            footing.suspect(launch(host), &refused(), true);
        }
        assert!(!certain(&mut footing, 200) && !footing.is_lost());
    }

    #[test]
    fn children_are_trusted_as_long_as_not_more_are_unable_than_able() {
        let mut footing = Footing::open();
        assert!(footing.trusts_children());
        footing.child_is_unable();
        assert!(!footing.trusts_children());
        footing.child_is_able();
        assert!(footing.trusts_children());
    }
}
