//! Decides how a program is written down for the shell of another host.
//!
//! `ssh` and `rsh` hand the remote user's shell one string. [`command`] writes one in which every byte of every
//! argument survives a POSIX shell (and bash, zsh and the like, which read it the same way; csh and fish do not).
//!
//! What its exit status says, beside the program's own:
//!
//! | status | who | what |
//! |---|---|---|
//! | [`SETUP_FAILED`] (125) | the command | there is no such directory; the last line of stderr begins with [`NO_DIRECTORY`] and names it |
//! | 125 | `env` | `env` itself failed; this does not happen with what is written here |
//! | 126 | shell or `env` | the program was found and could not be executed |
//! | 127 | shell or `env` | the program was not found; its interpreter may be what is missing |
//! | 128 + n | shell | signal n ended it; only if the shell is still there to say so |
//!
//! Programs may use these numbers as well: believe them only as long as the program has not been heard of.
//!
//! The shell gets the string as one argument, and Linux takes at most 128 KiB in one. Nothing here is cut to fit;
//! what is longer fails on the other side as an `exec` of the shell ("Argument list too long").

use std::borrow::Cow;

use libi_core::dist::{Variable, Word};

/// The exit status of a [`command`] that could not enter its directory.
pub const SETUP_FAILED: i32 = 125;

/// How the line on stderr begins that says so; the directory follows, to the end of the output.
pub const NO_DIRECTORY: &str = "libi: cannot change to directory ";

/// The command that runs a program on another host: in this directory, with these variables in addition to those
/// the host provides (of equal names the last one counts), with these arguments.
///
/// The program replaces the shell. It is looked up in the `PATH` that the variables leave, as it is when it is started
/// here. A directory that is not absolute is below the one where the shell begins; an empty one is that itself.
///
/// ```
/// use libi_core::dist::{Variable, Word};
/// let word = |text: &str| Word::try_from(text);
/// let name = Variable::new(word("NAME")?, word("O'Neill")?)?;
/// let command = libi_launch::quote::command(None, &[name], &word("./daemon")?, &[word("-v")?]);
/// assert_eq!(command.to_string(), r"exec env -- 'NAME=O'\''Neill' ./daemon -v");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn command(cwd: Option<&Word>, env: &[Variable], program: &Word, args: &[Word]) -> Word {
    let mut line = Vec::new();
    if let Some(cwd) = cwd {
        enter(cwd.as_bytes(), &mut line);
    }
    line.extend(b"exec");
    let program = program.as_bytes();
    // What begins with a dash must be no option, neither of `exec` nor of what follows.
    let option_like = program.starts_with(b"-") && program.contains(&b'/');
    let program = if option_like { anchored(program) } else { Cow::Borrowed(program) };
    let dash = program.starts_with(b"-");
    if !env.is_empty() || dash {
        line.extend(b" env --");
        for variable in env {
            push(&[variable.name().as_bytes(), b"=", variable.value().as_bytes()].concat(), &mut line);
        }
        if program.contains(&b'=') {
            // `env` takes it for one more variable. A shell expands `$0` and does not look at it again; its `exec`
            // would look for options.
            line.extend(b" sh -c ");
            line.extend(if dash { br#"'"$0" "$@"'"#.as_slice() } else { br#"'exec "$0" "$@"'"# });
        }
    }
    push(&program, &mut line);
    for arg in args {
        push(arg.as_bytes(), &mut line);
    }
    Word::new(line).expect("made of Words, which hold no NUL, and of text without")
}

/// One word of a POSIX shell's language that stands for these bytes. The bytes must hold no NUL, as no argument can.
#[must_use]
pub fn quote(bytes: &[u8]) -> Cow<'_, [u8]> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./,:@%+".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return Cow::Borrowed(bytes);
    }
    let mut quoted = vec![b'\''];
    for &byte in bytes {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    Cow::Owned(quoted)
}

fn push(bytes: &[u8], line: &mut Vec<u8>) {
    line.push(b' ');
    line.extend_from_slice(&quote(bytes));
}

/// Goes to the directory, or says that it cannot.
fn enter(directory: &[u8], line: &mut Vec<u8>) {
    // Otherwise `-` and `+1` were the places visited before, and other names would be looked for in CDPATH.
    let directory = anchored(directory);
    line.extend(b"cd");
    push(&directory, line);
    line.extend(br" || { printf '%s\n'");
    push(&[NO_DIRECTORY.as_bytes(), &directory].concat(), line);
    line.extend(format!(" >&2; exit {SETUP_FAILED}; }}; ").into_bytes());
}

/// The same path, beginning with `/` or `./`.
fn anchored(path: &[u8]) -> Cow<'_, [u8]> {
    if path.starts_with(b"/") || path.starts_with(b"./") || path.starts_with(b"../") {
        return Cow::Borrowed(path);
    }
    Cow::Owned([b"./", path].concat())
}

#[cfg(test)]
#[cfg(target_os = "linux")] // it takes processes to ask shells
mod tests;
