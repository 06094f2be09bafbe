//! Tables of processes as C has them.

use std::ffi::CString;

use libc::{c_char, c_int};

use super::codes::{EBDARG, ENOMEM};
use crate::compat::{CallError, CallResult, args};

/// The header's `MPIR_PROCDESC`.
#[repr(C)]
pub struct MPIR_PROCDESC {
    host_name: *mut c_char,
    executable_name: *mut c_char,
    pid: c_int,
}

/// The header's `MPIR_PROCDESC_EXT`.
#[repr(C)]
pub struct MPIR_PROCDESC_EXT {
    pd: MPIR_PROCDESC,
    mpirank: c_int,
    cnodeid: c_int,
}

/// A process of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) host: CString,
    pub(super) executable: CString,
    pub(super) pid: i32,
    pub(super) rank: u32,
    /// The number of its host in the job.
    pub(super) host_number: u32,
}

/// Writes as many entries as there is room for, and returns their number. The caller frees the
/// strings.
///
/// # Safety
/// The place is NULL, or has room for this many entries.
pub(super) unsafe fn write(
    entries: &[Entry],
    place: *mut MPIR_PROCDESC_EXT,
    room: usize,
) -> CallResult<usize> {
    if place.is_null() {
        return Err(CallError::new(EBDARG, "the place for the table is NULL"));
    }
    let mut copies = Copies(Vec::new());
    for entry in entries.iter().take(room) {
        let (host_name, executable_name) = (copies.add(&entry.host)?, copies.add(&entry.executable)?);
        let at = copies.0.len() / 2 - 1;
        let pd = MPIR_PROCDESC { host_name, executable_name, pid: entry.pid };
        let written = MPIR_PROCDESC_EXT {
            pd,
            mpirank: entry.rank.cast_signed(),
            cnodeid: entry.host_number.cast_signed(),
        };
        // SAFETY: as for this function.
        unsafe { place.add(at).write(written) };
    }
    let count = copies.0.len() / 2;
    copies.0.clear();
    Ok(count)
}

/// Strings of the C library, freed if not all can be made.
struct Copies(Vec<*mut c_char>);

impl Copies {
    fn add(&mut self, text: &CString) -> CallResult<*mut c_char> {
        let copy: *mut c_char = args::malloc(text.as_bytes_with_nul()).cast();
        if copy.is_null() {
            return Err(CallError::new(ENOMEM, "no memory for the table"));
        }
        self.0.push(copy);
        Ok(copy)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        for copy in self.0.drain(..) {
            // SAFETY: it comes from `malloc`, and the caller was not told of it.
            unsafe { libc::free(copy.cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_entries_are_written_than_there_is_room_for() {
        let entry = |rank| Entry {
            host: c"n1".to_owned(),
            executable: c"/bin/true".to_owned(),
            pid: 7,
            rank,
            host_number: 2,
        };
        let entries: Vec<Entry> = (0..3).map(entry).collect();
        let mut table = Vec::<MPIR_PROCDESC_EXT>::with_capacity(2);
        let count = unsafe { write(&entries, table.as_mut_ptr(), 2) }.unwrap();
        unsafe { table.set_len(count) };
        assert_eq!(
            table.iter().map(|entry| (entry.mpirank, entry.cnodeid)).collect::<Vec<_>>(),
            [(0, 2), (1, 2)]
        );
        for MPIR_PROCDESC_EXT { pd, .. } in table {
            let read = |text| unsafe { args::string(text) }.unwrap().to_str().unwrap();
            assert_eq!((read(pd.host_name), read(pd.executable_name), pd.pid), ("n1", "/bin/true", 7));
            unsafe { libc::free(pd.host_name.cast()) };
            unsafe { libc::free(pd.executable_name.cast()) };
        }
        assert_eq!(unsafe { write(&entries, std::ptr::null_mut(), 2) }.unwrap_err().code, EBDARG);
    }
}
