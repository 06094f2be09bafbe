//! The configuration: what its lines mean. The page of the program has the grammar for people.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::chance::Chance;
use crate::fault::{Fault, Rule};
use crate::words::{Problem, Words, duration, percentage};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    pub(crate) chance: Chance,
    pub(crate) seq: Cost,
    pub(crate) rem: Cost,
    /// How many calls of a launching host may be in places at once, and for how long each is.
    pub(crate) places: Option<(u64, Cost)>,
    pub(crate) locks: Option<PathBuf>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) record: Option<PathBuf>,
    pub(crate) lifetime: Duration,
    pub(crate) limits: Vec<Limit>,
    rules: Vec<Rule>,
}

/// A cost and by how much it varies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    middle: Duration,
    /// The largest deviation as a fraction of the middle.
    within: f64,
}

/// At most so many calls at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) most: u64,
    pub(crate) counted: Counted,
    pub(crate) per: Per,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Until the call is connected.
    Starting,
    /// Until the call has ended.
    Running,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Per {
    Launcher,
    Target,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    pub(crate) line: usize,
    pub(crate) problem: Problem,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl Error for ConfigError {}

impl Default for Config {
    /// No costs and no faults.
    fn default() -> Self {
        Self {
            chance: Chance::default(),
            seq: Cost::default(),
            rem: Cost::default(),
            places: None,
            locks: None,
            log: None,
            record: None,
            lifetime: Duration::from_secs(60),
            limits: Vec::new(),
            rules: Vec::new(),
        }
    }
}

impl Config {
    /// Reads the text of a file of this directory.
    pub(crate) fn parse(text: &str, directory: &Path) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let mut seen = Vec::new();
        let mut first_need = None;
        for (line, content) in (1..).zip(text.lines()) {
            let mut words = Words::of(content);
            let Some(name) = words.next().filter(|name| !name.starts_with('#')) else { continue };
            let needs_locks = config
                .setting(name, &mut words, directory, &mut seen)
                .and_then(|needs| words.end().map(|()| needs))
                .map_err(|problem| ConfigError { line, problem })?;
            first_need = first_need.or(needs_locks.then_some(line));
        }
        match first_need {
            Some(line) if config.locks.is_none() => Err(ConfigError { line, problem: Problem::NeedsLocks }),
            _ => Ok(config),
        }
    }

    /// The faults that befall this attempt, in their order; the last of them may be one that ends
    /// it.
    pub(crate) fn faults(&self, from: &str, host: &str, attempt: u64) -> Vec<&Fault> {
        let mut faults = Vec::new();
        for (position, rule) in (0..).zip(&self.rules) {
            if rule.befalls(from, host, attempt, position, self.chance) {
                faults.push(&rule.fault);
                if rule.fault.stage().is_some() {
                    break;
                }
            }
        }
        faults
    }

    /// Takes in one line, and says whether it works only with a directory for locks.
    fn setting(
        &mut self,
        name: &str,
        words: &mut Words<'_>,
        directory: &Path,
        seen: &mut Vec<&'static str>,
    ) -> Result<bool, Problem> {
        let mut once = |setting| {
            let known = seen.contains(&setting);
            seen.push(setting);
            if known { Err(Problem::Twice { setting }) } else { Ok(()) }
        };
        let mut needs_locks = false;
        match name {
            "seed" => {
                once("seed")?;
                self.chance = Chance(words.number("seed")?);
            }
            "seq" => {
                once("seq")?;
                self.seq = Cost::parse("seq", words)?;
                needs_locks = self.seq.middle > Duration::ZERO;
            }
            "rem" => {
                once("rem")?;
                self.rem = Cost::parse("rem", words)?;
            }
            "places" => {
                once("places")?;
                let most = words.number("places")?.max(1);
                self.places = Some((most, Cost::parse("places", words)?));
                needs_locks = true;
            }
            "locks" => {
                once("locks")?;
                self.locks = Some(path("locks", words, directory)?);
            }
            "log" => {
                once("log")?;
                self.log = Some(path("log", words, directory)?);
            }
            "record" => {
                once("record")?;
                self.record = Some(path("record", words, directory)?);
            }
            "lifetime" => {
                once("lifetime")?;
                self.lifetime = words.duration("lifetime")?;
            }
            "limit" => {
                self.limits.push(Limit::parse(words)?);
                needs_locks = true;
            }
            "fault" => {
                let rule = Rule::parse(words)?;
                needs_locks = rule.times.is_some();
                self.rules.push(rule);
            }
            _ => return Err(Problem::Unknown { what: "setting", found: name.to_owned() }),
        }
        Ok(needs_locks)
    }
}

impl Cost {
    fn parse(setting: &'static str, words: &mut Words<'_>) -> Result<Self, Problem> {
        words.value(setting, "a cost such as 172ms or 172ms~50%", |word| {
            let (middle, within) = match word.split_once('~') {
                Some((middle, within)) => (middle, percentage(within)?),
                None => (word, 0.0),
            };
            Some(Self { middle: duration(middle)?, within })
        })
    }

    /// What this attempt costs, for a number from 0 to 1: anything within the deviation is equally
    /// likely.
    pub(crate) fn at(self, fraction: f64) -> Duration {
        self.middle.mul_f64(1.0 + self.within * (2.0 * fraction - 1.0))
    }
}

impl Limit {
    fn parse(words: &mut Words<'_>) -> Result<Self, Problem> {
        let most = words.number("limit")?;
        let counted = if words.skip("starting") {
            Counted::Starting
        } else {
            words.skip("running");
            Counted::Running
        };
        let per = if words.skip("per") {
            words.value("per", "launcher or target", |word| match word {
                "launcher" => Some(Per::Launcher),
                "target" => Some(Per::Target),
                _ => None,
            })?
        } else {
            Per::Launcher
        };
        Ok(Self { most, counted, per })
    }
}

/// Reads what is left of the line as a path, seen from this directory.
fn path(setting: &'static str, words: &mut Words<'_>, directory: &Path) -> Result<PathBuf, Problem> {
    match words.rest() {
        "" => Err(Problem::Wants { setting, wanted: "a path", found: None }),
        path => Ok(directory.join(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::LoginFault;

    fn parsed(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("/t"))
    }

    fn problem(text: &str) -> String {
        parsed(text).unwrap_err().to_string()
    }

    #[test]
    fn every_setting_is_read() {
        let config = parsed(
            "# costs\nseed 42\n  seq 7ms\nrem 172ms~50%\nplaces 2 50ms\n\nlocks my locks\nlog /var/log\nrecord input\nlifetime 5s\n\
             limit 4\nlimit 10 starting per target\nfault node* once refuse\n",
        )
        .unwrap();
        assert_eq!(config.chance, Chance(42));
        assert_eq!(config.seq.at(0.9), Duration::from_millis(7));
        let rem = [0.0, 0.5, 1.0].map(|fraction| config.rem.at(fraction).as_millis());
        assert_eq!(rem, [86, 172, 258]);
        assert_eq!(config.places.map(|(most, cost)| (most, cost.at(0.1).as_millis())), Some((2, 50)));
        assert_eq!(config.locks.as_deref(), Some(Path::new("/t/my locks")));
        assert_eq!(config.log.as_deref(), Some(Path::new("/var/log")));
        assert_eq!(config.record.as_deref(), Some(Path::new("/t/input")));
        assert_eq!(config.lifetime, Duration::from_secs(5));
        let limits = [
            Limit { most: 4, counted: Counted::Running, per: Per::Launcher },
            Limit { most: 10, counted: Counted::Starting, per: Per::Target },
        ];
        assert_eq!(config.limits, limits);
        assert_eq!(config.faults("front", "node1", 1), [&Fault::Refuse(LoginFault::Refused)]);
        assert_eq!(config.faults("front", "node1", 2), [&Fault::Hang; 0]);
    }

    #[test]
    fn every_fault_is_read() {
        use Fault::*;
        let second = Duration::from_secs(1);
        for (line, fault) in [
            ("banner-before Hi  all \\x41", BannerBefore(b"Hi  all A\n".to_vec())),
            ("banner-after bye\\c", BannerAfter(b"bye".to_vec())),
            ("warn w", Warn(b"w\n".to_vec())),
            ("garbage 7", Garbage(7)),
            ("delay 1s", Delay(second)),
            ("slow x1.5", Slow(1.5)),
            ("close-stdin", CloseStdin),
            ("relay", Relay),
            ("cut 9", Cut(9)),
            ("hang-after 0", HangAfter(0)),
            ("refuse", Refuse(LoginFault::Refused)),
            ("refuse timed-out", Refuse(LoginFault::TimedOut(Duration::ZERO))),
            ("refuse timed-out after 1s", Refuse(LoginFault::TimedOut(second))),
            ("refuse permission", Refuse(LoginFault::Permission)),
            ("hang", Hang),
            ("not-found", NotFound),
            ("exit 3", Exit { status: 3, after: Duration::ZERO }),
            ("exit 3 after 1s", Exit { status: 3, after: second }),
        ] {
            let config = parsed(&format!("fault * {line}")).unwrap();
            assert_eq!(config.faults("front", "h", 1), [&fault], "{line}");
            assert!(line.starts_with(fault.name()));
        }
    }

    #[test]
    fn faults_gather_until_one_ends_the_call() {
        let config = parsed("fault * warn a\nfault h? delay 1s\nfault h1 hang\nfault * warn b").unwrap();
        let names =
            |host| config.faults("front", host, 1).iter().map(|fault| fault.name()).collect::<Vec<_>>();
        assert_eq!(names("h1"), ["warn", "delay", "hang"]);
        assert_eq!(names("h2"), ["warn", "delay", "warn"]);
        assert_eq!(names("front"), ["warn", "warn"]);
    }

    #[test]
    fn a_mistake_is_reported_with_its_line() {
        for (text, expected) in [
            ("seed 1\nsped 2", "line 2: there is no setting `sped`"),
            ("seed", "line 1: `seed` wants a number"),
            ("seed -1", "line 1: `seed` wants a number, not `-1`"),
            ("seq 7", "line 1: `seq` wants a cost such as 172ms or 172ms~50%, not `7`"),
            ("rem 7ms~50", "line 1: `rem` wants a cost such as 172ms or 172ms~50%, not `7ms~50`"),
            ("\n\nseed 1\nseed 1", "line 4: `seed` was given before"),
            ("seed 1 2", "line 1: nothing is expected where `2` begins"),
            ("log ", "line 1: `log` wants a path"),
            ("limit 4 per node", "line 1: `per` wants launcher or target, not `node`"),
            ("limit 4 walking", "line 1: nothing is expected where `walking` begins"),
            ("fault", "line 1: `fault` wants a host name, a pattern or a percentage"),
            ("fault 101% hang", "line 1: `fault` wants a host name, a pattern or a percentage, not `101%`"),
            ("fault * from", "line 1: `from` wants a host name, a pattern or a percentage"),
            ("fault * explode", "line 1: there is no fault `explode`"),
            ("fault *", "line 1: there is no fault ``"),
            ("fault * exit 256", "line 1: `exit` wants a status from 0 to 255, not `256`"),
            ("fault * slow 2", "line 1: `slow` wants a factor such as x3 or x1.5, up to x1000, not `2`"),
            ("fault * hang 1s", "line 1: nothing is expected where `1s` begins"),
            ("rem 1s\nseq 7ms", "line 2: this works only with a `locks DIR` line"),
            ("limit 4", "line 1: this works only with a `locks DIR` line"),
            ("places 1 7ms", "line 1: this works only with a `locks DIR` line"),
            ("places 1", "line 1: `places` wants a cost such as 172ms or 172ms~50%"),
            ("fault * once hang", "line 1: this works only with a `locks DIR` line"),
        ] {
            assert_eq!(problem(text), expected, "{text}");
        }
        assert!(problem("fault * refuse politely").starts_with("line 1: `refuse` wants refused, timed-out,"));
        assert!(problem("fault * warn \\q").ends_with("not `\\q`"));
        assert!(parsed("seq 0s").is_ok());
    }
}
