//! Arguments from C++: lists of hosts and of variables, argument vectors, and places for results.

use std::ffi::CString;

use libc::{c_char, c_int, c_uint, c_void};
use libi::hosts::HostRef;
use libi::{EnvVar, HostList, SessionId};
use libi_core::dist::Distribution;

use super::{CallError, CallResult, EIO, ELAUNCH};
use crate::compat::args::{self, string, word};

/// The header's `LIBI::host_t`.
#[repr(C)]
pub struct host_t {
    hostname: *const c_char,
    nproc: c_uint,
    next: *const host_t,
}

/// The header's `LIBI::env_t`.
#[repr(C)]
pub struct env_t {
    name: *const c_char,
    value: *const c_char,
    next: *const env_t,
}

/// The header's `proc_dist_req_t`.
#[repr(C)]
pub struct proc_dist_req_t {
    pub(super) session: Handle,
    path: *const c_char,
    argv: *const *const c_char,
    hosts: *const host_t,
}

/// The header's `libi_sess_handle_t`: the number of a session, never dereferenced.
pub(super) type Handle = *mut c_void;

/// No list is longer; one that seems to be is a cycle.
const MAX_ENTRIES: usize = 10_000_000;

/// The variables of a list, without those that an environment cannot hold.
///
/// # Safety
/// As documented in the header for `libi_env_t`.
pub(super) unsafe fn variables(mut list: *const env_t) -> Vec<EnvVar> {
    let mut variables = Vec::new();
    // SAFETY: as for this function.
    while let Some(entry) = unsafe { list.as_ref() }.filter(|_| variables.len() < MAX_ENTRIES) {
        // SAFETY: as for this function.
        let (name, value) = unsafe { (string(entry.name), string(entry.value)) };
        let (name, value) = (name.map(word).unwrap_or_default(), value.map(word).unwrap_or_default());
        variables.extend(EnvVar::new(name, value));
        list = entry.next;
    }
    variables
}

/// The distribution of a request, and the host name of each process as the caller wrote it.
///
/// # Safety
/// As documented in the header for `proc_dist_req_t`.
pub(super) unsafe fn request(
    request: &proc_dist_req_t,
    session: SessionId,
) -> CallResult<(Distribution, Vec<CString>)> {
    // SAFETY: as for this function.
    let path = unsafe { string(request.path) }.filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| CallError::new(ELAUNCH, "the request has no program"))?;
    // SAFETY: as for this function.
    let (hosts, names) = unsafe { hosts(request.hosts) }?;
    let mut distribution = Distribution::new(session, word(path), hosts);
    // SAFETY: as for this function: a list has entries up to its NULL.
    distribution.args = unsafe { args::words(request.argv) };
    Ok((distribution, names))
}

/// The hosts of a list, and the host name of each process.
///
/// # Safety
/// As documented in the header for `host_dist_t`.
unsafe fn hosts(mut list: *const host_t) -> CallResult<(HostList, Vec<CString>)> {
    let (mut hosts, mut names, mut seen) = (HostList::new(), Vec::new(), 0);
    // SAFETY: as for this function.
    while let Some(entry) = unsafe { list.as_ref() } {
        // SAFETY: as for this function.
        let name = unsafe { string(entry.hostname) };
        let name = name.ok_or_else(|| CallError::new(ELAUNCH, "a host has no name"))?;
        seen += 1;
        if seen > MAX_ENTRIES || names.len().saturating_add(entry.nproc as usize) > MAX_ENTRIES {
            return Err(CallError::new(ELAUNCH, "the host list is a cycle, or has too many processes"));
        }
        if entry.nproc > 0 {
            push(&mut hosts, &name.to_string_lossy(), entry.nproc)?;
            names.extend(std::iter::repeat_n(name.to_owned(), entry.nproc as usize));
        }
        list = entry.next;
    }
    Ok((hosts, names))
}

/// Adds a host as callers write it: with an optional `USER@`, and an IPv6 address with or without
/// brackets.
fn push(hosts: &mut HostList, text: &str, count: u32) -> CallResult {
    let (user, name) = text.rsplit_once('@').map_or((None, text), |(user, name)| (Some(user), name));
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let pushed = hosts.push(HostRef { user, name: bare, port: None, count });
    pushed.map_err(|kind| CallError::new(ELAUNCH, format!("the host {text:?}: {kind}")))
}

/// A copy of these bytes that the caller passes to `free`; NULL if there are none.
pub(super) fn malloc(bytes: &[u8]) -> CallResult<*mut c_void> {
    let memory = args::malloc(bytes);
    if memory.is_null() && !bytes.is_empty() {
        return Err(CallError::new(EIO, format!("no memory for {} bytes", bytes.len())));
    }
    Ok(memory)
}

/// Passes a message to the caller, which frees it.
///
/// # Safety
/// The places are NULL, or may be written to.
pub(super) unsafe fn put_message(message: &[u8], buffer: *mut *mut c_void, length: *mut c_int) -> CallResult {
    if buffer.is_null() || length.is_null() {
        return Err(CallError::new(EIO, "the place for a message is NULL"));
    }
    let count = c_int::try_from(message.len());
    let count =
        count.map_err(|_| CallError::new(EIO, "the length of the message does not fit into an int"))?;
    let memory = malloc(message)?;
    // SAFETY: as for this function.
    unsafe {
        buffer.write(memory);
        length.write(count);
    }
    Ok(())
}

/// Writes a result.
///
/// # Safety
/// The place is NULL, or may be written to.
pub(super) unsafe fn put<T>(place: *mut T, value: T) -> CallResult {
    if place.is_null() {
        return Err(CallError::new(EIO, "the place for the result is NULL"));
    }
    // SAFETY: as for this function.
    unsafe { place.write(value) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn hosts_are_read_as_callers_write_them() {
        let mut hosts = HostList::new();
        for name in ["[::1]", "fe80::1%eth0", "me@n1", &"a".repeat(253)] {
            push(&mut hosts, name, 2).unwrap();
        }
        let names: Vec<_> = hosts.iter().take(3).map(|host| (host.user, host.name)).collect();
        assert_eq!(names, [(None, "::1"), (None, "fe80::1%eth0"), (Some("me"), "n1")]);
        for bad in ["", "-oProxyCommand=x", "a b", "me@", "[::g]", &"a".repeat(254)] {
            assert_eq!(push(&mut hosts, bad, 1).unwrap_err().code, ELAUNCH, "{bad}");
        }
    }

    #[test]
    fn invalid_variables_are_left_out_and_the_others_keep_their_order() {
        let entry =
            |name: &'static CStr, value: *const c_char, next| env_t { name: name.as_ptr(), value, next };
        let last = entry(c"B", std::ptr::null(), std::ptr::null());
        let odd = entry(c"A=B", c"x".as_ptr(), &last);
        let empty = entry(c"", c"x".as_ptr(), &odd);
        let first = entry(c"A", c"1=2".as_ptr(), &empty);
        let read = unsafe { variables(&first) };
        let read: Vec<_> = read.iter().map(|read| format!("{}={}", read.name(), read.value())).collect();
        assert_eq!(read, ["A=1=2", "B="]);
        assert!(unsafe { variables(std::ptr::null()) }.is_empty());
    }
}
