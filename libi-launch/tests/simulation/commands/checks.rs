//! What must hold of commands: every outcome is true, and in time.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::join::MemberRole;
use libi_core::time::Instant;
use libi_launch::machine::{CommandOutcome, CommandProcess, Notice};

use super::LONGEST;
use crate::scenario::Scenario;
use crate::world::Cluster;

/// The time after which a command has ended that nothing holds up.
const PROPAGATION: Duration = Duration::from_secs(20);
/// More output than this takes its time through windows of 64 KiB and ways of half a second.
pub(crate) const MUCH_OUTPUT: usize = 1 << 20;

/// While the session runs, and when it is over: every outcome is true, and in time.
pub(crate) fn checks(
    scenario: &Scenario,
    world: &Cluster,
    now: Instant,
    is_over: bool,
) -> Result<(), String> {
    if let Some(wrong) = &world.commands.wrong {
        return Err(wrong.clone());
    }
    for (id, asked) in &world.commands.asked {
        for (process, (at, outcome)) in &asked.outcomes {
            check_outcome(scenario, world, *process, (*at, outcome))?;
        }
        let is_due = asked.by.is_some_and(|by| by < now) || is_over;
        if is_due && asked.done.is_none() && world.processes[0].alive {
            return Err(format!("{id:?} has not ended in time: {asked:?}"));
        }
        let is_well = !scenario.has_faults() && !world.was_cut && world.last_fault == Instant::ZERO;
        let is_late = |process: &CommandProcess| match asked.outcomes.get(process) {
            Some((at, CommandOutcome::TimedOut)) => *at + PROPAGATION < now,
            _ => false,
        };
        let left = world.commands.running.values().find(|running| is_late(&running.process));
        if let Some(left) = left.filter(|_| is_well) {
            return Err(format!("{left:?} was late, and is not killed"));
        }
        let is_slow = !asked.is_short || scenario.reads.is_none() || have_printed_much(world);
        if is_well && !is_slow && asked.at + LONGEST + PROPAGATION < now && asked.done.is_none() {
            return Err(format!("nothing holds {id:?} up, and it has not ended: {asked:?}"));
        }
    }
    check_losses(world)?;
    check_deaths(scenario, world, now)
}

/// Processes have their outcomes some time after their agent was killed.
fn check_deaths(scenario: &Scenario, world: &Cluster, now: Instant) -> Result<(), String> {
    let noticed = scenario.rules.peer_timeout * 3 + scenario.rules.kill_grace * 8;
    for death in world.deaths.iter().filter(|death| death.at + noticed < now) {
        let Some(MemberRole::Leader(host)) = death.place else { continue };
        let lives = world.alive().any(|(_, agent)| agent.place == death.place);
        if lives || !world.processes[0].alive {
            continue;
        }
        for asked in world.commands.asked.values().filter(|asked| asked.hosts.contains(&host)) {
            let done = asked.outcomes.keys().filter(|process| process.host == host).count();
            if asked.at + noticed < now && done != asked.per_host as usize {
                return Err(format!("the agent of {host} was killed at {}, unnoticed: {asked:?}", death.at));
            }
        }
    }
    Ok(())
}

fn check_outcome(
    scenario: &Scenario,
    world: &Cluster,
    process: CommandProcess,
    (at, outcome): (Instant, &CommandOutcome),
) -> Result<(), String> {
    let commands = &world.commands;
    let bytes = |of: &BTreeMap<CommandProcess, Vec<u8>>| of.get(&process).cloned().unwrap_or_default();
    let (printed, read) = (bytes(&commands.printed), bytes(&commands.read));
    if !printed.starts_with(&read) {
        return Err(format!("what was read of {process:?} is not what it has printed"));
    }
    let asked = &commands.asked[&process.command];
    let ends = Instant::ZERO + scenario.ends;
    let is_true = match outcome {
        CommandOutcome::Exited(_) if read.len() != printed.len() => {
            let (read, printed) = (read.len(), printed.len());
            return Err(format!("{process:?} ended with {read} of {printed} bytes read"));
        }
        CommandOutcome::Exited(_) | CommandOutcome::NotStarted(_) => {
            commands.ends.get(&process) == Some(outcome)
        }
        CommandOutcome::Lost(_) => {
            let is_lost = world.notices.iter().any(|(_, notice)| match notice {
                Notice::Lost(host, _) => *host == process.host,
                _ => false,
            });
            // A host whose members have all left is lost without a notice.
            let is_agent = |place| place == Some(MemberRole::Leader(process.host));
            let lives = world.alive().any(|(_, agent)| is_agent(agent.place));
            let may_be_lost = is_lost || at >= ends || !lives && !scenario.is_without_programs();
            may_be_lost || world.failed_at_up.contains(&process.host) || !world.was_up(asked.at)
        }
        CommandOutcome::TimedOut => asked.by.is_some_and(|by| at >= by),
    };
    if is_true { Ok(()) } else { Err(format!("{process:?} has a wrong outcome at {at}: {outcome:?}")) }
}

/// Whether output takes its time, because commands have printed so much.
pub(crate) fn have_printed_much(world: &Cluster) -> bool {
    world.commands.printed.values().map(Vec::len).sum::<usize>() > MUCH_OUTPUT
}

/// Processes on a host that is reported as lost have their outcomes by then.
fn check_losses(world: &Cluster) -> Result<(), String> {
    let lost = world.notices.iter().filter_map(|(at, notice)| match notice {
        Notice::Lost(host, _) => Some((*host, *at)),
        _ => None,
    });
    for (host, at) in lost {
        for asked in world.commands.asked.values().filter(|asked| asked.hosts.contains(&host)) {
            let ended = asked.outcomes.iter().filter(|(process, _)| process.host == host);
            let in_time = ended.filter(|(_, (ended, _))| *ended <= at.max(asked.at)).count();
            if in_time != asked.per_host as usize {
                return Err(format!("{host} was lost at {at}, and has open processes: {asked:?}"));
            }
        }
    }
    Ok(())
}

impl Cluster {
    /// Whether the session was up at this time.
    fn was_up(&self, at: Instant) -> bool {
        self.notices.iter().any(|(since, notice)| *notice == Notice::Up && *since <= at)
    }
}
