//! Scenarios in which standard input goes to all programs, and what must hold in them: each host gets
//! all of it in order, keeps at most a window of it, and the user is waited for as long as something
//! reads.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::MemberRole;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_launch::machine::{Event, Notice, WINDOW};
use libi_launch::options::{LaunchOptions, StandardInput};

use crate::scenario::Scenario;
use crate::world::{Cluster, FRONT, Happening};

/// The longest that programs of a slow host take for what they get at once.
const SLOW: Duration = Duration::from_secs(1);
/// How long nothing may move after that and after the last fault.
const STANDSTILL: Duration = Duration::from_secs(30);

/// What the user sends, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Feed {
    total: usize,
    chunk: usize,
    /// The fraction of hosts that read slowly.
    slow: f64,
}

/// What a host has of it.
#[derive(Debug, Default)]
struct Fed {
    got: usize,
    taken: usize,
    is_ended: bool,
}

/// How far everything is.
#[derive(Debug, Default)]
pub(crate) struct Feeding {
    sent: usize,
    confirmed: usize,
    is_closed: bool,
    hosts: BTreeMap<Id, Fed>,
    /// When something was confirmed last.
    moved: Instant,
    wrong: Option<String>,
}

/// The byte at this place.
fn byte(at: usize) -> u8 {
    (at ^ at >> 8).wrapping_mul(59) as u8
}

impl Scenario {
    /// The scenario of a seed in which all programs get standard input. Drawn from a separate stream.
    pub(crate) fn with_input(seed: u64) -> Self {
        let mut scenario = Self::with_agents(seed);
        let mut rng = Rng::new(seed).fork(50);
        let most = if scenario.hosts > 100 { 80_000 } else { 300_000 };
        let total = rng.below(most) as usize;
        let chunk = 1 + total / (1 + rng.below(20) as usize);
        scenario.feed = Some(Feed { total, chunk, slow: [0.0, 0.0, 0.1, 1.0][rng.below(4) as usize] });
        scenario
    }

    /// What is sent, if the hosts can have it: they need agents by the options.
    fn fed(&self) -> Option<Feed> {
        self.feed.filter(|_| self.agents.is_some() && !self.is_apart())
    }

    /// Adds the input to the options of the launch.
    pub(crate) fn input_options(&self, options: LaunchOptions) -> LaunchOptions {
        if self.fed().is_some() { options.input(StandardInput::All) } else { options }
    }
}

impl Cluster {
    fn wrong_feeding(&mut self, what: String) {
        self.feeding.wrong.get_or_insert(what);
    }

    /// The user writes as much as has credit.
    fn user_writes(&mut self, agenda: &mut Agenda<Self>) {
        let Some(feed) = self.scenario.fed() else { return };
        let Feeding { sent, confirmed, is_closed, .. } = &mut self.feeding;
        while *sent < feed.total && *sent - *confirmed < WINDOW as usize {
            let left = (feed.total - *sent).min(WINDOW as usize - (*sent - *confirmed));
            let bytes: Vec<u8> = (*sent..*sent + left.min(feed.chunk)).map(byte).collect();
            *sent += bytes.len();
            agenda.tell(agenda.now(), FRONT, Event::Input(bytes).into());
        }
        if *sent == feed.total && !std::mem::replace(is_closed, true) {
            agenda.tell(agenda.now(), FRONT, Event::Input(Vec::new()).into());
        }
    }

    /// The front end hears of something.
    pub(crate) fn feed_on_notice(&mut self, notice: &Notice, agenda: &mut Agenda<Self>) {
        match notice {
            Notice::Up => {
                self.feeding.moved = agenda.now();
                self.user_writes(agenda);
            }
            Notice::InputTaken(bytes) => {
                self.feeding.confirmed += *bytes as usize;
                self.feeding.moved = agenda.now();
                let Feeding { sent, confirmed, .. } = self.feeding;
                if confirmed > sent {
                    return self.wrong_feeding(format!("{confirmed} of {sent} bytes are confirmed"));
                }
                self.user_writes(agenda);
            }
            _ => {}
        }
    }

    /// The programs of a host get input.
    pub(crate) fn feed_programs(&mut self, from: Id, bytes: &[u8], agenda: &mut Agenda<Self>) {
        let Some(feed) = self.scenario.fed() else {
            return self.wrong_feeding(format!("{from:?} gets input that there is not"));
        };
        let fed = self.feeding.hosts.entry(from).or_default();
        let are_right = (fed.got..).zip(bytes).all(|(at, found)| *found == byte(at));
        let is_due = from != FRONT && !fed.is_ended && are_right;
        fed.got += bytes.len();
        fed.is_ended = bytes.is_empty();
        let is_too_much = fed.got - fed.taken > WINDOW as usize || fed.is_ended && fed.got != feed.total;
        if !is_due || is_too_much {
            let what = format!("{from:?} gets other input than it should, of {}: {fed:?}", feed.total);
            return self.wrong_feeding(what);
        }
        if !bytes.is_empty() {
            let mut rng = Rng::new(self.scenario.seed).fork(51).fork(u64::from(from.0));
            let most = if rng.chance(feed.slow) { SLOW } else { Duration::from_millis(5) };
            let after = most.mul_f64(rng.below(1_000) as f64 / 1e3);
            agenda.plan(agenda.now() + after, Happening::Takes(from, bytes.len()));
        }
    }

    /// The programs of a host have read it.
    pub(crate) fn programs_take(&mut self, from: Id, bytes: usize, agenda: &mut Agenda<Self>) {
        if self.is_running(from) {
            self.feeding.hosts.entry(from).or_default().taken += bytes;
            agenda.tell(agenda.now(), from, Event::InputTaken(bytes as u32).into());
        }
    }
}

/// Nothing stands still while the session is up; without faults, each host that is up has all.
pub(crate) fn checks(scenario: &Scenario, world: &Cluster, now: Instant) -> Result<(), String> {
    let feeding = &world.feeding;
    if let Some(wrong) = &feeding.wrong {
        return Err(wrong.clone());
    }
    let Some(feed) = scenario.fed() else { return Ok(()) };
    let has = |wanted: fn(&Notice) -> bool| world.notices.iter().any(|(_, notice)| wanted(notice));
    if !has(|notice| *notice == Notice::Up) || has(|notice| matches!(notice, Notice::Done | Notice::Over)) {
        return Ok(());
    }
    let is_complete = feeding.confirmed == feed.total;
    let bound = STANDSTILL + SLOW + scenario.rules.peer_timeout * 2;
    if !is_complete && now > feeding.moved.max(world.last_fault) + bound {
        return Err(format!("input stands still since {}: {feeding:?}", feeding.moved));
    }
    if is_complete && !scenario.has_faults() && !world.was_cut {
        for (id, process) in world.alive() {
            let is_leader = matches!(process.place, Some(MemberRole::Leader(HostIndex(_))));
            let got = feeding.hosts.get(&id).map_or(0, |fed| fed.got);
            if is_leader && process.told_up && got != feed.total {
                return Err(format!("has {got} of {} bytes: {process:?}", feed.total));
            }
        }
    }
    Ok(())
}
