//! What is written on the command line: durations, percentages, costs that vary, how many hosts.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use libi::sim::spread::Spread;

/// Reads a duration: a number with a unit, or 0.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds_per_unit = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "" if number == "0" => 1.0,
        "" => return Err(format!("{text} what? write {text}ms or {text}s")),
        _ => return Err(format!("there is no unit {unit:?}; there are ns, us, ms, s and m")),
    };
    let number: f64 = number.parse().map_err(|_| "a duration begins with a number, as in 7ms".to_owned())?;
    let seconds = Duration::try_from_secs_f64(number * seconds_per_unit);
    match seconds {
        Ok(duration) if duration <= Duration::from_secs(366 * 86_400) => Ok(duration),
        _ => Err("longer than a year".to_owned()),
    }
}

/// Reads a percentage of 0 to 100 as a fraction.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or_else(|| format!("a percentage ends in %: {text}%?"))?;
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a percentage is a number from 0% to 100%".to_owned()),
    }
}

/// Reads a cost: `172ms`, `172ms~50%` for ±50 %, `172ms~log0.5` for a log-normal one, `@FILE` for one per host.
pub(crate) fn spread(text: &str) -> Result<Spread, String> {
    if let Some(path) = text.strip_prefix('@') {
        return per_host(path);
    }
    let Some((middle, variation)) = text.split_once('~') else {
        return Ok(Spread::Constant(duration(text)?));
    };
    let middle = duration(middle)?;
    match variation.strip_prefix("log") {
        None => Ok(Spread::Uniform { middle, within: percentage(variation)? }),
        Some(sigma) => match sigma.parse::<f64>() {
            Ok(sigma) if (0.0..=5.0).contains(&sigma) => Ok(Spread::LogNormal { median: middle, sigma }),
            _ => Err("after ~log comes a standard deviation from 0 to 5, as in 172ms~log0.5".to_owned()),
        },
    }
}

fn per_host(path: &str) -> Result<Spread, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let costs: Result<Arc<[_]>, _> = text.split_whitespace().map(duration).collect();
    match costs.map_err(|error| format!("{path}: {error}"))? {
        costs if costs.is_empty() => Err(format!("{path}: there is no duration in it")),
        costs => Ok(Spread::PerHost(costs)),
    }
}

/// Reads which hosts are slow, and how much: `5%x10` makes one in twenty ten times as slow.
pub(crate) fn slow(text: &str) -> Result<(f64, f64), String> {
    let (fraction, factor) =
        text.split_once('x').ok_or_else(|| "write how many and how slow, as in 5%x10".to_owned())?;
    match factor.parse::<f64>() {
        Ok(factor) if (1.0..=1e6).contains(&factor) => Ok((percentage(fraction)?, factor)),
        _ => Err("slow hosts are 1 to 1000000 times as slow, as in 5%x10".to_owned()),
    }
}

/// How many hosts a simulation or a plan can have: what a plan for them takes stays within a few GB.
pub(crate) const MOST_HOSTS: u32 = 10_000_000;

/// Reads a number of hosts.
pub(crate) fn host_count(text: &str) -> Result<NonZeroU32, String> {
    match text.parse::<NonZeroU32>() {
        Ok(count) if count.get() <= MOST_HOSTS => Ok(count),
        _ => Err(format!("a number of hosts is from 1 to {MOST_HOSTS}")),
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
        for wrong in ["7", "ms", "7 ms", "-7ms", "7parsec", "1e3s", "..s", "9999999m", ""] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn costs_vary_as_they_are_told() {
        let middle = Duration::from_millis(172);
        assert_eq!(spread("172ms"), Ok(Spread::Constant(middle)));
        assert_eq!(spread("172ms~50%"), Ok(Spread::Uniform { middle, within: 0.5 }));
        assert_eq!(spread("172ms~log0.5"), Ok(Spread::LogNormal { median: middle, sigma: 0.5 }));
        for wrong in ["172ms~", "172ms~50", "172ms~200%", "172ms~log", "172ms~lognan", "@/no/such/file"] {
            assert!(spread(wrong).is_err(), "{wrong}");
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
