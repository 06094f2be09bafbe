//! Where the ranks of a session are.

use std::ffi::CString;
use std::ptr::null;

use libc::c_char;
use libi::{HostIndex, Rank};
use libi_core::dist::layout::Layout;

use crate::args::c_string;
use crate::object::{self, ask, give, handle};

/// Where the ranks of a session are; that does not depend on how it is launched. It does not change, and any number of threads
/// may use it. Since 0.1.
pub struct libi_layout {
    _opaque: (),
}

handle!(libi_layout, "layout", LayoutView);

/// A layout, and its names.
pub struct LayoutView {
    layout: Layout,
    names: Vec<CString>,
}

/// A layout for C.
pub(crate) fn give_layout(layout: Layout) -> *mut libi_layout {
    let names = layout.hosts().iter().map(|host| c_string(host.name)).collect();
    give(LayoutView { layout, names })
}

/// Frees it; NULL is fine. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_free(layout: *mut libi_layout) {
    // SAFETY: as the header asks.
    unsafe { object::free(layout) }
}

/// The number of its session; 0 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_session(layout: *const libi_layout) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(layout, 0, |laid| laid.layout.session().0) }
}

/// How many members the session has. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_size(layout: *const libi_layout) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(layout, 0, |laid| laid.layout.size()) }
}

/// How many hosts it has, each counted once; they are numbered from 0, in the order in which they are first named. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_hosts(layout: *const libi_layout) -> usize {
    // SAFETY: as the header asks.
    unsafe { ask(layout, 0, |laid| laid.names.len()) }
}

/// The name of a host as it was given; NULL if there is no such host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_host_name(layout: *const libi_layout, host: usize) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask(layout, null(), |laid| laid.names.get(host).map_or(null(), |name| name.as_ptr())) }
}

/// How many members a host has; 0 if there is no such host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_host_members(layout: *const libi_layout, host: usize) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(layout, 0, |laid| laid.layout.hosts().entry(host).map_or(0, |host| host.count)) }
}

/// The lowest rank of a host, whose process runs the tree there; -1 if there is no such host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_leader(layout: *const libi_layout, host: usize) -> i64 {
    // SAFETY: as the header asks.
    unsafe {
        ask(layout, -1, |laid| {
            let host = u32::try_from(host).ok().filter(|host| (*host as usize) < laid.names.len());
            host.and_then(|host| laid.layout.leader(HostIndex(host))).map_or(-1, |rank| i64::from(rank.0))
        })
    }
}

/// The number of the host that a rank is on; -1 if there is no such rank. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_host_of(layout: *const libi_layout, rank: u32) -> i64 {
    // SAFETY: as the header asks.
    unsafe { ask(layout, -1, |laid| laid.layout.host_of(Rank(rank)).map_or(-1, |host| i64::from(host.0))) }
}

/// Which of the distributions says what a rank runs, counted from 0 as they were given; -1 if there is no such rank. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_distribution_of(layout: *const libi_layout, rank: u32) -> i64 {
    // SAFETY: as the header asks.
    unsafe {
        ask(layout, -1, |laid| {
            let Some(host) = laid.layout.host_of(Rank(rank)) else { return -1 };
            let mut blocks = laid.layout.blocks(host).iter();
            // A rank is in the last block that begins before it.
            let block = blocks.rfind(|block| block.first.0 <= rank);
            block.map_or(-1, |block| i64::from(block.distribution))
        })
    }
}
