//! Delivery of the agent to a host that does not have it, through the channel of its launch.
//!
//! The command that is launched is a script for the POSIX shell. It says on the channel what it
//! needs, and nothing else is sent to it before:
//!
//! | launcher | the script says | the launcher sends | next |
//! |---|---|---|---|
//! | asked | `ready`: the host has this very file, which runs now | what has waited | open |
//! | asked | `needed`: the host lacks it, or has another one | the length in one line, the file | sending |
//! | asked | `needed-gz`: the same, and the host has `gzip` | the same, or a line of the length and `gz`, and the file compressed | sending |
//! | sending | `ready`: the file has the right hash, and runs now | what has waited | open |
//!
//! Each of these is a line of its own. Text before it, such as a login banner, is what the host has
//! printed. The script fails, with its reason on standard error and exit status 126, if the host is of
//! another architecture, has no directory from which programs may be executed, or has received
//! something else than was sent. Whatever happens, its directory is removed: by the script, or by the
//! agent as soon as it runs. A launcher that was delivered itself sends its own executable.
//!
//! The file is [compressed](Packed) meanwhile, if at all: while the first host logs in. A front end may
//! have a slow network, and sends one copy. Leaders send what they are, as it is.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use libi_core::dist::OsBytes;
use libi_core::secure::digest::blake2b;
use serde::{Deserialize, Serialize};

use crate::machine::Program;

/// The directory that an agent was delivered to. The agent removes it.
pub const DIRECTORY_ENV: &str = "LIBI_AGENT_DIRECTORY";

/// The lines of the script.
const READY: &[u8] = b"libi-agent-ready\n";
const NEEDED: &[u8] = b"libi-agent-needed\n";
const NEEDED_GZIP: &[u8] = b"libi-agent-needed-gz\n";

/// `$1` is the path of the agent, `$2` the architecture that it is for, `$3` and `$4` its hashes; its
/// arguments follow. `head` may read more than it should: nothing follows the file before the host is
/// ready.
const SCRIPT: &str = r#"
fail() { echo "libi: $1" >&2; exit 126; }
path=$1 machine=$2
if command -v b2sum >/dev/null 2>&1; then
  expected=$3 hash=b2sum
else
  expected=$4 hash=cksum
fi
shift 4
is_agent() { sum=$($hash <"$1") && [ "${sum%% *}" = "$expected" ]; }
if [ -f "$path" ] && [ -x "$path" ] && is_agent "$path"; then
  echo libi-agent-ready
  exec "$path" "$@"
fi
[ "$(uname -m)" = "$machine" ] || fail "the agent is for $machine, and this host is $(uname -m)"
umask 077
directory=
for place in "$XDG_RUNTIME_DIR" /dev/shm "$TMPDIR" /tmp "$HOME"; do
  [ -d "$place" ] && [ -w "$place" ] || continue
  directory=$(mktemp -d "$place/libi-agent.XXXXXXXX" 2>/dev/null) || { directory=; continue; }
  printf '#!/bin/sh\n' >"$directory/agent" && chmod 700 "$directory/agent" &&
    "$directory/agent" 2>/dev/null && break
  rm -rf "$directory"
  directory=
done
[ "$directory" ] || fail 'no directory from which the agent could be executed'
trap 'rm -rf "$directory"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
if command -v gzip >/dev/null 2>&1; then echo libi-agent-needed-gz; else echo libi-agent-needed; fi
read -r length form || fail 'the agent did not arrive'
if [ "$form" = gz ]; then
  head -c "$length" | gzip -dc >"$directory/agent" || fail 'the agent did not arrive whole'
else
  head -c "$length" >"$directory/agent" || fail 'the agent did not arrive'
fi
is_agent "$directory/agent" || fail 'the agent that arrived is not the one that was sent'
LIBI_AGENT_DIRECTORY=$directory
export LIBI_AGENT_DIRECTORY
echo libi-agent-ready
exec "$directory/agent" "$@"
"#;

/// An agent that is sent to hosts that lack it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    machine: String,
    blake2b: String,
    crc: u32,
    /// The file. Elsewhere than at the front end it is the executable of the process.
    #[serde(skip)]
    file: Option<Arc<[u8]>>,
    #[serde(skip)]
    packed: Packed,
}

/// The file as `gzip` compresses it, once that is known. It is sent if it is there when a host needs the
/// file; nothing waits for it.
#[derive(Clone, Debug, Default)]
pub struct Packed(Arc<OnceLock<Arc<[u8]>>>);

impl Packed {
    /// The file is compressed. Only the first call counts.
    pub fn set(&self, compressed: Vec<u8>) {
        let _ = self.0.set(compressed.into());
    }
}

/// Two deliveries of one file are equal, however it is sent.
impl PartialEq for Packed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Packed {}

impl Delivery {
    /// The file, for another process that launches in place of this one.
    pub(crate) fn carried_file(&self) -> Option<Vec<u8>> {
        self.file.as_ref().map(|file| file.to_vec())
    }

    /// The same delivery there.
    pub(crate) fn with_carried_file(self, file: Vec<u8>) -> Self {
        Self { file: Some(file.into()), ..self }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("machine", &self.machine)
            .field("bytes", &self.file.as_ref().map(|file| file.len()))
            .finish_non_exhaustive()
    }
}

impl Delivery {
    /// The delivery of an executable of this machine.
    #[must_use]
    pub fn of(file: Vec<u8>) -> Self {
        let name = nix::sys::utsname::uname();
        let machine = name.map(|name| name.machine().to_string_lossy().into_owned());
        Self::for_machine(file, &machine.unwrap_or_default())
    }

    /// The delivery of an executable for this architecture, as `uname -m` names it.
    fn for_machine(file: Vec<u8>, machine: &str) -> Self {
        let hash = blake2b(&file);
        Self {
            machine: machine.to_owned(),
            blake2b: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            crc: cksum(&file),
            file: Some(file.into()),
            packed: Packed::default(),
        }
    }

    /// Sends the file compressed to hosts that have `gzip`, once it is.
    #[must_use]
    pub fn packed(mut self, packed: Packed) -> Self {
        self.packed = packed;
        self
    }

    /// What is sent to a host that needs this file: a line, and the bytes.
    #[must_use]
    pub fn message(&self, file: &Arc<[u8]>, has_gzip: bool) -> (String, Arc<[u8]>) {
        let (form, bytes) = match self.packed.0.get().filter(|_| has_gzip) {
            Some(packed) => (" gz", packed),
            None => ("", file),
        };
        (format!("{}{form}\n", bytes.len()), Arc::clone(bytes))
    }

    /// The file. `own` is the executable of this process.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn file(&self, own: &Path) -> std::io::Result<Arc<[u8]>> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => std::fs::read(own).map(Arc::from),
        }
    }

    /// The script that takes the agent's place on a host.
    #[must_use]
    pub fn script_for(&self, agent: &Program) -> Program {
        let word = |text: &str| OsBytes::try_from(text).ok();
        let words = [word("-c"), word(SCRIPT), word("libi"), Some(agent.executable.clone())];
        let told = [&self.machine, &self.blake2b, &self.crc.to_string()].map(|it| word(it));
        Program {
            executable: word("sh").unwrap_or_default(),
            args: words.into_iter().chain(told).flatten().chain(agent.args.iter().cloned()).collect(),
            env: agent.env.clone(),
            cwd: agent.cwd.clone(),
        }
    }
}

/// What a host has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    Nothing,
    /// The file is to be sent; the host may have `gzip`.
    Needed {
        /// Whether it has.
        has_gzip: bool,
    },
    /// The agent runs. Everything that follows is its protocol.
    Ready,
}

/// Finds the lines of the script among what a host prints.
#[derive(Clone, Debug, Default)]
pub struct AnswerReader {
    /// What may be the beginning of such a line.
    held: Vec<u8>,
    was_needed: bool,
}

impl AnswerReader {
    /// Looks for an answer in bytes of the channel, and removes it from them. After
    /// [`Answer::Ready`] nothing may be passed to this reader any more.
    pub fn filter(&mut self, bytes: &mut Vec<u8>) -> Answer {
        let mut all = std::mem::take(&mut self.held);
        all.append(bytes);
        if let Some(at) = find(&all, READY) {
            all.drain(at..at + READY.len());
            *bytes = all;
            return Answer::Ready;
        }
        let mut answer = Answer::Nothing;
        for (line, has_gzip) in [(NEEDED, false), (NEEDED_GZIP, true)] {
            if let Some(at) = find(&all, line).filter(|_| !self.was_needed) {
                all.drain(at..at + line.len());
                self.was_needed = true;
                answer = Answer::Needed { has_gzip };
            }
        }
        let lines = [READY, NEEDED, NEEDED_GZIP];
        let may_begin = |at: &usize| lines.iter().any(|line| line.starts_with(&all[*at..]));
        let least = all.len().saturating_sub(NEEDED_GZIP.len());
        let end = (least..all.len()).find(may_begin).unwrap_or(all.len());
        self.held = all.split_off(end);
        *bytes = all;
        answer
    }

    /// What was held back, when the channel has ended.
    pub fn take_held(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

fn find(text: &[u8], line: &[u8]) -> Option<usize> {
    text.windows(line.len()).position(|part| part == line)
}

/// The checksum of `cksum`, which every POSIX system has.
fn cksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: u8| {
        let mut crc = crc ^ u32::from(byte) << 24;
        for _ in 0..8 {
            crc = crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 };
        }
        crc
    };
    let mut crc = bytes.iter().fold(0, |crc, byte| step(crc, *byte));
    let mut length = bytes.len();
    while length > 0 {
        crc = step(crc, length as u8);
        length >>= 8;
    }
    !crc
}

#[cfg(test)]
mod tests;
