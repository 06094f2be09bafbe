//! Quotes a program as a command line for the login shell of another host.
//!
//! `ssh` and `rsh` pass one string to the remote user's login shell, and that may be any shell.
//! [`command`] produces a string that means the same to sh, bash, dash, ash, ksh, zsh, csh, tcsh
//! and fish. It uses what they have in common: words separated by spaces; single quotes, which
//! preserve every printable ASCII character except `'`, `!` and `\` (csh expands `!` in quotes,
//! fish interprets `\`); and a backslash outside of quotes for those three. The first of these
//! forms that can express the command is used:
//!
//! | form | used for |
//! |---|---|
//! | `exec directory/program argument …` | a path, and no variables: it saves the host a process |
//! | `exec env -- NAME=value program argument …` | words of printable ASCII |
//! | `exec /bin/sh -c 'cd …; exec …'` | what needs a POSIX shell: a directory |
//! | `exec /bin/sh -c 'eval "$(printf %b "$@")"' sh piece …` | the rest, see below |
//!
//! The last form is for other bytes, such as newlines, which some shells do not preserve, and for
//! words that are too long or too many for csh. It passes the text of the previous form in pieces,
//! in which `printf` decodes other bytes from `\0` and an octal number. Such a byte takes six
//! characters, and no shell has to know its encoding.
//!
//! A program with a [parent death signal](command_with_death_signal) needs a POSIX shell as well.
//!
//! The exit status, apart from the program's own:
//!
//! | status | from | meaning |
//! |---|---|---|
//! | [`SETUP_FAILED`] (125) | the command | the directory cannot be entered, see [`NO_DIRECTORY`] |
//! | 125 | `env` | `env` itself failed; the commands of this module do not cause that |
//! | 126 | shell, `env` | the program was found and could not be executed |
//! | 127 | shell, `env` | the program, or its interpreter, was not found |
//! | 1 | csh, tcsh | either, for a path without variables; their messages differ |
//! | 127 | dynamic loader | a shared library of the program was not found |
//! | 128 + n | shell | signal n killed the program, and the shell lived to report it |
//!
//! Programs can exit with these numbers as well, so they are evidence only until the program has
//! been heard from.
//!
//! The shell gets the string as one argument, which Linux limits to 128 KiB. Nothing is cut to fit:
//! a longer string fails on the host when the shell is executed ("Argument list too long").

use std::borrow::Cow;

use libi_core::dist::{EnvVar, OsBytes};

/// Exit status of a [`command`] that cannot enter its directory.
pub const SETUP_FAILED: i32 = 125;

/// Start of the line on standard error that reports this. The directory follows, up to the end of
/// the output.
pub const NO_DIRECTORY: &str = "libi: cannot change to directory ";

/// Turns directory, variables, program and arguments into a command line.
pub(crate) type CommandWriter = fn(Option<&OsBytes>, &[EnvVar], &OsBytes, &[OsBytes]) -> OsBytes;

/// Maximum length of a word, with quotes, and maximum number of words. csh accepts twice as much.
const MAX_WORD_LEN: usize = 4_000;
const MAX_WORDS: usize = 400;

/// Command line that runs a program on another host: in this directory, with these arguments, and
/// with these variables in addition to the host's own. Of equal names the last one counts.
///
/// The program replaces the shell. It is searched in the `PATH` that results from the variables, as
/// for local programs. A relative directory is relative to the one in which the shell starts; an
/// empty one is that directory.
///
/// ```
/// use libi_core::dist::{EnvVar, OsBytes};
/// let word = |text: &str| OsBytes::try_from(text);
/// let name = EnvVar::new(word("NAME")?, word("O'Neill")?)?;
/// let command = libi_launch::quote::command(None, &[name], &word("./daemon")?, &[word("-v")?]);
/// assert_eq!(command.to_string(), r"exec env -- 'NAME=O'\'Neill ./daemon -v");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn command(cwd: Option<&OsBytes>, env: &[EnvVar], program: &OsBytes, args: &[OsBytes]) -> OsBytes {
    assemble(cwd, &env_words(env, program, args), by_exec(env, program))
}

/// Like [`command`], but the kernel kills the program when the process that started the shell ends.
/// This needs `setpriv` of util-linux on the host, which all common Linux systems have. The
/// variable [`DEATH_SIGNAL_ENV`] is set if it is in effect.
///
/// The signal reaches the program itself and not the processes that it starts. The program can
/// disable it by `prctl(PR_SET_PDEATHSIG)`, in its initial thread.
#[must_use]
pub fn command_with_death_signal(
    cwd: Option<&OsBytes>,
    env: &[EnvVar],
    program: &OsBytes,
    args: &[OsBytes],
) -> OsBytes {
    assemble(cwd, &env_words(env, program, args), By::EnvWithDeathSignal)
}

/// Environment variable that tells a program that it has a parent death signal.
pub const DEATH_SIGNAL_ENV: &str = "LIBI_TIED";

/// Shell code that runs the shell's arguments by `env`. An old `setpriv`, or busybox's, does not
/// know the option, and `exec` cannot be undone. Hence two checks: `choom` came to util-linux
/// together with the option, and busybox applets are links.
const EXEC_WITH_DEATH_SIGNAL: &str = "[ -x /usr/bin/choom ] && [ -x /usr/bin/setpriv ] && \
     ! [ -L /usr/bin/setpriv ] && \
     exec /usr/bin/setpriv --pdeathsig KILL env -- LIBI_TIED=1 \"$@\"; exec env -- \"$@\"";

/// A line for a POSIX shell that does what [`command`] does, of any length. The shell's variable
/// `by` may name a command that starts the program, such as `setsid`.
pub(crate) fn script_line(
    cwd: Option<&OsBytes>,
    env: &[EnvVar],
    program: &OsBytes,
    args: &[OsBytes],
) -> Vec<u8> {
    let enter = cwd.map_or_else(Vec::new, |cwd| enter(cwd.as_bytes()));
    [&enter[..], b"exec $by env -- ", &join(&env_words(env, program, args))].concat()
}

/// Command line that reads one line from standard input and runs it; see [`stdin_line`]. It reads
/// nothing beyond that line.
pub(crate) fn read_command_from_stdin() -> OsBytes {
    // `read` consumes a pipe byte by byte, so it stops at the end of the line.
    let obey: &[u8] = br#"IFS= read -r c && eval "$(printf %b "$c")""#;
    OsBytes::new(join(&[b"exec", &b"/bin/sh"[..], b"-c", obey])).expect("text without a NUL")
}

/// Encodes a line for [`read_command_from_stdin`].
pub(crate) fn stdin_line(line: &[u8]) -> Vec<u8> {
    [&escaped(line)[..], b"\n"].concat()
}

/// What runs a program.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// The shell itself. A path is in every shell what it says: not a builtin, a function, or looked up.
    Exec,
    Env,
    EnvWithDeathSignal,
}

/// What runs a program with these variables.
fn by_exec(env: &[EnvVar], program: &OsBytes) -> By {
    let program = program.as_bytes();
    let is_path = program.contains(&b'/') && !program.contains(&b'=');
    if env.is_empty() && is_path { By::Exec } else { By::Env }
}

/// Variables, program and arguments as words for `env`.
fn env_words<'a>(env: &[EnvVar], program: &'a OsBytes, args: &'a [OsBytes]) -> Vec<Cow<'a, [u8]>> {
    let program = program.as_bytes();
    // A program that begins with a dash must not be taken for an option.
    let option_like = program.starts_with(b"-") && program.contains(&b'/');
    let program = if option_like { anchored(program) } else { Cow::Borrowed(program) };
    let set = |variable: &EnvVar| [variable.name().as_bytes(), b"=", variable.value().as_bytes()].concat();
    let mut words: Vec<Cow<'a, [u8]>> = env.iter().map(|variable| Cow::Owned(set(variable))).collect();
    if program.contains(&b'=') {
        // `env` would take such a program for a variable. A shell expands `$0` only once. Its
        // `exec` would take a leading dash for an option.
        let run: &[u8] = if program.starts_with(b"-") { br#""$0" "$@""# } else { br#"exec "$0" "$@""# };
        words.extend([b"sh".as_slice(), b"-c", run].map(Cow::Borrowed));
    }
    words.push(program);
    words.extend(args.iter().map(|arg| Cow::Borrowed(arg.as_bytes())));
    words
}

fn assemble(cwd: Option<&OsBytes>, words: &[Cow<'_, [u8]>], by: By) -> OsBytes {
    let run = match by {
        By::Exec => [b"exec ", &join(words)[..]].concat(),
        By::Env => [b"exec env -- ", &join(words)[..]].concat(),
        By::EnvWithDeathSignal => {
            [b"set -- ", &join(words)[..], b"; ", EXEC_WITH_DEATH_SIGNAL.as_bytes()].concat()
        }
    };
    let is_plaintext = by != By::EnvWithDeathSignal
        && words.iter().all(|word| is_safe(word))
        && words.len() + 3 <= MAX_WORDS;
    let line = match cwd {
        None if is_plaintext => run,
        None => via_sh(&run),
        Some(cwd) => via_sh(&[enter(cwd.as_bytes()), run].concat()),
    };
    OsBytes::new(line).expect("made of Words, which hold no NUL, and of text without")
}

/// Quotes bytes as one word: for any shell if they are printable ASCII, otherwise for a POSIX
/// shell. The bytes must not hold a NUL.
#[must_use]
pub fn quote(bytes: &[u8]) -> Cow<'_, [u8]> {
    // `%` and `=` are missing: fish expands `%`, and zsh expands `=`.
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./,:@+".contains(byte);
    if bytes.is_empty() {
        return Cow::Borrowed(b"''");
    }
    if bytes.iter().all(plain) {
        return Cow::Borrowed(bytes);
    }
    let mut quoted = Vec::with_capacity(bytes.len() + 2);
    let mut open = false;
    for (at, byte) in bytes.iter().enumerate() {
        if b"'!\\".contains(byte) {
            quoted.extend(open.then_some(b'\''));
            quoted.extend([b'\\', *byte]);
            open = false;
            continue;
        }
        if !open && (at == 0 || !plain(byte)) {
            quoted.push(b'\'');
            open = true;
        }
        quoted.push(*byte);
    }
    quoted.extend(open.then_some(b'\''));
    Cow::Owned(quoted)
}

/// Returns whether every shell reads the [quoted](quote) word unchanged.
fn is_safe(word: &[u8]) -> bool {
    word.iter().all(is_printable) && quote(word).len() <= MAX_WORD_LEN
}

fn is_printable(byte: &u8) -> bool {
    (b' '..=b'~').contains(byte)
}

/// Quotes the words and joins them with spaces.
fn join(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let quoted: Vec<_> = words.iter().map(|word| quote(word.as_ref())).collect();
    quoted.join(&b' ')
}

/// Has a POSIX shell interpret the line, through any login shell.
fn via_sh(line: &[u8]) -> Vec<u8> {
    let sh = [b"exec".as_slice(), b"/bin/sh", b"-c"];
    if is_safe(line) {
        return join(&[&sh[..], &[line]].concat());
    }
    // An escaped byte takes up to six characters in quotes.
    let pieces: Vec<Vec<u8>> = line.chunks(MAX_WORD_LEN / 6).map(escaped).collect();
    let pieces = pieces.iter().map(Vec::as_slice);
    let words: Vec<&[u8]> =
        sh.into_iter().chain([br#"eval "$(printf %b "$@")""#.as_slice(), b"sh"]).chain(pieces).collect();
    join(&words)
}

/// Encodes bytes as printable characters for `printf %b`.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.extend(br"\0134"),
            byte if is_printable(byte) => text.push(*byte),
            byte => text.extend(format!("\\0{byte:03o}").into_bytes()),
        }
    }
    text
}

/// Shell code that changes to the directory or reports that it cannot.
fn enter(directory: &[u8]) -> Vec<u8> {
    // Without a leading `./`, `-` and `+1` mean directories visited before, and other names are
    // searched in CDPATH.
    let directory = anchored(directory);
    let complaint = [NO_DIRECTORY.as_bytes(), &directory].concat();
    let (directory, complaint) = (quote(&directory), quote(&complaint));
    let exit = format!(" >&2; exit {SETUP_FAILED}; }}; ").into_bytes();
    [b"cd ", &directory[..], br" || { printf '%s\n' ", &complaint, &exit].concat()
}

/// The same path with a leading `/`, `./` or `../`.
fn anchored(path: &[u8]) -> Cow<'_, [u8]> {
    if path.starts_with(b"/") || path.starts_with(b"./") || path.starts_with(b"../") {
        return Cow::Borrowed(path);
    }
    Cow::Owned([b"./", path].concat())
}

#[cfg(test)]
#[cfg(target_os = "linux")] // it takes processes to ask shells
pub(crate) mod tests;
