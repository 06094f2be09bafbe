//! Calls of one step that differ: who hears of it.

use std::time::Duration;

use libi_comm::CommError;

use super::{History, are_mixed};
use crate::member::{Ending, Record, call_id};
use crate::world::Cluster;

impl History {
    /// If nothing else goes wrong, all members get the mismatch: those that had completed the call
    /// in a later one.
    pub(super) fn mismatches_were_told(&self, world: &Cluster) -> Result<(), String> {
        for step in &self.differ {
            let records = || world.members.iter().flat_map(|member| member.calls.values());
            let gave_up = |record: &Record| matches!(record.ended, Some((_, Ending::GivenUp)));
            let other_fault = records().any(|other| other.step == *step && gave_up(other));
            let bad_roots = world.scenario.bad_roots.iter().any(|(_, at)| at == step);
            let is_hidden = !world.scenario.completion.strict && !self.are_compared(world, *step);
            if world.scenario.has_losses() || bad_roots || other_fault || is_hidden {
                continue;
            }
            for record in records().filter(|record| record.step == *step) {
                // It is complete for this member, or fails because of an earlier call.
                let may_differ = matches!(record.ended, Some((_, Ending::Right | Ending::Failed(_))));
                if !world.scenario.completion.strict && may_differ {
                    continue;
                }
                if !matches!(record.ended, Some((_, Ending::Failed(CommError::Mismatch { .. })))) {
                    return Err(format!(
                        "calls differ at step {step}, but this call does not fail: {record:?}"
                    ));
                }
            }
            self.later_calls_fail(world, *step)?;
        }
        Ok(())
    }

    /// The first collective call that a member makes when every process must know of a mismatch
    /// fails, or one before it has failed.
    fn later_calls_fail(&self, world: &Cluster, step: u32) -> Result<(), String> {
        let last = self.called[&step].values().map(|(at, _)| *at).max().unwrap_or_default();
        let hops = 3 * world.members.len() as u32 + 3;
        let known =
            last + Duration::from_millis(20) + (world.scenario.latency + Duration::from_micros(1)) * hops;
        for member in world.members.iter().filter(|member| member.process.address.is_some()) {
            let later = self.collective.iter().filter(|later| **later >= step);
            let records = later.filter_map(|later| member.calls.get(&call_id(*later, 0)));
            let mut has_failed = false;
            for record in records {
                has_failed |= matches!(record.ended, Some((_, Ending::Failed(_))));
                if record.at > known && !has_failed {
                    let who = &member.process;
                    return Err(format!("{who} does not hear that calls differ at step {step}: {record:?}"));
                }
                if record.at > known {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether calls differ among those that are compared: one that fails because of an earlier call takes no
    /// part in its own, and where a member does not call, what comes from others may wait there.
    fn are_compared(&self, world: &Cluster, step: u32) -> bool {
        if self.called[&step].len() < world.session.present.len() {
            return false;
        }
        let number = self.collective.iter().position(|other| *other == step);
        let takes_part = |record: &Record| match record.ended {
            Some((
                _,
                Ending::Failed(
                    CommError::Cancelled { nth, .. }
                    | CommError::Mismatch { nth, .. }
                    | CommError::Failed { nth, .. },
                ),
            )) => Some(nth as usize) == number,
            _ => true,
        };
        let calls = self.called[&step].iter().filter(|(rank, _)| {
            let mut records =
                world.processes_of(**rank).filter_map(|member| member.calls.get(&call_id(step, 0)));
            records.any(takes_part)
        });
        are_mixed(&calls.map(|(_, (_, what))| what).collect::<Vec<_>>())
    }
}
