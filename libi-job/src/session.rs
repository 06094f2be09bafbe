//! Sessions of libi, which say themselves which processes they have.
//!
//! A front end notes the hosts of its session, and the leader of each host notes the members there, each in a
//! file without a name that it keeps open. Who may read the memory of a process may read that too: the tool
//! finds the file among the open ones of the process (`/proc/PID/fd`), and there is nothing that outlives it.
//!
//! | file | written by | when |
//! |---|---|---|
//! | [`Hosts`] | the front end, or the keeper of a detached session | the session is up; it has grown; a host is lost |
//! | [`Members`] | the leader of a host | it joins; its members were started, restarted, or have ended |
//!
//! | what is found on a host | what is known |
//! |---|---|
//! | no leader of the session | all its members have ended |
//! | members, and more are being started | not all: looked at again a little later |
//! | members | all that there are |
//!
//! | no leader of the session, but a file that is not understood | nothing: looked at again a little later |
//!
//! A file may be written while it is read: what is not the same twice is read again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use libi_core::ids::{HostIndex, Rank, SessionId};
use libi_core::join::SessionKey;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::process;

/// The format of what is noted. Processes of other versions of libi are not understood.
const VERSION: u32 = 1;
/// No file is longer.
const LONGEST: u64 = 64 << 20;
/// How often a file is read that changes.
const READINGS: usize = 16;

/// The hosts of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// The number of the session among those of its front end.
    pub session: SessionId,
    /// Tells it from those of other front ends.
    pub key: SessionKey,
    /// Those that were neither lost nor failed.
    pub hosts: Vec<Host>,
    /// The Slurm job in which the hosts are, if `srun` has launched them.
    pub slurm_job: Option<String>,
}

/// A host of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its number.
    pub index: HostIndex,
    /// Its name, as the host list has it.
    pub name: String,
    /// Whether it is the machine of the front end.
    pub is_here: bool,
}

/// The members of a session on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// The session.
    pub key: SessionKey,
    /// The host.
    pub host: HostIndex,
    /// The ranks that run, with their process IDs.
    pub members: Vec<(Rank, i32)>,
    /// Whether members are still to be started.
    pub awaits_more: bool,
}

/// What is noted, and the name of its file, as the system shows it.
pub trait Noted: Serialize + DeserializeOwned + PartialEq {
    /// The name.
    const NAME: &'static str;
}

impl Noted for Hosts {
    const NAME: &'static str = "libi-hosts";
}

impl Noted for Members {
    const NAME: &'static str = "libi-members";
}

/// A note of this process, which others find as long as this value lives.
#[derive(Debug, Default)]
pub struct Note(Option<File>);

impl Note {
    /// Notes this, in place of what was noted before.
    ///
    /// # Errors
    /// The system has no memory or no descriptors left; what was noted before stays.
    pub fn write<T: Noted>(&mut self, noted: &T) -> io::Result<()> {
        let bytes = postcard::to_allocvec(&(VERSION, noted)).map_err(io::Error::other)?;
        let file = match &mut self.0 {
            Some(file) => file,
            none => none.insert(File::from(memfd_create(T::NAME, MFdFlags::MFD_CLOEXEC)?)),
        };
        // One call, so that a reader seldom finds it half-written.
        let whole = [&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat();
        file.write_all_at(&whole, 0)
    }
}

/// What a process has noted, of each of its sessions; `None` for what is not understood.
fn files_of<T: Noted>(pid: i32) -> io::Result<Vec<Option<T>>> {
    let name = format!("/memfd:{} (deleted)", T::NAME);
    let is_one = |path: &std::path::Path| fs::read_link(path).is_ok_and(|link| link.as_os_str() == &*name);
    let open = fs::read_dir(format!("/proc/{pid}/fd"))?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(open.filter(|path| is_one(path)).map(|path| read(&File::open(path).ok()?)).collect())
}

/// What a process has noted, of each of its sessions; nothing of one that may not be looked at.
pub(crate) fn notes_of<T: Noted>(pid: i32) -> Vec<T> {
    files_of(pid).unwrap_or_default().into_iter().flatten().collect()
}

/// What is noted in a file, if that is the same twice.
fn read<T: Noted>(file: &File) -> Option<T> {
    let mut last = None;
    for _ in 0..READINGS {
        let noted = read_once(file);
        if noted.is_some() && noted == last {
            return noted;
        }
        last = noted;
    }
    None
}

fn read_once<T: Noted>(file: &File) -> Option<T> {
    let mut length = [0; 8];
    file.read_exact_at(&mut length, 0).ok()?;
    let length = u64::from_le_bytes(length);
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= LONGEST)?];
    file.read_exact_at(&mut bytes, 8).ok()?;
    let (version, rest) = postcard::take_from_bytes::<u32>(&bytes).ok()?;
    (version == VERSION).then(|| postcard::from_bytes(rest).ok())?
}

/// What the leaders on this machine have noted.
#[derive(Debug)]
pub(crate) struct Here {
    all: BTreeMap<(SessionKey, HostIndex), Members>,
    /// Something is not understood.
    has_more: bool,
}

impl Here {
    pub(crate) fn now() -> Self {
        let mut here = Self { all: BTreeMap::new(), has_more: false };
        for (pid, _) in process::all() {
            for members in files_of::<Members>(pid).unwrap_or_default() {
                here.has_more |= members.is_none();
                here.all.extend(members.map(|members| ((members.key, members.host), members)));
            }
        }
        here
    }

    /// The members of a host of a session, and how many there are; without a leader all have ended.
    pub(crate) fn members(&self, key: SessionKey, host: HostIndex) -> (&[(Rank, i32)], Option<u32>) {
        match self.all.get(&(key, host)) {
            Some(Members { members, awaits_more, .. }) => {
                (members, (!awaits_more).then_some(members.len() as u32))
            }
            None => (&[], (!self.has_more).then_some(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: u32) -> Members {
        let members = (0..count).map(|rank| (Rank(rank), 100 + rank as i32)).collect();
        Members { key: SessionKey(7), host: HostIndex(3), members, awaits_more: false }
    }

    #[test]
    fn what_is_noted_is_found_among_the_open_files_of_the_process() {
        let mut note = Note::default();
        let here = |host| Here::now().all.remove(&(SessionKey(7), HostIndex(host)));
        assert_eq!(here(3), None);
        for count in [3, 100, 1] {
            note.write(&members(count)).unwrap();
            assert_eq!(here(3), Some(members(count)));
        }
        assert_eq!(here(2), None);
        assert_eq!(notes_of::<Hosts>(std::process::id() as i32), [], "it has another name");
        drop(note);
        assert_eq!(here(3), None);
    }

    #[test]
    fn nonsense_and_other_versions_are_not_understood() {
        let file = || File::from(memfd_create(Members::NAME, MFdFlags::MFD_CLOEXEC).unwrap());
        let other = postcard::to_allocvec(&(VERSION + 1, members(2))).unwrap();
        let with_length = |length: u64, bytes: &[u8]| [&length.to_le_bytes()[..], bytes].concat();
        for bytes in [
            Vec::new(),
            vec![1; 7],
            with_length(u64::MAX, &[1; 100]),
            with_length(LONGEST, &[1; 100]),
            with_length(100, &[255; 100]),
            with_length(other.len() as u64, &other),
        ] {
            let file = file();
            file.write_all_at(&bytes, 0).unwrap();
            assert_eq!(read::<Members>(&file), None, "{bytes:?}");
        }
    }

    #[test]
    fn members_are_all_there_or_have_ended_only_if_that_is_said() {
        let (key, host) = (SessionKey(7), HostIndex(3));
        let mut here = Here { all: BTreeMap::new(), has_more: false };
        assert_eq!(here.members(key, host), (&[][..], Some(0)));
        here.has_more = true;
        assert_eq!(here.members(key, host), (&[][..], None), "they may be what is not understood");
        let noted = members(2);
        here.all.insert((key, host), noted.clone());
        assert_eq!(here.members(key, host), (&noted.members[..], Some(2)));
        here.all.insert((key, host), Members { awaits_more: true, ..noted.clone() });
        assert_eq!(here.members(key, host), (&noted.members[..], None));
        assert_eq!(here.members(SessionKey(8), host), (&[][..], None));
    }
}
