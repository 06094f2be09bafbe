//! The backend for a remote shell named in the environment, and its options.
//!
//! Options are separated by blanks. Double quotes keep blanks, a backslash keeps the next
//! character.
//!
//! | program, without its directory | backend |
//! |---|---|
//! | `ssh` | [`Ssh`], whose remote processes end with their launcher |
//! | `ssh`, with options that `ssh_config` does not have, such as `-E` | [`Shell`] |
//! | `rsh`, `remsh`, … | [`Rsh`], which reports exit statuses |
//! | any other | [`Shell`] |
//!
//! Options of `ssh` and `rsh` that close standard input, do not wait for the command (`-n`, `-f`)
//! or ask for a terminal are left out: the link uses these streams.

use libi::{Backend, OsBytes, Rsh, Shell, Ssh};
use libi_launch::backend::LaunchMethod;

/// The remote shell of this name, with these options.
pub(crate) fn backend_named(program: OsBytes, options: &[u8]) -> Backend {
    let words = split(options);
    let name = program.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    if name == b"ssh" {
        if let Some((options, config)) = configuration(&words) {
            return Backend::Ssh(Ssh { program, options, config, ..Ssh::new() });
        }
        let args = as_words(without_stream_options(words));
        return Backend::Shell(Shell { args, ..Shell::new(program) });
    }
    let shell = Shell::new(program.clone());
    if shell.is_plaintext() {
        return Backend::Rsh(Rsh { program, args: as_words(without_stream_options(words)), ..Rsh::new() });
    }
    Backend::Shell(Shell { args: as_words(words), ..shell })
}

/// The words of a text.
fn split(text: &[u8]) -> Vec<Vec<u8>> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<Vec<u8>>, false);
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            // At the end of the text it is itself.
            b'\\' => word.get_or_insert_default().push(bytes.next().unwrap_or(byte)),
            byte if byte.is_ascii_whitespace() && !is_quoted => words.extend(word.take()),
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
}

fn as_words(words: Vec<Vec<u8>>) -> Vec<OsBytes> {
    // The environment contains no NUL.
    words.into_iter().filter_map(|word| OsBytes::new(word).ok()).collect()
}

/// Without the options that would break the streams of the link.
fn without_stream_options(words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let traps: [&[u8]; 5] = [b"-n", b"-f", b"-t", b"-tt", b"-N"];
    words.into_iter().filter(|word| !traps.contains(&word.as_slice())).collect()
}

/// Options of ssh in the form of its configuration, and the configuration file; `None` if an
/// option has no such form.
fn configuration(words: &[Vec<u8>]) -> Option<(Vec<OsBytes>, Option<OsBytes>)> {
    let (mut options, mut config) = (Vec::new(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut letters = word.strip_prefix(b"-").filter(|letters| !letters.is_empty())?;
        while let Some((&letter, rest)) = letters.split_first() {
            letters = rest;
            let set: &[&str] = match letter {
                b'n' | b'f' | b't' | b'T' | b'N' | b's' => &[],
                b'q' => &["LogLevel=QUIET"],
                b'v' => &["LogLevel=DEBUG"],
                b'x' => &["ForwardX11=no"],
                b'X' => &["ForwardX11=yes"],
                b'a' => &["ForwardAgent=no"],
                b'A' => &["ForwardAgent=yes"],
                b'4' => &["AddressFamily=inet"],
                b'6' => &["AddressFamily=inet6"],
                b'C' => &["Compression=yes"],
                b'g' => &["GatewayPorts=yes"],
                b'k' => &["GSSAPIDelegateCredentials=no"],
                b'K' => &["GSSAPIAuthentication=yes", "GSSAPIDelegateCredentials=yes"],
                _ => {
                    // The value is the rest of this word, or the next word.
                    let value = if rest.is_empty() { words.next()?.as_slice() } else { rest };
                    letters = &[];
                    let name = match letter {
                        b'o' => {
                            options.push(OsBytes::new(value).ok()?);
                            continue;
                        }
                        b'F' => {
                            config.get_or_insert(OsBytes::new(value).ok()?);
                            continue;
                        }
                        b'i' => "IdentityFile",
                        b'l' => "User",
                        b'p' => "Port",
                        b'b' => "BindAddress",
                        b'B' => "BindInterface",
                        b'c' => "Ciphers",
                        b'm' => "MACs",
                        b'J' => "ProxyJump",
                        b'I' => "PKCS11Provider",
                        b'S' => "ControlPath",
                        _ => return None,
                    };
                    options.push(setting(name, value)?);
                    continue;
                }
            };
            options.extend(set.iter().filter_map(|set| OsBytes::try_from(*set).ok()));
        }
    }
    Some((options, config))
}

/// A line of a configuration; `None` if the value cannot be quoted.
fn setting(name: &str, value: &[u8]) -> Option<OsBytes> {
    let quotes = value.iter().any(u8::is_ascii_whitespace);
    if value.contains(&b'"') || value.contains(&b'\\') && quotes {
        return None;
    }
    let quote: &[u8] = if quotes { b"\"" } else { b"" };
    OsBytes::new([name.as_bytes(), b"=", quote, value, quote].concat()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(program: &str, options: &str) -> Backend {
        backend_named(OsBytes::try_from(program).unwrap(), options.as_bytes())
    }

    fn shown(words: &[OsBytes]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn blanks_part_words_unless_quotes_or_backslashes_protect_them() {
        let words = |text: &str| -> Vec<String> {
            split(text.as_bytes()).into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
        };
        assert_eq!(words("  -q\t-x "), ["-q", "-x"]);
        assert_eq!(words(r#"-o "User Known"=a\ b "" c"d e"f"#), ["-o", "User Known=a b", "", "cd ef"]);
        assert_eq!(words(r#"\"a\" \\ b\"#), ["\"a\"", "\\", "b\\"]);
        assert_eq!(words("'a b'"), ["'a", "b'"]);
        assert!(words("").is_empty());
    }

    #[test]
    fn options_of_ssh_become_its_configuration() {
        let Backend::Ssh(ssh) =
            backend("/usr/bin/ssh", r#"-nqx4 -o A=b -oC=d -p 22 -F "my config" -i "a key" -lme"#)
        else {
            panic!("it is ssh");
        };
        assert_eq!(ssh.program.to_string(), "/usr/bin/ssh");
        assert_eq!(ssh.config.unwrap().to_string(), "my config");
        let set = ["LogLevel=QUIET", "ForwardX11=no", "AddressFamily=inet", "A=b", "C=d", "Port=22"];
        assert_eq!(shown(&ssh.options), [&set[..], &["IdentityFile=\"a key\"", "User=me"]].concat());
    }

    #[test]
    fn what_no_configuration_says_is_left_to_ssh_itself() {
        for options in ["-E log -n", "-i a\\\"b", "word", "-o"] {
            let Backend::Shell(shell) = backend("ssh", options) else { panic!("{options}") };
            assert!(!shown(&shell.args).contains(&"-n".to_owned()), "{options}");
        }
    }

    #[test]
    fn rsh_is_rsh_and_everything_else_is_called_with_what_was_said() {
        let Backend::Rsh(rsh) = backend("/usr/bin/rsh", "-n -l me") else { panic!("it is rsh") };
        assert_eq!(shown(&rsh.args), ["-l", "me"]);
        let Backend::Shell(shell) = backend("./my-ssh", "-n -X") else { panic!("it is a shell") };
        assert_eq!(shown(&shell.args), ["-n", "-X"]);
    }
}
