//! Measures how much faster `ssh` logins are with libi's fast profile: logs in to a few hosts, one
//! at a time, alternating between both profiles.

use std::io;
use std::time::Duration;

use libi::SshProfile;
use libi::hosts::HostList;
use nix::sys::resource::{UsageWho, getrusage};

use super::exam::ExamOptions;
use super::examiner::Examiner;
use super::finding::Finding;
use super::remote_shell;
use crate::backend::BackendChoice;

/// How many hosts are measured at most.
const MAX_HOSTS: usize = 4;
/// How many logins are made per host and profile.
const LOGINS_PER_PROFILE: usize = 3;

/// The measurement of one host.
#[derive(Clone, Debug)]
pub(super) struct Gain {
    /// Its index in the host list.
    pub(super) host: usize,
    pub(super) own: LoginCost,
    pub(super) fast: LoginCost,
}

/// The cost of a login: medians.
#[derive(Clone, Debug)]
pub(super) struct LoginCost {
    pub(super) set_up: Duration,
    /// Processor time on this machine, of the client and its descendants.
    pub(super) processor: Duration,
    /// The key exchange algorithm.
    pub(super) key_exchange: Option<String>,
}

/// Measures hosts without a problem, evenly spaced over the list. A host with a failed login is
/// left out of the result.
pub(super) fn measure(
    examiner: &mut Examiner,
    hosts: &HostList,
    findings: &[Finding],
    choice: &BackendChoice,
) -> io::Result<Vec<Gain>> {
    let fine: Vec<usize> =
        (0..).zip(findings).filter(|(_, found)| found.is_fine()).map(|(host, _)| host).collect();
    let mut gains = Vec::new();
    for host in evenly_spaced(&fine) {
        let mut one = HostList::new();
        if hosts.entry(host).is_none_or(|host| one.push(host).is_err()) {
            continue;
        }
        let mut seen: [Vec<LoginCost>; 2] = Default::default();
        for round in 0..2 * LOGINS_PER_PROFILE {
            if let Some(cost) = login(examiner, &one, [SshProfile::Own, SshProfile::Fast][round % 2], choice)?
            {
                seen[round % 2].push(cost);
            }
            if examiner.interrupted().is_some() {
                return Ok(gains);
            }
        }
        let [own, fast] =
            seen.map(|costs| if costs.len() == LOGINS_PER_PROFILE { median(costs) } else { None });
        gains.extend(own.zip(fast).map(|(own, fast)| Gain { host, own, fast }));
    }
    Ok(gains)
}

/// Logs in to one host; `None` if the login failed.
fn login(
    examiner: &mut Examiner,
    host: &HostList,
    profile: SshProfile,
    choice: &BackendChoice,
) -> io::Result<Option<LoginCost>> {
    let backend = remote_shell::backend(choice, profile, examiner.timeout);
    let options = ExamOptions { login_only: true, ..ExamOptions::default() };
    let before = processor()?;
    let found = examiner.examine(host, &backend, options, None, |_| {})?;
    // All child processes have been reaped, and no others run meanwhile.
    let processor = processor()?.saturating_sub(before);
    let cost = |found: Finding| {
        let set_up = found.set_up.filter(|_| found.problem.is_none())?;
        Some(LoginCost { set_up, processor, key_exchange: found.facts.key_exchange })
    };
    Ok(found.into_iter().next().and_then(cost))
}

/// The processor time of all reaped child processes.
fn processor() -> io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = [usage.user_time(), usage.system_time()].map(|time| {
        let seconds = Duration::from_secs(time.tv_sec().unsigned_abs());
        seconds + Duration::from_micros(time.tv_usec().unsigned_abs())
    });
    Ok(micros.into_iter().sum())
}

fn median(costs: Vec<LoginCost>) -> Option<LoginCost> {
    let median_of = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    };
    let set_up = median_of(costs.iter().map(|cost| cost.set_up).collect())?;
    let processor = median_of(costs.iter().map(|cost| cost.processor).collect())?;
    Some(LoginCost { set_up, processor, key_exchange: costs.into_iter().next()?.key_exchange })
}

/// Picks at most [`MAX_HOSTS`] of these, from the first to the last.
fn evenly_spaced(of: &[usize]) -> Vec<usize> {
    let count = of.len().min(MAX_HOSTS);
    let place = |i: usize| if count < 2 { 0 } else { i * (of.len() - 1) / (count - 1) };
    (0..count).filter_map(|i| of.get(place(i)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_are_spread_over_the_list() {
        let all: Vec<usize> = (10..110).collect();
        assert_eq!(evenly_spaced(&all), [10, 43, 76, 109]);
        assert_eq!(evenly_spaced(&all[..3]), [10, 11, 12]);
        assert_eq!((evenly_spaced(&all[..1]), evenly_spaced(&[])), (vec![10], vec![]));
    }

    #[test]
    fn a_single_slow_login_does_not_count() {
        let cost = |millis| LoginCost {
            set_up: Duration::from_millis(millis),
            processor: Duration::from_millis(100 - millis / 100),
            key_exchange: None,
        };
        let median = median(vec![cost(200), cost(9_000), cost(100)]).unwrap();
        assert_eq!((median.set_up.as_millis(), median.processor.as_millis()), (200, 98));
    }
}
