//! How a line of the configuration is taken apart, and what can be wrong with it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// There is no such setting, or no such fault.
    Unknown { what: &'static str, found: String },
    /// A value is missing or is not what the setting takes.
    Wants { setting: &'static str, wanted: &'static str, found: Option<String> },
    /// Words are left over.
    TooMuch { found: String },
    /// The setting was given before.
    Twice { setting: &'static str },
    /// The setting keeps count or takes turns in files, and there is no directory for them.
    NeedsLocks,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { what, found } => write!(f, "there is no {what} `{found}`"),
            Self::Wants { setting, wanted, found: Some(found) } => {
                write!(f, "`{setting}` wants {wanted}, not `{found}`")
            }
            Self::Wants { setting, wanted, found: None } => write!(f, "`{setting}` wants {wanted}"),
            Self::TooMuch { found } => write!(f, "nothing is expected where `{found}` begins"),
            Self::Twice { setting } => write!(f, "`{setting}` was given before"),
            Self::NeedsLocks => write!(f, "this works only with a `locks DIR` line"),
        }
    }
}

impl Error for Problem {}

/// The words of a line that have not been read yet.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    pub(crate) fn of(line: &'a str) -> Self {
        Self(line.trim())
    }

    pub(crate) fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.0.split_once(char::is_whitespace).unwrap_or((self.0, ""));
        self.0 = rest.trim_start();
        (!word.is_empty()).then_some(word)
    }

    /// Reads the next word if it is this one.
    pub(crate) fn skip(&mut self, word: &str) -> bool {
        let mut ahead = self.clone();
        let found = ahead.next() == Some(word);
        if found {
            *self = ahead;
        }
        found
    }

    /// Reads everything that is left.
    pub(crate) fn rest(&mut self) -> &'a str {
        std::mem::take(&mut self.0)
    }

    /// Nothing may be left.
    pub(crate) fn end(mut self) -> Result<(), Problem> {
        match self.next() {
            None => Ok(()),
            Some(found) => Err(Problem::TooMuch { found: found.to_owned() }),
        }
    }

    /// Reads a word as a value of this setting.
    pub(crate) fn value<T>(
        &mut self,
        setting: &'static str,
        wanted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Problem> {
        let word = self.next();
        word.and_then(read).ok_or_else(|| Problem::Wants { setting, wanted, found: word.map(str::to_owned) })
    }

    pub(crate) fn duration(&mut self, setting: &'static str) -> Result<Duration, Problem> {
        self.value(setting, "a duration such as 7ms, 1.5s or 20us", duration)
    }

    pub(crate) fn number(&mut self, setting: &'static str) -> Result<u64, Problem> {
        self.value(setting, "a number", |word| word.parse().ok())
    }

    /// Reads `after D`, or nothing.
    pub(crate) fn after(&mut self, setting: &'static str) -> Result<Duration, Problem> {
        if self.skip("after") { self.duration(setting) } else { Ok(Duration::ZERO) }
    }
}

/// Reads `7ms`, `1.5s` or `20us`, up to a day.
pub(crate) fn duration(word: &str) -> Option<Duration> {
    const DAY: f64 = 86_400.0;
    let unit = word.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let scale = match &word[unit..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    let seconds = word[..unit].parse::<f64>().ok()? * scale;
    (seconds <= DAY).then(|| Duration::from_secs_f64(seconds))
}

/// Reads `30%` or `0.5%`, as a fraction of at most 1.
pub(crate) fn percentage(word: &str) -> Option<f64> {
    let number = word.strip_suffix('%')?;
    // Not what else a float may look like: signs, exponents, names.
    number.bytes().all(|c| c.is_ascii_digit() || c == b'.').then_some(())?;
    let fraction = number.parse::<f64>().ok()? / 100.0;
    (fraction <= 1.0).then_some(fraction)
}

/// Reads text with `\n`, `\r`, `\t`, `\\` and `\xHH`, and ends it with a new line unless it ends
/// with `\c`.
pub(crate) fn text(word: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(word.len() + 1);
    let mut rest = word;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let letter = escaped.chars().next()?;
        rest = &escaped[letter.len_utf8()..];
        match letter {
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            '\\' => bytes.push(b'\\'),
            'x' => {
                let digits = rest.get(..2).filter(|digits| digits.bytes().all(|c| c.is_ascii_hexdigit()))?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            'c' => return rest.is_empty().then_some(bytes),
            _ => return None,
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes.push(b'\n');
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_take_fractions() {
        assert_eq!(duration("7ms"), Some(Duration::from_millis(7)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("20us"), Some(Duration::from_micros(20)));
        assert_eq!(duration("0s"), Some(Duration::ZERO));
        for wrong in ["7", "ms", "-7ms", "1e3s", "7 ms", "infs", ".s", "1.2.3s", "7min", "86401s", ""] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn percentages_end_with_their_sign_and_at_100() {
        assert_eq!(percentage("30%"), Some(0.3));
        assert_eq!(percentage("0.5%"), Some(0.005));
        for wrong in ["30", "%", "101%", "-1%", "nan%", "1e1%"] {
            assert_eq!(percentage(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn text_has_escapes_and_ends_with_a_new_line_unless_told() {
        assert_eq!(text(r"a\tb\\n\x1b[0m").unwrap(), b"a\tb\\n\x1b[0m\n");
        assert_eq!(text(r"prompt> \c").unwrap(), b"prompt> ");
        assert_eq!(text("").unwrap(), b"\n");
        for wrong in [r"\q", r"\", r"\x1", r"\x+1", r"\xé", r"\cx"] {
            assert_eq!(text(wrong), None, "{wrong}");
        }
    }
}
