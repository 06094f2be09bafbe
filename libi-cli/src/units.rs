//! Parsers for command-line values: durations, percentages, varying costs, host counts.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use libi::hosts::{HostList, HostRef};
use libi_core::sim::jitter::Jitter;

use crate::output::CliError;

/// Parses a duration: a number with a unit, or 0.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds_per_unit = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "" if number == "0" => 1.0,
        "" => return Err(format!("{text} has no unit; write {text}ms or {text}s")),
        _ => return Err(format!("unknown unit {unit:?}; use ns, us, ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| "a duration begins with a number, as in 7ms".to_owned())?;
    let seconds = Duration::try_from_secs_f64(number * seconds_per_unit);
    match seconds {
        Ok(duration) if duration.is_zero() && number > 0.0 => Err("less than a nanosecond".to_owned()),
        Ok(duration) if duration <= Duration::from_secs(366 * 86_400) => Ok(duration),
        _ => Err("longer than a year".to_owned()),
    }
}

/// Parses a percentage from 0 to 100 as a fraction.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or_else(|| format!("a percentage ends in %: {text}%?"))?;
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a percentage is a number from 0% to 100%".to_owned()),
    }
}

/// Parses a cost: `172ms`, `172ms~50%` for ±50 %, `172ms~log0.5` for a log-normal distribution,
/// `@FILE` for one duration per host.
pub(crate) fn jitter(text: &str) -> Result<Jitter, String> {
    if let Some(path) = text.strip_prefix('@') {
        return per_host(path);
    }
    let Some((middle, variation)) = text.split_once('~') else {
        return Ok(Jitter::Constant(duration(text)?));
    };
    let middle = duration(middle)?;
    match variation.strip_prefix("log") {
        None => Ok(Jitter::Uniform { middle, within: percentage(variation)? }),
        Some(sigma) => match sigma.parse::<f64>() {
            Ok(sigma) if (0.0..=5.0).contains(&sigma) => Ok(Jitter::LogNormal { median: middle, sigma }),
            _ => Err("~log needs a standard deviation from 0 to 5, as in 172ms~log0.5".to_owned()),
        },
    }
}

fn per_host(path: &str) -> Result<Jitter, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let costs: Result<Arc<[_]>, _> = text.split_whitespace().map(duration).collect();
    match costs.map_err(|error| format!("{path}: {error}"))? {
        costs if costs.is_empty() => Err(format!("{path}: the file contains no duration")),
        costs => Ok(Jitter::PerHost(costs)),
    }
}

/// Parses the slow hosts: `5%x10` makes one host in twenty ten times as slow.
pub(crate) fn slow(text: &str) -> Result<(f64, f64), String> {
    let (fraction, factor) =
        text.split_once('x').ok_or_else(|| "expected a percentage and a factor, as in 5%x10".to_owned())?;
    match factor.parse::<f64>() {
        Ok(factor) if (1.0..=1e6).contains(&factor) => Ok((percentage(fraction)?, factor)),
        _ => Err("the factor is from 1 to 1000000, as in 5%x10".to_owned()),
    }
}

/// The most hosts in a simulation or a plan; that many take a few GB of memory.
const MAX_HOSTS: u32 = 10_000_000;

/// The hosts of a plan or a simulation: a count, or a list.
#[derive(Clone, Debug)]
pub(crate) struct HostSet {
    pub(crate) count: NonZeroU32,
    /// Each host once.
    names: Option<HostList>,
}

impl HostSet {
    /// Parses a number or a host list. A host that is named twice counts once.
    pub(crate) fn read(text: &str) -> Result<Self, CliError> {
        if let Some(count) = number_of_hosts(text) {
            return Ok(Self { count: count.map_err(CliError::Usage)?, names: None });
        }
        let list = HostList::parse(text).map_err(|error| CliError::HostList(error, text.to_owned()))?;
        let list = libi_core::dist::distinct(&list);
        let count = u32::try_from(list.len()).ok().and_then(NonZeroU32::new).ok_or(CliError::NoHosts)?;
        Ok(Self { count, names: Some(list) })
    }

    /// The name of a host in text: its entry in the list, or its number.
    pub(crate) fn name(&self, node: u32) -> String {
        match self.names.as_ref().and_then(|list| list.entry(node as usize)) {
            // The count is irrelevant here, but a port cannot be written without one.
            Some(host) if host.port.is_none() => HostRef { count: 1, ..host }.to_string(),
            Some(host) => host.to_string(),
            None => format!("host {node}"),
        }
    }

    /// The name of a host in JSON: its entry in the list, or its number.
    pub(crate) fn json(&self, node: u32) -> serde_json::Value {
        if self.names.is_some() { self.name(node).into() } else { node.into() }
    }
}

/// Parses text that can only be a number of hosts; `None` if it is a list.
fn number_of_hosts(text: &str) -> Option<Result<NonZeroU32, String>> {
    let numeric =
        |c: char| c.is_ascii_digit() || matches!(c, ',' | '_' | '.' | 'e' | 'E' | 'k' | 'K' | 'm' | 'M');
    if !text.starts_with(|c: char| c.is_ascii_digit()) || !text.chars().all(numeric) {
        return None;
    }
    Some(match text.parse::<NonZeroU32>() {
        Ok(count) if count.get() <= MAX_HOSTS => Ok(count),
        _ => Err(format!("{text}: a number of hosts consists of digits only and is from 1 to {MAX_HOSTS}")),
    })
}

/// Parses the number of runs.
pub(crate) fn runs(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(runs @ 1..=1_000_000) => Ok(runs),
        _ => Err("a number of runs is from 1 to 1000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_take_fractions() {
        assert_eq!(duration("7ms"), Ok(Duration::from_millis(7)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["7", "ms", "7 ms", "-7ms", "7parsec", "1e3s", "..s", "9999999m", "0.1ns", ""] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cost_variation_is_parsed() {
        let middle = Duration::from_millis(172);
        assert_eq!(jitter("172ms"), Ok(Jitter::Constant(middle)));
        assert_eq!(jitter("172ms~50%"), Ok(Jitter::Uniform { middle, within: 0.5 }));
        assert_eq!(jitter("172ms~log0.5"), Ok(Jitter::LogNormal { median: middle, sigma: 0.5 }));
        for wrong in ["172ms~", "172ms~50", "172ms~200%", "172ms~log", "172ms~lognan", "@/no/such/file"] {
            assert!(jitter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_looks_like_a_host_count_is_one_or_is_rejected() {
        assert_eq!(number_of_hosts("1000"), Some(Ok(NonZeroU32::new(1_000).unwrap())));
        for wrong in ["0", "10000001", "1e6", "10k", "1,000", "1_000", "99999999999", "1.5"] {
            assert!(matches!(number_of_hosts(wrong), Some(Err(_))), "{wrong}");
        }
        for list in ["node1", "[1-3]", "n1,n2", "1a", "10.0.0.1:4", ""] {
            assert!(number_of_hosts(list).is_none(), "{list}");
        }
    }

    #[test]
    fn slow_hosts_are_a_fraction_and_a_factor() {
        assert_eq!(slow("5%x10"), Ok((0.05, 10.0)));
        for wrong in ["5%", "5x10", "5%x0.5", "101%x2", "5%xinf", "x"] {
            assert!(slow(wrong).is_err(), "{wrong}");
        }
    }
}
