//! Commands, read by every installed shell that can be a login shell. dash and bash have to be;
//! with `CI=true`, those that `tests/run` installs.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::process::{Environment, ExitStatus, Start};
use crate::shell_error::{ShellError, of_csh};

const TIMEOUT: Duration = Duration::from_secs(60);

fn word(bytes: impl AsRef<[u8]>) -> OsBytes {
    OsBytes::new(bytes.as_ref()).unwrap()
}

fn variable(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> EnvVar {
    EnvVar::new(word(name), word(value)).unwrap()
}

/// The shells, each with the arguments that make it read one command.
pub(crate) fn shells() -> Vec<Vec<&'static str>> {
    const REQUIRED: [&str; 2] = ["dash", "bash"];
    const WANTED: [&str; 5] = ["zsh", "mksh", "busybox", "tcsh", "fish"];
    const WELCOME: [&str; 5] = ["ksh", "ksh93", "yash", "bsd-csh", "csh"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |shell: &str| std::env::split_paths(&path).any(|dir| dir.join(shell).is_file());
    if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        let missing: Vec<_> = WANTED.into_iter().filter(|shell| !installed(shell)).collect();
        assert!(missing.is_empty(), "{missing:?} are not installed, with CI=true");
    }
    let others = WANTED.into_iter().chain(WELCOME).filter(|shell| installed(shell));
    let words = |shell| if shell == "busybox" { vec![shell, "sh", "-c"] } else { vec![shell, "-c"] };
    REQUIRED.into_iter().chain(others).map(words).collect()
}

/// The two ways to write a command, which mean the same as long as the starter lives.
const WRITERS: [CommandWriter; 2] = [command, command_with_death_signal];

struct Seen {
    out: Vec<u8>,
    err: String,
    exit: ExitStatus,
}

/// What a shell makes of a command, begun in this directory.
fn run(shell: &[&str], command: &OsBytes, directory: &Path) -> Seen {
    // Files, because the two outputs of a process cannot be read one after the other.
    let [mut out, mut err] = [scratch_file(), scratch_file()];
    let path = std::env::var_os("PATH").unwrap_or_default().into_encoded_bytes();
    let mut start = Start::new(word(shell[0]), Environment::from_iter([variable("PATH", path)]));
    start.args = shell[1..].iter().map(word).chain([command.clone()]).collect();
    start.cwd = Some(word(directory.as_os_str().as_encoded_bytes()));
    let mut child = start.fd(1, out.as_fd()).fd(2, err.as_fd()).start().unwrap();
    let exit = child.wait_for(TIMEOUT).expect("it ends in time");
    let mut seen = Seen { out: Vec::new(), err: String::new(), exit };
    out.rewind().unwrap();
    out.read_to_end(&mut seen.out).unwrap();
    err.rewind().unwrap();
    err.read_to_string(&mut seen.err).unwrap();
    seen
}

/// A file without a name.
fn scratch_file() -> File {
    let directory = Scratch::new();
    let path = directory.0.join("file");
    File::options().read(true).write(true).create_new(true).open(path).unwrap()
}

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("libi-quote-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    /// The program that tells what it sees, under this name.
    fn link(&self, name: &[u8], program: &str) {
        let path = self.0.join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(program, path).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let nasty = proptest::sample::select(br##"'"\`$!~*?[]{}()<>|&;#=%^-+ :/"##.to_vec());
    let control = proptest::sample::select(b"\n\r\t\x01\x1b\x7f\x81\x88\xff".to_vec());
    vec(prop_oneof![nasty, control, 1..=255u8, b'a'..=b'f'], 0..12)
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    // `_` is set by some shells for each program; LD_ and the like are the loader's.
    bytes()
        .prop_map(|name| name.into_iter().filter(|&byte| byte != b'=').collect::<Vec<u8>>())
        .prop_filter("a name", |name| !name.is_empty() && name != b"_" && name != b"PATH")
}

/// A name that a file can have.
fn file_name() -> impl Strategy<Value = Vec<u8>> {
    bytes()
        .prop_map(|name| name.into_iter().filter(|&byte| byte != b'/').collect::<Vec<u8>>())
        .prop_filter("a file", |name| !matches!(name.as_slice(), b"" | b"." | b".."))
}

/// A way to write a command, and a shell that reads it: all of them with each would take long.
fn way_and_shell() -> impl Strategy<Value = (CommandWriter, Vec<&'static str>)> {
    (proptest::sample::select(WRITERS.to_vec()), proptest::sample::select(shells()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_byte_of_every_argument_survives(args in vec(bytes(), 0..6), (way, shell) in way_and_shell()) {
        let mut all = vec![word("-c"), word(r#"for arg; do printf '%s\0' "$arg"; done"#), word("sh")];
        all.extend(args.iter().map(word));
        let command = way(None, &[], &word("dash"), &all);
        let seen = run(&shell, &command, Path::new("/"));
        let expected: Vec<u8> = args.iter().flat_map(|arg| [arg.as_slice(), b"\0"].concat()).collect();
        prop_assert_eq!(&seen.out, &expected, "{:?} {} {}", shell, command, seen.err);
    }

    #[test]
    fn every_byte_of_every_variable_survives(env in vec((name(), bytes()), 1..5), (way, shell) in way_and_shell()) {
        let env: Vec<_> = env.into_iter().map(|(name, value)| variable(name, value)).collect();
        let command = way(None, &env, &word("cat"), &[word("/proc/self/environ")]);
        let seen = run(&shell, &command, Path::new("/"));
        for set in Environment::from_iter(env.clone()).variables() {
            let entry = [set.name().as_bytes(), b"=", set.value().as_bytes()].concat();
            let found = seen.out.split(|&byte| byte == 0).any(|seen| seen == entry);
            prop_assert!(found, "{:?} {} {}", shell, command, seen.err);
        }
    }

    #[test]
    fn any_program_in_any_directory_is_found(
        dir in file_name(),
        file in file_name(),
        set: bool,
        absolute: bool,
        (way, shell) in way_and_shell(),
    ) {
        let scratch = Scratch::new();
        let path = [dir.as_slice(), b"/bin/", file.as_slice()].concat();
        scratch.link(&path, "/bin/pwd");
        let env = if set { vec![variable("A", "b")] } else { vec![] };
        let cwd = if absolute { scratch.0.join(std::ffi::OsStr::from_bytes(&dir)) } else {
            PathBuf::from(std::ffi::OsStr::from_bytes(&dir))
        };
        let program = [b"bin/".as_slice(), &file].concat();
        let command = way(Some(&word(cwd.as_os_str().as_bytes())), &env, &word(program), &[word("-P")]);
        let seen = run(&shell, &command, &scratch.0);
        let expected = [scratch.0.as_os_str().as_bytes(), b"/", &dir, b"\n"].concat();
        prop_assert_eq!(&seen.out, &expected, "{:?} {} {}", shell, command, seen.err);
    }

    #[test]
    fn any_name_is_looked_up_in_the_path_that_was_set(file in file_name(), (way, shell) in way_and_shell()) {
        let scratch = Scratch::new();
        scratch.link(&file, "/usr/bin/printf");
        let path = [scratch.0.as_os_str().as_bytes(), b":/bin:/usr/bin"].concat();
        let args = [word("%s."), word("a  b"), word("*")];
        let command = way(None, &[variable("PATH", path)], &word(&file), &args);
        let seen = run(&shell, &command, Path::new("/"));
        prop_assert_eq!(&seen.out, b"a  b.*.", "{:?} {} {}", shell, command, seen.err);
    }
}

#[test]
fn simple_words_stay_readable() {
    let env = [variable("A", "b"), variable("LIST", "x y")];
    let args = [word("-v"), word(""), word("it's"), word("!"), word(r"a\b")];
    let line = command(None, &env, &word("./daemon"), &args);
    let expected = r"exec env -- 'A=b' 'LIST=x y' ./daemon -v '' 'it'\'s \! 'a'\\b";
    assert_eq!(line.to_string(), expected);
    assert_eq!(command(None, &[], &word("true"), &[]).to_string(), "exec env -- true");
    assert_eq!(command(None, &[], &word("/bin/true"), &[word("x")]).to_string(), "exec /bin/true x");
    assert_eq!(
        command(None, &[], &word("./a=b"), &[]).to_string(),
        "exec env -- sh -c 'exec \"$0\" \"$@\"' './a=b'"
    );
    let there = command(Some(&word("/tmp/run")), &[], &word("true"), &[]).to_string();
    assert!(there.starts_with("exec /bin/sh -c 'cd /tmp/run || { printf "), "{there}");
    assert!(there.ends_with(" >&2; exit 125; }; exec env -- true'"), "{there}");
}

#[test]
fn whatever_is_in_it_a_command_is_printable_and_made_of_words_that_csh_has_room_for() {
    let value: Vec<u8> = (1..=255).cycle().take(20_000).collect();
    let many = vec![word("a b"); 3_000];
    let commands = [
        command(Some(&word("caf\u{e9}")), &[variable("A", value)], &word("x"), &[]),
        command(None, &[], &word("x"), &many),
        command(None, &[], &word("x"), &[word("'".repeat(9_000))]),
    ];
    for command in &commands {
        let bytes = command.as_bytes();
        assert!(bytes.iter().all(is_printable), "{command}");
        // An upper bound: there are blanks in words as well.
        let words: Vec<_> = bytes.split(|byte| *byte == b' ').collect();
        assert!(
            bytes.len() < 128 << 10 && words.iter().all(|word| word.len() <= MAX_WORD_LEN + 1),
            "{command}"
        );
    }
    assert!(
        commands[1].to_string().starts_with(r#"exec /bin/sh -c 'eval "$(printf %b "$@")"' sh 'exec env"#)
    );
}

#[test]
fn what_is_too_long_for_csh_arrives_all_the_same() {
    let long = word("x y".repeat(20_000));
    let many: Vec<OsBytes> = (0..3_000).map(|number| word(format!("{number} !"))).collect();
    for args in [vec![long], many] {
        let command = command(None, &[], &word("printf"), &[&[word("%s,")], &args[..]].concat());
        let expected: Vec<u8> = args.iter().flat_map(|arg| [arg.as_bytes(), b","].concat()).collect();
        for shell in shells() {
            let seen = run(&shell, &command, Path::new("/"));
            assert!(seen.out == expected, "{shell:?} {} {}", seen.out.len(), seen.err);
        }
    }
}

#[test]
fn a_directory_that_is_not_there_is_named_and_nothing_is_run() {
    for (directory, named) in
        [("/nonexistent/a b", "/nonexistent/a b"), ("-", "./-"), ("+1", "./+1"), ("x\\n", "./x\\n")]
    {
        let command = command(Some(&word(directory)), &[], &word("echo"), &[word("ran")]);
        for shell in shells() {
            let seen = run(&shell, &command, Path::new("/"));
            assert_eq!(
                (seen.exit, seen.out.as_slice()),
                (ExitStatus::Code(SETUP_FAILED), &b""[..]),
                "{shell:?}"
            );
            let last = seen.err.lines().last().and_then(|line| line.strip_prefix(NO_DIRECTORY));
            assert_eq!(last, Some(named), "{shell:?}: {}", seen.err);
        }
    }
}

#[test]
fn a_missing_program_is_127_and_one_that_cannot_be_executed_126() {
    for env in [vec![], vec![variable("A", "b")]] {
        for (program, status) in [
            ("no-such-program", 127),
            ("-no-such", 127),
            ("/nonexistent/x", 127),
            ("../nonexistent/a%b", 127),
            ("/etc/passwd", 126),
            ("/etc", 126),
        ] {
            let commands = WRITERS.map(|way| way(None, &env, &word(program), &[]));
            for (shell, command) in shells().iter().flat_map(|shell| commands.iter().map(move |c| (shell, c)))
            {
                let seen = run(shell, command, Path::new("/"));
                if shell[0].ends_with("csh") && !command.to_string().contains("env -- ") {
                    let what = match status {
                        127 => ShellError::ProgramNotFound,
                        _ => ShellError::ProgramNotExecutable,
                    };
                    let said = of_csh(&seen.err).map(|(said, _)| said);
                    assert_eq!((seen.exit, said), (ExitStatus::Code(1), Some(what)), "{}", seen.err);
                } else {
                    assert_eq!(seen.exit, ExitStatus::Code(status), "{shell:?} {command} {}", seen.err);
                }
                assert!(seen.err.contains(program), "{shell:?}: {}", seen.err);
            }
        }
    }
}

#[test]
fn the_program_takes_the_place_of_the_shell() {
    let command = command(None, &[variable("A", "b")], &word("dash"), &[word("-c"), word("kill -TERM $$")]);
    for shell in shells() {
        let seen = run(&shell, &command, Path::new("/"));
        assert!(matches!(seen.exit, ExitStatus::Signal { .. }), "{shell:?}: {}", seen.exit);
    }
}

#[test]
fn a_tied_program_ends_with_the_one_that_has_started_its_shell() {
    let tied = command_with_death_signal(None, &[], &word("sleep"), &[word("1000")]);
    for shell in shells() {
        let scratch = Scratch::new();
        // A starter that starts the shell, reports its process ID, and ends.
        let args: Vec<String> = shell[1..].iter().map(|arg| quoted(arg)).collect();
        let starter = format!(
            "{} {} {} & echo $! >started; until grep -q TIED /proc/$!/environ 2>/dev/null; do :; done",
            shell[0],
            args.join(" "),
            quoted(&tied.to_string())
        );
        let seen = run(&["dash", "-c"], &word(starter), &scratch.0);
        assert_eq!(seen.exit, ExitStatus::Code(0), "{shell:?}: {}", seen.err);
        let pid = fs::read_to_string(scratch.0.join("started")).unwrap();
        let deadline = std::time::Instant::now() + TIMEOUT;
        while lives(pid.trim()) {
            assert!(std::time::Instant::now() < deadline, "{shell:?}: {pid} goes on");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Whether a process has not ended, though it may be an orphan.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
}

/// A word for `sh`.
fn quoted(text: &str) -> String {
    String::from_utf8(quote(text.as_bytes()).into_owned()).unwrap()
}

#[test]
fn of_equal_names_the_last_variable_counts_and_builtins_are_not_meant() {
    let env = [variable("A", "1"), variable("A", "2")];
    let command = command(None, &env, &word("printenv"), &[word("A")]);
    for shell in shells() {
        assert_eq!(run(&shell, &command, Path::new("/")).out, b"2\n", "{shell:?}");
    }
}
