//! Everything that a child needs between its creation and its `exec`, prepared in advance.
//!
//! The child shares the memory of its parent, where any thread may hold any lock, so it cannot
//! allocate. The strings, the tables of pointers and the order in which descriptors move are
//! prepared here.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use libi_core::dist::OsBytes;

use super::environment::Environment;
use super::error::{Errno, StartError, StartStep};
use super::exit::Signal;
use super::guardian;
use super::start::{FdSource, Start};
use super::sys;

/// What the child does before it executes the program, and the program.
pub(super) struct Image {
    pub(super) path: CString,
    pub(super) argv: Strings,
    pub(super) envp: Strings,
    pub(super) cwd: Option<CString>,
    pub(super) moves: Vec<FdMove>,
    pub(super) own_group: bool,
    pub(super) death_signal: Option<i32>,
    pub(super) open_files: Option<libc::rlimit>,
    pub(super) close_method: CloseMethod,
    /// Where the child tells its guardian of itself.
    pub(super) guardian: Option<RawFd>,
    _null: Option<File>,
}

/// Moves a descriptor to its target number. The child processes the list in ascending order of
/// targets.
pub(super) struct FdMove {
    pub(super) from: RawFd,
    pub(super) to: u16,
    /// The current number is another move's target: the descriptor has to be duplicated out of the
    /// way first.
    pub(super) aside: bool,
}

/// How the child closes the descriptors that it is not given. A method that the kernel lacks falls
/// back to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
pub enum CloseMethod {
    /// `close_range` (Linux 5.9).
    #[default]
    Range,
    /// The entries of `/proc/self/fd`.
    Listed,
    /// Every number below the limit of open files.
    All,
}

impl Image {
    /// Prepares this start, with this file as the program.
    pub(super) fn new(start: &Start<'_>, file: &OsBytes) -> Result<Self, StartError> {
        let (moves, null) = moves(&start.fds)?;
        let refused = |errno| StartError::Refused { step: StartStep::Limit, errno };
        Ok(Self {
            path: c_string(file.as_bytes()),
            argv: Strings::new(
                [&start.program].into_iter().chain(&start.args).map(|word| c_string(word.as_bytes())),
            ),
            envp: environment(&start.env),
            cwd: start.cwd.as_ref().map(|cwd| c_string(cwd.as_bytes())),
            moves,
            own_group: start.own_group,
            death_signal: start.parent_death_signal.map(Signal::number),
            open_files: start.open_files.map(sys::open_files_limit).transpose().map_err(refused)?,
            close_method: start.close_method,
            guardian: if start.own_group && start.guarded { guardian::pipe() } else { None },
            _null: null,
        })
    }

    /// Has the shell read the file, as `execvp` does with scripts that name no interpreter.
    pub(super) fn run_by_shell(&mut self, start: &Start<'_>, file: &OsBytes) {
        // The shell must not take the file name for an option.
        let dash = if file.as_bytes().starts_with(b"-") { b"./".as_slice() } else { b"" };
        let script = c_string(&[dash, file.as_bytes()].concat());
        let shell = || c"/bin/sh".to_owned();
        let args = start.args.iter().map(|word| c_string(word.as_bytes()));
        self.argv = Strings::new([shell(), script].into_iter().chain(args));
        self.path = shell();
    }
}

/// Strings for `exec`: a table of pointers that ends with a null pointer.
pub(super) struct Strings {
    pointers: Vec<*const c_char>,
    /// The strings. Moving this does not move their bytes.
    _strings: Vec<CString>,
}

impl Strings {
    fn new(strings: impl Iterator<Item = CString>) -> Self {
        let strings: Vec<CString> = strings.collect();
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect();
        Self { pointers, _strings: strings }
    }

    pub(super) fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

fn environment(env: &Environment) -> Strings {
    Strings::new(
        env.variables().iter().map(|variable| {
            c_string(&[variable.name().as_bytes(), b"=", variable.value().as_bytes()].concat())
        }),
    )
}

fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).expect("made of Words, which hold no NUL")
}

/// The moves that bring every source to its number, and `/dev/null` if one needs it.
fn moves(fds: &BTreeMap<u16, FdSource<'_>>) -> Result<(Vec<FdMove>, Option<File>), StartError> {
    let mut null = None;
    let mut moves = Vec::with_capacity(fds.len());
    for (&to, source) in fds {
        let from = match source {
            FdSource::File(file) => file.as_raw_fd(),
            FdSource::Inherit if sys::is_open(to) => RawFd::from(to),
            FdSource::Inherit | FdSource::Null => open_null(&mut null)?,
        };
        let aside = from != RawFd::from(to) && u16::try_from(from).is_ok_and(|from| fds.contains_key(&from));
        moves.push(FdMove { from, to, aside });
    }
    Ok((moves, null))
}

fn open_null(null: &mut Option<File>) -> Result<RawFd, StartError> {
    if let Some(file) = null {
        return Ok(file.as_raw_fd());
    }
    let opened = OpenOptions::new().read(true).write(true).open("/dev/null");
    let refused = |error| StartError::Refused { step: StartStep::Null, errno: Errno::of(&error) };
    Ok(null.insert(opened.map_err(refused)?).as_raw_fd())
}
