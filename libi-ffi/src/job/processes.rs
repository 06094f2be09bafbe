//! The processes of a job.

use std::ffi::CString;

use libc::c_char;
use libi::job::ProcessTable;

use crate::error::CallError;
use crate::object::{self, ask, give, handle, query};
use crate::result::libi_result::{self, LIBI_NONE};
use crate::text::c_string;

/// Processes of a job, in the order of their ranks. They do not change, any number of threads may
/// use them, and they are independent of the object that they were read from. Since 0.1.
pub struct libi_processes {
    _opaque: (),
}

handle!(libi_processes, "list of processes", Vec<ProcessView>);

/// A process, and its texts as C reads them.
pub struct ProcessView {
    rank: u32,
    pid: i32,
    host: CString,
    executable: CString,
}

pub(super) fn give_processes(table: &ProcessTable) -> *mut libi_processes {
    let view = |process: libi::job::JobProcess<'_>| ProcessView {
        rank: process.rank.0,
        pid: process.pid,
        host: c_string(process.host),
        executable: CString::new(process.executable.as_bytes()).unwrap_or_default(),
    };
    give(table.iter().map(view).collect())
}

/// A process of a job. The strings belong to the libi_processes. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_processes_entry_info {
    /// Its rank in the job.
    pub rank: u32,
    /// Its process ID on its host.
    pub pid: i32,
    /// Its host, as the launcher of the job names it.
    pub host_name: *const c_char,
    /// Its executable, as the launcher names it: perhaps without a directory.
    pub executable: *const c_char,
}

/// Frees a list of processes. NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_processes_free(processes: *mut libi_processes) {
    // SAFETY: as documented in the header.
    unsafe { object::free(processes) }
}

/// The number of processes; 0 for NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_processes_count(processes: *const libi_processes) -> usize {
    // SAFETY: as documented in the header.
    unsafe { ask(processes, 0, Vec::len) }
}

/// Fills *info with a process, counted from 0.
///
/// Returns LIBI_OK, or LIBI_NONE if there is no such process. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_processes_entry(
    processes: *const libi_processes,
    index: usize,
    info: *mut libi_processes_entry_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(processes, info, size, |processes| {
            let none = || CallError::new(LIBI_NONE, "there is no such process");
            let view = processes.get(index).ok_or_else(none)?;
            Ok(libi_processes_entry_info {
                rank: view.rank,
                pid: view.pid,
                host_name: view.host.as_ptr(),
                executable: view.executable.as_ptr(),
            })
        })
    }
}
