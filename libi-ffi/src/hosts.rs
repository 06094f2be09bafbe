//! Host lists.

use std::ffi::CString;
use std::num::NonZeroU32;
use std::ptr::null;
use std::sync::Mutex;

use libc::c_char;
use libi::HostList;
use libi::hosts::{HostListError, HostRef, job};
use libi_core::dist::placement::{Overflow, Placement, place};

use crate::args::{self, c_string};
use crate::object::{self, ask_one, give, handle, with_one};
use crate::result::{CallError, CallResult, LIBI_ERR_HOSTS, LIBI_NONE, libi_result};

/// Hosts, and how many processes on each. It may be used by one thread at a time. Since 0.1.
pub struct libi_hosts {
    _opaque: (),
}

handle!(libi_hosts, "host list", Mutex<Hosts>);

#[derive(Default)]
pub(crate) struct Hosts {
    pub(crate) list: HostList,
    /// What getters have given: names and users by their place, and the whole.
    names: Vec<Option<[CString; 2]>>,
    folded: CString,
}

impl Hosts {
    fn entry(&mut self, index: usize) -> Option<&[CString; 2]> {
        let host = self.list.entry(index)?;
        self.names.resize(self.list.len(), None);
        let place = self.names.get_mut(index)?;
        Some(place.get_or_insert_with(|| [c_string(host.name), c_string(host.user.unwrap_or_default())]))
    }

    fn append(&mut self, more: &HostList) -> CallResult {
        let before = self.list.len();
        for host in more {
            if let Err(kind) = self.list.push(host) {
                let mut as_before = HostList::new();
                self.list.iter().take(before).try_for_each(|host| as_before.push(host)).unwrap_or_default();
                self.list = as_before;
                return Err(CallError::of(LIBI_ERR_HOSTS, &kind));
            }
        }
        Ok(())
    }
}

/// An empty list. To be freed by libi_hosts_free(). Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_hosts_new() -> *mut libi_hosts {
    give(Mutex::default())
}

/// Frees a list; NULL is fine. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_free(hosts: *mut libi_hosts) {
    // SAFETY: as the header asks.
    unsafe { object::free(hosts) }
}

/// What failed last with this list in this thread; empty if nothing has. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_error(hosts: *const libi_hosts) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { object::error(hosts) }
}

/// Appends the hosts of a text such as "node[001-064]:8, me@login:2222:1".
///
/// Returns LIBI_OK, or LIBI_ERR_HOSTS with the place of the mistake in libi_hosts_error(); the list is as before then. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_parse(hosts: *mut libi_hosts, text: *const c_char) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { with_one(hosts, |hosts| hosts.append(&parse(args::text(text, "the text")?)?)) }
}

/// Appends the hosts of a host file's contents: one or more on a line, with comments behind #.
///
/// Returns as libi_hosts_parse(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_parse_file(
    hosts: *mut libi_hosts,
    contents: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(hosts, |hosts| {
            let text = args::text(contents, "the contents")?;
            let more = libi::hosts::file::parse_host_file(text).map_err(|error| pointed(&error, text))?;
            hosts.append(&more)
        })
    }
}

/// Appends the hosts of the surrounding Slurm, LSF, PBS or Grid Engine job, as the environment has them.
///
/// Returns LIBI_OK; LIBI_NONE if there is no such job; LIBI_ERR_HOSTS if what its resource manager says cannot be understood.
/// It reads the environment: no other thread may change that meanwhile. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_add_job(hosts: *mut libi_hosts) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(hosts, |hosts| {
            let found = job::job_hosts(|name| std::env::var(name).ok(), |path| std::fs::read_to_string(path));
            match found.map_err(|error| CallError::of(LIBI_ERR_HOSTS, &error))? {
                Some(job) => hosts.append(&job.hosts),
                None => Err(CallError::new(LIBI_NONE, "this process is in no job that is known")),
            }
        })
    }
}

/// Appends one host. The user may be NULL; a port of 0 is none; count is how many processes there, at least 1.
///
/// Returns LIBI_OK, or LIBI_ERR_HOSTS if it is no name or no user. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_add(
    hosts: *mut libi_hosts,
    name: *const c_char,
    user: *const c_char,
    port: u16,
    count: u32,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(hosts, |hosts| {
            let name = args::text(name, "the name")?;
            let user = args::optional(user, |user| args::text(user, "the user"))?;
            let host = HostRef { user, name, port: (port > 0).then_some(port), count };
            hosts.list.push(host).map_err(|kind| CallError::of(LIBI_ERR_HOSTS, &kind))
        })
    }
}

/// How many entries the list has; 0 if it is NULL. A host that is named twice counts twice. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_count(hosts: *const libi_hosts) -> usize {
    // SAFETY: as the header asks.
    unsafe { ask_one(hosts, 0, |hosts| hosts.list.len()) }
}

/// How many processes all entries stand for; 0 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_processes(hosts: *const libi_hosts) -> u64 {
    // SAFETY: as the header asks.
    unsafe { ask_one(hosts, 0, |hosts| hosts.list.processes()) }
}

/// The name of an entry, counted from 0; NULL if there is none. It is the list's. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_name(hosts: *const libi_hosts, index: usize) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask_one(hosts, null(), |hosts| hosts.entry(index).map_or(null(), |[name, _]| name.as_ptr())) }
}

/// The user of an entry, empty if it says nothing of one; NULL if there is no such entry. It is the list's. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_user(hosts: *const libi_hosts, index: usize) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask_one(hosts, null(), |hosts| hosts.entry(index).map_or(null(), |[_, user]| user.as_ptr())) }
}

/// The port of an entry; 0 if it says nothing of one, or there is no such entry. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_port(hosts: *const libi_hosts, index: usize) -> u16 {
    // SAFETY: as the header asks.
    unsafe { ask_one(hosts, 0, |hosts| hosts.list.entry(index).and_then(|host| host.port).unwrap_or(0)) }
}

/// How many processes an entry stands for; 0 if there is no such entry. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_slots(hosts: *const libi_hosts, index: usize) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask_one(hosts, 0, |hosts| hosts.list.entry(index).map_or(0, |host| host.count)) }
}

/// The whole list written short, as libi_hosts_parse() reads it; NULL if the list is NULL. It is the list's, until this is
/// called again. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_fold(hosts: *mut libi_hosts) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe {
        ask_one(hosts, null(), |hosts| {
            hosts.folded = c_string(&hosts.list.fold());
            hosts.folded.as_ptr()
        })
    }
}

/// How processes are placed on hosts. Since 0.1.
pub type libi_placement = i32;
/// Each host is filled before the next one gets anything.
pub const LIBI_PLACE_BLOCK: libi_placement = 0;
/// Each host gets one process in turn.
pub const LIBI_PLACE_CYCLIC: libi_placement = 1;
/// Each host gets a number of processes in turn.
pub const LIBI_PLACE_PLANE: libi_placement = 2;

/// Makes the list one of so many processes, placed on its hosts, none of which gets more than its count says; if repeat is true,
/// hosts are filled to their counts again and again. With LIBI_PLACE_PLANE, plane is how many a host gets in turn.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if they do not fit or the placement is none; the list is as before then. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_hosts_place(
    hosts: *mut libi_hosts,
    processes: u64,
    placement: libi_placement,
    plane: u32,
    repeat: bool,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(hosts, |hosts| {
            let placement = match (placement, NonZeroU32::new(plane)) {
                (LIBI_PLACE_BLOCK, _) => Placement::Block,
                (LIBI_PLACE_CYCLIC, _) => Placement::Cyclic,
                (LIBI_PLACE_PLANE, Some(plane)) => Placement::Plane(plane),
                (LIBI_PLACE_PLANE, None) => return Err(CallError::argument("a plane has to be 1 or more")),
                _ => return Err(CallError::argument(format!("there is no placement {placement}"))),
            };
            let overflow = if repeat { Overflow::Repeat } else { Overflow::Refuse };
            let placed = place(&hosts.list, processes, placement, overflow);
            let list = placed.map_err(|error| CallError::argument(error.to_string()))?;
            *hosts = Hosts { list, ..Hosts::default() };
            Ok(())
        })
    }
}

/// A copy of a list that C has.
///
/// # Safety
/// It is NULL, or what C was given.
pub(crate) unsafe fn copy(hosts: *const libi_hosts) -> CallResult<HostList> {
    // SAFETY: as this function asks.
    unsafe { object::read(hosts, "the host list", |hosts| hosts.list.clone()) }
}

/// A list that was given as a text.
pub(crate) fn parse(text: &str) -> CallResult<HostList> {
    HostList::parse(text).map_err(|error| pointed(&error, text))
}

/// A mistake with the text around it and a caret below.
fn pointed(error: &HostListError, text: &str) -> CallError {
    CallError::new(LIBI_ERR_HOSTS, format!("{error}\n{}", error.excerpt(text)))
}
