//! Decides what a command line means: whom to call, as whom, and what to run there.
//!
//! Options are those of ssh, of which rsh knows a few. They are skipped, with their values; only
//! the user and the port are kept, since ssh's messages name them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The options of ssh that take a value, in the same word or in the next.
const VALUED: &[u8] = b"BbcDEeFIiJLlmOopPQRSWw";

/// What a command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) user: Option<String>,
    pub(crate) port: Option<String>,
    pub(crate) host: String,
    /// The words after the host, joined by blanks; `None` if there are none.
    pub(crate) command: Option<Vec<u8>>,
}

/// The line names no host, or one that is no text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoHost;

pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Call, NoHost> {
    let mut words = words.into_iter().map(OsString::into_vec);
    let mut call = Call::default();
    let mut host = None;
    let mut options = true;
    while let Some(word) = words.next() {
        if options && word == b"--" {
            options = false;
        } else if options && word.len() > 1 && word[0] == b'-' {
            skip_options(&word[1..], &mut words, &mut call);
        } else if host.is_none() {
            host = Some(word);
        } else {
            call.command = Some(words.fold(word, |mut command, word| {
                command.push(b' ');
                command.extend_from_slice(&word);
                command
            }));
            break;
        }
    }
    let host = host.and_then(|host| String::from_utf8(host).ok()).ok_or(NoHost)?;
    match host.rsplit_once('@') {
        Some((user, host)) => {
            call.user = Some(user.to_owned());
            call.host = host.to_owned();
        }
        None => call.host = host,
    }
    if call.host.is_empty() { Err(NoHost) } else { Ok(call) }
}

/// Skips a word of options (without its dash), and the next word if the last option takes its value
/// there.
fn skip_options(letters: &[u8], words: &mut impl Iterator<Item = Vec<u8>>, call: &mut Call) {
    let Some(at) = letters.iter().position(|letter| VALUED.contains(letter)) else { return };
    let value = match &letters[at + 1..] {
        [] => words.next().unwrap_or_default(),
        value => value.to_vec(),
    };
    let text = || String::from_utf8_lossy(&value).into_owned();
    match letters[at] {
        b'l' => call.user = Some(text()),
        b'p' => call.port = Some(text()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Call, NoHost> {
        parse(line.split(' ').map(OsString::from))
    }

    fn host_and_command(line: &str) -> (String, Option<String>) {
        let call = parsed(line).unwrap();
        (call.host, call.command.map(|command| String::from_utf8(command).unwrap()))
    }

    #[test]
    fn options_are_skipped_with_their_values_before_and_after_the_host() {
        for line in [
            "h echo -n x",
            "-T -x h echo -n x",
            "-o BatchMode=yes -oPort=1 h echo -n x",
            "-Tp 22 -i key h echo -n x",
            "h -l alice -n echo -n x",
            "-- h echo -n x",
            "-T h -- echo -n x",
            "alice@h echo -n x",
        ] {
            assert_eq!(host_and_command(line), ("h".to_owned(), Some("echo -n x".to_owned())), "{line}");
        }
    }

    #[test]
    fn after_two_dashes_everything_belongs_to_the_command() {
        assert_eq!(host_and_command("h -- -n -- x").1.as_deref(), Some("-n -- x"));
        assert_eq!(host_and_command("-- h -- x").1.as_deref(), Some("-- x"));
    }

    #[test]
    fn user_and_port_are_kept_for_the_messages() {
        let call = parsed("-l bob -p 2222 h true").unwrap();
        assert_eq!((call.user.as_deref(), call.port.as_deref()), (Some("bob"), Some("2222")));
        assert_eq!(parsed("a@b@h true").unwrap().user.as_deref(), Some("a@b"));
    }

    #[test]
    fn a_line_without_a_host_is_refused() {
        for line in ["", "-T", "-l alice", "alice@", "--"] {
            assert_eq!(parsed(line), Err(NoHost), "{line}");
        }
        assert_eq!(host_and_command("h"), ("h".to_owned(), None));
    }
}
