//! Host lists.

use std::ffi::CString;
use std::num::NonZeroU32;
use std::ptr::null;

use libc::{c_char, c_int};
use libi::HostList;
use libi::hosts::{HostListError, HostRef, job};
use libi_core::dist::placement::{Overflow, Placement, place};

use crate::args::{self, from_c};
use crate::error::{CallError, CallResult};
use crate::object::{self, Builder, ask_builder, change, give, handle, query};
use crate::result::libi_result::{self, LIBI_ERR_ARGUMENT, LIBI_ERR_HOSTS, LIBI_NONE};
use crate::text::c_string;

/// A list of hosts, each with a number of processes. A builder: one thread at a time. Since 0.1.
pub struct libi_hosts {
    _opaque: (),
}

handle!(libi_hosts, "host list", Builder<Hosts>);

#[derive(Clone, Default)]
pub(crate) struct Hosts {
    list: HostList,
    /// The strings that C was given: name and user of each entry, and the whole list.
    names: Vec<Option<[CString; 2]>>,
    folded: CString,
}

/// An entry of a host list. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_hosts_entry_info {
    /// The name or address of the host.
    pub name: *const c_char,
    /// The user to log in as; empty if the entry does not say.
    pub user: *const c_char,
    /// The number of processes on the host.
    pub processes: u32,
    /// The port of the remote shell; 0 if the entry does not say.
    pub port: u16,
}

/// How processes are placed on hosts. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_placement {
    /// Each host is filled before the next one gets a process.
    LIBI_PLACE_BLOCK = 0,
    /// Round robin, one process at a time.
    LIBI_PLACE_CYCLIC = 1,
    /// Round robin, a plane of several processes at a time.
    LIBI_PLACE_PLANE = 2,
}

/// cbindgen:ignore
pub type libi_placement_arg = c_int;

impl Hosts {
    fn entry(&mut self, index: usize) -> Option<libi_hosts_entry_info> {
        let host = self.list.entry(index)?;
        self.names.resize(self.list.len(), None);
        let strings = self.names.get_mut(index)?;
        let new = || [c_string(host.name), c_string(host.user.unwrap_or_default())];
        let [name, user] = strings.get_or_insert_with(new);
        Some(libi_hosts_entry_info {
            name: name.as_ptr(),
            user: user.as_ptr(),
            processes: host.count,
            port: host.port.unwrap_or(0),
        })
    }

    /// Appends all or none of the hosts.
    fn append(&mut self, more: &HostList) -> CallResult {
        let before = self.list.len();
        for host in more {
            if let Err(kind) = self.list.push(host) {
                let mut as_before = HostList::new();
                let mut old = self.list.iter().take(before);
                old.try_for_each(|host| as_before.push(host)).unwrap_or_default();
                self.list = as_before;
                return Err(CallError::of(LIBI_ERR_HOSTS, &kind));
            }
        }
        Ok(())
    }
}

/// Makes an empty host list. Free it with libi_hosts_free(). Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_hosts_new() -> *mut libi_hosts {
    give(Builder::default())
}

/// Frees a host list. NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_free(hosts: *mut libi_hosts) {
    // SAFETY: as documented in the header.
    unsafe { object::free(hosts) }
}

/// Appends the hosts of a text such as "node[001-064]:8, me@login:2222:1".
///
/// Returns LIBI_OK, or LIBI_ERR_HOSTS if the text has a syntax error: libi_last_error() shows its
/// place, and the list is unchanged. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_add_list(hosts: *mut libi_hosts, text: *const c_char) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { change(hosts, |hosts: &mut Hosts| hosts.append(&parse(args::text(text, "the text")?)?)) }
}

/// Appends the hosts of a host file, which is passed as its text: one or more hosts on a line,
/// comments after #.
///
/// Returns as libi_hosts_add_list(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_add_file_text(
    hosts: *mut libi_hosts,
    text: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(hosts, |hosts: &mut Hosts| {
            let text = args::text(text, "the text")?;
            let more = libi::hosts::file::parse_host_file(text).map_err(|error| pointed(&error, text))?;
            hosts.append(&more)
        })
    }
}

/// Appends the hosts of the Slurm, LSF, PBS or Grid Engine job that this process runs in.
///
/// Reads the environment; no other thread may change it meanwhile. Returns LIBI_OK, LIBI_NONE if
/// there is no job, or LIBI_ERR_HOSTS if its variables have a syntax error. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_add_job(hosts: *mut libi_hosts) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(hosts, |hosts: &mut Hosts| {
            let found = job::job_hosts(|name| std::env::var(name).ok(), |path| std::fs::read_to_string(path));
            match found.map_err(|error| CallError::of(LIBI_ERR_HOSTS, &error))? {
                Some(job) => hosts.append(&job.hosts),
                None => Err(CallError::new(LIBI_NONE, "this process runs in no known job")),
            }
        })
    }
}

/// Appends one host. user may be NULL, port may be 0 for the default; processes is at least 1.
///
/// Returns LIBI_OK, or LIBI_ERR_HOSTS if the name, the user or the count is not valid. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_add_host(
    hosts: *mut libi_hosts,
    name: *const c_char,
    user: *const c_char,
    port: u16,
    processes: u32,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(hosts, |hosts: &mut Hosts| {
            let name = args::text(name, "the name")?;
            let user = args::optional(user, |user| args::text(user, "the user"))?;
            let host = HostRef { user, name, port: (port > 0).then_some(port), count: processes };
            hosts.list.push(host).map_err(|kind| CallError::of(LIBI_ERR_HOSTS, &kind))
        })
    }
}

/// Replaces the list by one of this many processes, placed on its hosts. No host gets more than
/// its number of processes, unless repeat is true: then hosts are filled again and again. plane
/// is the number of processes for LIBI_PLACE_PLANE; the other placements ignore it.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if the processes do not fit, the placement is unknown or
/// the plane is 0; the list is unchanged then. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_place(
    hosts: *mut libi_hosts,
    processes: u64,
    placement: libi_placement_arg,
    plane: u32,
    repeat: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(hosts, |hosts: &mut Hosts| {
            let plane =
                || NonZeroU32::new(plane).ok_or_else(|| CallError::argument("a plane has 1 process or more"));
            let placement = from_c!(placement, "libi_placement", libi_placement {
                LIBI_PLACE_BLOCK => Placement::Block,
                LIBI_PLACE_CYCLIC => Placement::Cyclic,
                LIBI_PLACE_PLANE => Placement::Plane(plane()?),
            })?;
            let overflow = if repeat { Overflow::Repeat } else { Overflow::Refuse };
            let placed = place(&hosts.list, processes, placement, overflow);
            let list = placed.map_err(|error| CallError::of(LIBI_ERR_ARGUMENT, &error))?;
            *hosts = Hosts { list, ..Hosts::default() };
            Ok(())
        })
    }
}

/// The number of entries; 0 for NULL. A host that is named twice has two. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_count(hosts: *const libi_hosts) -> usize {
    // SAFETY: as documented in the header.
    unsafe { ask_builder(hosts, 0, |hosts| hosts.list.len()) }
}

/// The number of processes of all entries; 0 for NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_processes(hosts: *const libi_hosts) -> u64 {
    // SAFETY: as documented in the header.
    unsafe { ask_builder(hosts, 0, |hosts| hosts.list.processes()) }
}

/// Fills *info with an entry, counted from 0. Its strings are valid until the list is changed.
///
/// Returns LIBI_OK, or LIBI_NONE if there is no such entry. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_entry(
    hosts: *mut libi_hosts,
    index: usize,
    info: *mut libi_hosts_entry_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(hosts, info, size, |hosts| {
            let none = || CallError::new(LIBI_NONE, "there is no such entry");
            hosts.exclusive("host list")?.entry(index).ok_or_else(none)
        })
    }
}

/// The whole list in its short form, as libi_hosts_add_list() reads it; NULL for NULL. The string
/// is valid until this function is called again. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_fold(hosts: *mut libi_hosts) -> *const c_char {
    // SAFETY: as documented in the header.
    unsafe {
        ask_builder(hosts, null(), |hosts| {
            hosts.folded = c_string(&hosts.list.fold());
            hosts.folded.as_ptr()
        })
    }
}

/// A copy of a list.
///
/// # Safety
/// As of [`object::built`].
pub(crate) unsafe fn copy(hosts: *const libi_hosts) -> CallResult<HostList> {
    // SAFETY: as for this function.
    unsafe { object::built(hosts, "the host list") }.map(|hosts: Hosts| hosts.list)
}

/// A list in its textual form.
pub(crate) fn parse(text: &str) -> CallResult<HostList> {
    HostList::parse(text).map_err(|error| pointed(&error, text))
}

/// A syntax error with the text around it and a caret below.
fn pointed(error: &HostListError, text: &str) -> CallError {
    CallError::new(LIBI_ERR_HOSTS, format!("{error}\n{}", error.excerpt(text)))
}
