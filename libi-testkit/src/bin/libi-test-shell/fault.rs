//! The faults: how they are written, whom they befall, and what ssh would say.

use std::time::Duration;

use crate::chance::Chance;
use crate::line::Call;
use crate::words::{Problem, Words, percentage, text};

/// A line `fault`: what befalls whom, and how often.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    hosts: Selector,
    /// From where calls are befallen; `None`: from everywhere.
    callers: Option<Selector>,
    /// The last attempt of a host that it befalls; `None`: it befalls them all.
    pub(crate) times: Option<u64>,
    pub(crate) fault: Fault,
}

#[derive(Clone, Debug, PartialEq)]
enum Selector {
    /// Hosts whose name matches: `*` for any text, `?` for any character.
    Pattern(String),
    /// This fraction of all hosts, drawn by name.
    Fraction(f64),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    BannerBefore(Vec<u8>),
    BannerAfter(Vec<u8>),
    Warn(Vec<u8>),
    Garbage(u64),
    Delay(Duration),
    Slow(f64),
    CloseStdin,
    Relay,
    Cut(u64),
    HangAfter(u64),
    Refuse(LoginFault),
    Hang,
    NotFound,
    Exit { status: u8, after: Duration },
}

/// What keeps ssh from logging in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginFault {
    Refused,
    TimedOut(Duration),
    UnknownHost,
    Closed,
    Reset,
    HostKey,
    Permission,
}

/// Where a call ends that does not get to its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// There is never a connection: REM is not waited for.
    Connecting,
    /// There is one, but no login.
    LoggingIn,
    /// It is logged in.
    LoggedIn,
}

impl Rule {
    /// Reads what follows the word `fault`.
    pub(crate) fn parse(words: &mut Words<'_>) -> Result<Self, Problem> {
        let hosts = Selector::parse("fault", words)?;
        let callers = words.skip("from").then(|| Selector::parse("from", words)).transpose()?;
        let times = if words.skip("once") {
            Some(1)
        } else if words.skip("times") {
            Some(words.number("times")?)
        } else {
            None
        };
        Ok(Self { hosts, callers, times, fault: Fault::parse(words)? })
    }

    /// Whether it befalls this attempt. The position of the rule makes the percentages of two rules
    /// independent.
    pub(crate) fn befalls(
        &self,
        from: &str,
        host: &str,
        attempt: u64,
        position: u64,
        chance: Chance,
    ) -> bool {
        let picks = |selector: &Selector, purpose, name: &str| match selector {
            Selector::Pattern(pattern) => matches(pattern.as_bytes(), name.as_bytes()),
            Selector::Fraction(fraction) => chance.fraction(purpose, name, position) < *fraction,
        };
        self.times.is_none_or(|times| attempt <= times)
            && picks(&self.hosts, "fault", host)
            && self.callers.as_ref().is_none_or(|callers| picks(callers, "from", from))
    }
}

impl Selector {
    fn parse(setting: &'static str, words: &mut Words<'_>) -> Result<Self, Problem> {
        words.value(setting, "a host name, a pattern or a percentage", |word| {
            let numeric = word.ends_with('%');
            let pattern = (!numeric).then(|| Self::Pattern(word.to_owned()));
            if numeric { percentage(word).map(Self::Fraction) } else { pattern }
        })
    }
}

impl Fault {
    fn parse(words: &mut Words<'_>) -> Result<Self, Problem> {
        const TEXT: &str = r"text, in which \n \r \t \\ \xHH and a last \c are special";
        let name = words.next().unwrap_or_default();
        let mut said = |setting| {
            let rest = words.rest();
            text(rest).ok_or_else(|| Problem::Wants { setting, wanted: TEXT, found: Some(rest.to_owned()) })
        };
        Ok(match name {
            "banner-before" => Self::BannerBefore(said("banner-before")?),
            "banner-after" => Self::BannerAfter(said("banner-after")?),
            "warn" => Self::Warn(said("warn")?),
            "garbage" => Self::Garbage(words.number("garbage")?),
            "delay" => Self::Delay(words.duration("delay")?),
            "slow" => Self::Slow(words.value("slow", "a factor such as x3 or x1.5, up to x1000", factor)?),
            "close-stdin" => Self::CloseStdin,
            "relay" => Self::Relay,
            "cut" => Self::Cut(words.number("cut")?),
            "hang-after" => Self::HangAfter(words.number("hang-after")?),
            "refuse" => Self::Refuse(LoginFault::parse(words)?),
            "hang" => Self::Hang,
            "not-found" => Self::NotFound,
            "exit" => Self::Exit {
                status: words.value("exit", "a status from 0 to 255", |word| word.parse().ok())?,
                after: words.after("exit")?,
            },
            _ => return Err(Problem::Unknown { what: "fault", found: name.to_owned() }),
        })
    }

    /// How it is called in the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::BannerBefore(_) => "banner-before",
            Self::BannerAfter(_) => "banner-after",
            Self::Warn(_) => "warn",
            Self::Garbage(_) => "garbage",
            Self::Delay(_) => "delay",
            Self::Slow(_) => "slow",
            Self::CloseStdin => "close-stdin",
            Self::Relay => "relay",
            Self::Cut(_) => "cut",
            Self::HangAfter(_) => "hang-after",
            Self::Refuse(_) => "refuse",
            Self::Hang => "hang",
            Self::NotFound => "not-found",
            Self::Exit { .. } => "exit",
        }
    }

    /// Where the call ends with it, if it does.
    pub(crate) fn stage(&self) -> Option<Stage> {
        match self {
            Self::Refuse(LoginFault::HostKey | LoginFault::Permission) => Some(Stage::LoggingIn),
            Self::Refuse(_) | Self::Hang => Some(Stage::Connecting),
            Self::NotFound | Self::Exit { .. } => Some(Stage::LoggedIn),
            _ => None,
        }
    }
}

impl LoginFault {
    fn parse(words: &mut Words<'_>) -> Result<Self, Problem> {
        const KINDS: &str = "refused, timed-out, unknown-host, closed, reset, host-key or permission";
        let Some(kind) = words.next() else { return Ok(Self::Refused) };
        Ok(match kind {
            "refused" => Self::Refused,
            "timed-out" => Self::TimedOut(words.after("refuse timed-out")?),
            "unknown-host" => Self::UnknownHost,
            "closed" => Self::Closed,
            "reset" => Self::Reset,
            "host-key" => Self::HostKey,
            "permission" => Self::Permission,
            found => {
                let found = Some(found.to_owned());
                return Err(Problem::Wants { setting: "refuse", wanted: KINDS, found });
            }
        })
    }

    /// What ssh says, without the ends of the lines.
    pub(crate) fn lines(self, call: &Call) -> Vec<String> {
        let host = &call.host;
        let port = call.port.as_deref().unwrap_or("22");
        match self {
            Self::Refused => vec![format!("ssh: connect to host {host} port {port}: Connection refused")],
            Self::TimedOut(_) => {
                vec![format!("ssh: connect to host {host} port {port}: Connection timed out")]
            }
            Self::UnknownHost => {
                vec![format!("ssh: Could not resolve hostname {host}: Name or service not known")]
            }
            Self::Closed => vec![
                "kex_exchange_identification: Connection closed by remote host".to_owned(),
                format!("Connection closed by {host} port {port}"),
            ],
            Self::Reset => vec![
                "kex_exchange_identification: read: Connection reset by peer".to_owned(),
                format!("Connection reset by {host} port {port}"),
            ],
            Self::HostKey => vec![
                format!("No ED25519 host key is known for {host} and you have requested strict checking."),
                "Host key verification failed.".to_owned(),
            ],
            Self::Permission => {
                let user = call.user.clone().or_else(|| std::env::var("USER").ok());
                vec![format!("{}@{host}: Permission denied (publickey).", user.as_deref().unwrap_or("user"))]
            }
        }
    }
}

fn factor(word: &str) -> Option<f64> {
    let number = word.strip_prefix('x')?;
    number.bytes().all(|c| c.is_ascii_digit() || c == b'.').then_some(())?;
    number.parse().ok().filter(|factor| *factor <= 1000.0)
}

/// Whether the text is what the pattern says. When something does not fit, only the last `*` is
/// asked to take one byte more: what earlier ones took is as good as anything else they could have
/// taken.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(line: &str) -> Rule {
        Rule::parse(&mut Words::of(line)).unwrap()
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, expected) in [
            ("node007", "node007", true),
            ("node007", "node0071", false),
            ("node*", "node007", true),
            ("node*", "login", false),
            ("*7", "node7-17", true),
            ("n?de*0*7", "node007", true),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        let long = "a".repeat(50_000);
        assert!(!matches(b"*a*a*a*a*a*b", long.as_bytes()));
    }

    #[test]
    fn a_percentage_picks_the_same_hosts_every_time_and_others_for_another_rule_or_seed() {
        let rule = rule("30% hang");
        let picked = |position, seed| -> Vec<u32> {
            (0..1000).filter(|i| rule.befalls("front", &format!("n{i}"), 1, position, Chance(seed))).collect()
        };
        let hosts = picked(0, 1);
        assert!((250..350).contains(&hosts.len()), "{}", hosts.len());
        assert_eq!(hosts, picked(0, 1));
        assert_ne!(hosts, picked(1, 1));
        assert_ne!(hosts, picked(0, 2));
    }

    #[test]
    fn a_rule_for_some_times_befalls_the_first_attempts_only() {
        let befallen = |line: &str| -> Vec<u64> {
            (1..6).filter(|&attempt| rule(line).befalls("front", "n1", attempt, 0, Chance(0))).collect()
        };
        assert_eq!(befallen("n1 once refuse"), [1]);
        assert_eq!(befallen("n1 times 3 refuse"), [1, 2, 3]);
        assert_eq!(befallen("n1 refuse"), [1, 2, 3, 4, 5]);
        assert_eq!(befallen("0% refuse"), [0; 0]);
        assert_eq!(befallen("100% refuse"), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_rule_for_callers_befalls_calls_from_there_alone() {
        let befallen = |line: &str, from: &str| rule(line).befalls(from, "n1", 1, 0, Chance(0));
        for (line, from_front, from_host) in [
            ("n1 from n* hang", false, true),
            ("n1 from front once hang", true, false),
            ("n2 from n* hang", false, false),
            ("n1 hang", true, true),
        ] {
            assert_eq!((befallen(line, "front"), befallen(line, "n7")), (from_front, from_host), "{line}");
        }
    }
}
