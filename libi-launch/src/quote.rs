//! Decides how a program is written down for the shell of another host.
//!
//! `ssh` and `rsh` hand the remote user's login shell one string, and nobody says which shell that is. [`command`] writes
//! one that means the same to all of them: sh, bash, dash, ash, ksh, zsh, csh, tcsh and fish. It is made of what they have in
//! common: words between blanks, where single quotes keep every printable character of ASCII but `'`, `!` and `\`
//! (csh looks for `!` in quotes as well, fish for `\`), and a backslash outside of quotes keeps those. There are three forms, of which
//! the first that can say it is taken:
//!
//! | form | for |
//! |---|---|
//! | `exec env -- NAME=value program argument …` | words of printable ASCII, as most are |
//! | `exec /bin/sh -c 'cd …; exec env …'` | what takes a POSIX shell to say: a directory |
//! | `exec /bin/sh -c 'eval "$(printf %b "$@")"' sh piece …` | other bytes, such as newlines, of which some shells lose some; and what is too long, or too many words, for csh |
//!
//! A program that is to [end with its starter](command_with_death_signal) takes a POSIX shell as well.
//!
//! In the last form the text of the one before is passed in pieces, where `printf` finds bytes as `\0` and their octal number: one
//! such byte takes six, and no shell has to understand an encoding.
//!
//! What its exit status says, beside the program's own:
//!
//! | status | who | what |
//! |---|---|---|
//! | [`SETUP_FAILED`] (125) | the command | there is no such directory; the last line of stderr begins with [`NO_DIRECTORY`] and names it |
//! | 125 | `env` | `env` itself failed; this does not happen with what is written here |
//! | 126 | `env` | the program was found and could not be executed |
//! | 127 | `env` | the program was not found; its interpreter may be what is missing |
//! | 128 + n | shell | signal n ended it; only if the shell is still there to say so |
//!
//! Programs may use these numbers as well: believe them only as long as the program has not been heard of.
//!
//! The shell gets the string as one argument, and Linux takes at most 128 KiB in one. Nothing here is cut to fit;
//! what is longer fails on the other side as an `exec` of the shell ("Argument list too long").

use std::borrow::Cow;

use libi_core::dist::{EnvVar, OsBytes};

/// The exit status of a [`command`] that could not enter its directory.
pub const SETUP_FAILED: i32 = 125;

/// How the line on stderr begins that says so; the directory follows, to the end of the output.
pub const NO_DIRECTORY: &str = "libi: cannot change to directory ";

/// How a directory, variables, a program and its arguments are written down.
pub(crate) type CommandWriter = fn(Option<&OsBytes>, &[EnvVar], &OsBytes, &[OsBytes]) -> OsBytes;

/// The longest word that shells get, quotes included, and the most words: csh has room for twice as many.
const MAX_WORD_LEN: usize = 4_000;
const MAX_WORDS: usize = 400;

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
/// assert_eq!(command.to_string(), r"exec env -- 'NAME=O'\'Neill ./daemon -v");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn command(cwd: Option<&OsBytes>, env: &[EnvVar], program: &OsBytes, args: &[OsBytes]) -> OsBytes {
    assemble(cwd, &env_words(env, program, args), false)
}

/// The same command; but the program is killed when whoever has started the shell ends, if the host is one that has what that
/// takes: `setpriv` of util-linux, as it is on all usual Linux systems. Then the variable [`DEATH_SIGNAL_ENV`] is set.
///
/// It is the process itself that ends so, not those that it has started. It loosens the tie by `prctl` (`PR_SET_PDEATHSIG`), in
/// the thread that it began with.
#[must_use]
pub fn command_with_death_signal(
    cwd: Option<&OsBytes>,
    env: &[EnvVar],
    program: &OsBytes,
    args: &[OsBytes],
) -> OsBytes {
    assemble(cwd, &env_words(env, program, args), true)
}

/// The variable by which a program knows that it is killed when its starter ends.
pub const DEATH_SIGNAL_ENV: &str = "LIBI_TIED";

/// What runs the arguments of a shell by `env`. An old `setpriv`, or that of busybox, would not know the option, and whatever
/// replaces the shell cannot be taken back: `choom` has been in util-linux for exactly as long, and applets of busybox are links.
const EXEC_WITH_DEATH_SIGNAL: &str = "[ -x /usr/bin/choom ] && [ -x /usr/bin/setpriv ] && ! [ -L /usr/bin/setpriv ] && \
                   exec /usr/bin/setpriv --pdeathsig KILL env -- LIBI_TIED=1 \"$@\"; exec env -- \"$@\"";

/// A line for a POSIX shell that does what [`command`] does, and is long or not as it comes. What is executed is begun by what
/// the shell's variable `by` names, if it names something.
pub(crate) fn script_line(
    cwd: Option<&OsBytes>,
    env: &[EnvVar],
    program: &OsBytes,
    args: &[OsBytes],
) -> Vec<u8> {
    let enter = cwd.map_or_else(Vec::new, |cwd| enter(cwd.as_bytes()));
    [&enter[..], b"exec $by env -- ", &join(&env_words(env, program, args))].concat()
}

/// The command that does what it reads from its standard input: what [`stdin_line`] makes of a line. It takes nothing from
/// there but that.
pub(crate) fn read_command_from_stdin() -> OsBytes {
    // A shell reads a line byte by byte where it cannot go back.
    let obey: &[u8] = br#"IFS= read -r c && eval "$(printf %b "$c")""#;
    OsBytes::new(join(&[b"exec", &b"/bin/sh"[..], b"-c", obey])).expect("text without a NUL")
}

/// A line for a POSIX shell as [`read_command_from_stdin`] reads it.
pub(crate) fn stdin_line(line: &[u8]) -> Vec<u8> {
    [&escaped(line)[..], b"\n"].concat()
}

/// Variables, program and arguments, as `env` takes them.
fn env_words<'a>(env: &[EnvVar], program: &'a OsBytes, args: &'a [OsBytes]) -> Vec<Cow<'a, [u8]>> {
    let program = program.as_bytes();
    // What begins with a dash must be no option of what follows.
    let option_like = program.starts_with(b"-") && program.contains(&b'/');
    let program = if option_like { anchored(program) } else { Cow::Borrowed(program) };
    let set = |variable: &EnvVar| [variable.name().as_bytes(), b"=", variable.value().as_bytes()].concat();
    let mut words: Vec<Cow<'a, [u8]>> = env.iter().map(|variable| Cow::Owned(set(variable))).collect();
    if program.contains(&b'=') {
        // `env` takes it for one more variable. A shell expands `$0` and does not look at it again; its `exec`
        // would look for options.
        let run: &[u8] = if program.starts_with(b"-") { br#""$0" "$@""# } else { br#"exec "$0" "$@""# };
        words.extend([b"sh".as_slice(), b"-c", run].map(Cow::Borrowed));
    }
    words.push(program);
    words.extend(args.iter().map(|arg| Cow::Borrowed(arg.as_bytes())));
    words
}

fn assemble(cwd: Option<&OsBytes>, words: &[Cow<'_, [u8]>], tied: bool) -> OsBytes {
    // Not every shell's `exec` says by its status what was wrong; `env` does.
    let run = if tied {
        [b"set -- ", &join(words)[..], b"; ", EXEC_WITH_DEATH_SIGNAL.as_bytes()].concat()
    } else {
        [b"exec env -- ", &join(words)[..]].concat()
    };
    let is_plaintext = !tied && words.iter().all(|word| is_safe(word)) && words.len() + 3 <= MAX_WORDS;
    let line = match cwd {
        None if is_plaintext => run,
        None => via_sh(&run),
        Some(cwd) => via_sh(&[enter(cwd.as_bytes()), run].concat()),
    };
    OsBytes::new(line).expect("made of Words, which hold no NUL, and of text without")
}

/// One word of a shell's language that stands for these bytes: of any shell's if they are printable ASCII, otherwise of a
/// POSIX shell's. The bytes must hold no NUL, as no argument can.
#[must_use]
pub fn quote(bytes: &[u8]) -> Cow<'_, [u8]> {
    // Not `%`, which fish expands, nor `=`, which zsh does.
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

/// Whether every shell reads a word as it was before it was [quoted](quote).
fn is_safe(word: &[u8]) -> bool {
    word.iter().all(is_printable) && quote(word).len() <= MAX_WORD_LEN
}

fn is_printable(byte: &u8) -> bool {
    (b' '..=b'~').contains(byte)
}

/// The words, quoted, with blanks between them.
fn join(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let quoted: Vec<_> = words.iter().map(|word| quote(word.as_ref())).collect();
    quoted.join(&b' ')
}

/// Has a POSIX shell read this line, whatever shell passes it on.
fn via_sh(line: &[u8]) -> Vec<u8> {
    let sh = [b"exec".as_slice(), b"/bin/sh", b"-c"];
    if is_safe(line) {
        return join(&[&sh[..], &[line]].concat());
    }
    // An escape may take six bytes in quotes.
    let pieces: Vec<Vec<u8>> = line.chunks(MAX_WORD_LEN / 6).map(escaped).collect();
    let pieces = pieces.iter().map(Vec::as_slice);
    let words: Vec<&[u8]> =
        sh.into_iter().chain([br#"eval "$(printf %b "$@")""#.as_slice(), b"sh"]).chain(pieces).collect();
    join(&words)
}

/// What `printf %b` prints as these bytes, in printable characters alone.
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

/// Goes to the directory, or says that it cannot.
fn enter(directory: &[u8]) -> Vec<u8> {
    // Otherwise `-` and `+1` were the places visited before, and other names would be looked for in CDPATH.
    let directory = anchored(directory);
    let complaint = [NO_DIRECTORY.as_bytes(), &directory].concat();
    let (directory, complaint) = (quote(&directory), quote(&complaint));
    let exit = format!(" >&2; exit {SETUP_FAILED}; }}; ").into_bytes();
    [b"cd ", &directory[..], br" || { printf '%s\n' ", &complaint, &exit].concat()
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
pub(crate) mod tests;
