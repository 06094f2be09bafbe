//! Where the ranks of a session run.

use std::ffi::CString;

use libc::c_char;
use libi::{HostIndex, Rank};
use libi_core::dist::Distribution;
use libi_core::dist::layout::{Layout, lay_out};

use crate::args;
use crate::distribution::{self, libi_distribution};
use crate::error::{CallError, CallResult, code};
use crate::object::{self, give, handle, query};
use crate::result::libi_result::{self, LIBI_ERR_LAYOUT, LIBI_ERR_LENGTH, LIBI_NONE};
use crate::text::c_string;

/// Where the ranks of a session run. It depends on the distributions only, not on the launch. It
/// does not change, and any number of threads may use it. Since 0.1.
pub struct libi_layout {
    _opaque: (),
}

handle!(libi_layout, "layout", LayoutView);

/// A layout, and its names as C reads them.
pub struct LayoutView {
    layout: Layout,
    names: Vec<CString>,
}

pub(crate) fn give_layout(layout: Layout) -> *mut libi_layout {
    let names = layout.hosts().iter().map(|host| c_string(host.name)).collect();
    give(LayoutView { layout, names })
}

/// A layout as a whole. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_layout_info {
    /// The number of its session.
    pub session: u32,
    /// The number of members.
    pub size: u32,
    /// The number of hosts, each counted once. They are numbered from 0 in the order in which
    /// they are first named.
    pub hosts: u32,
}

/// A host of a layout. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_layout_host_info {
    /// Its name in the host list.
    pub name: *const c_char,
    /// The number of members on it.
    pub members: u32,
    /// The rank of its leader, the lowest on it: the member that is part of the launch tree.
    pub leader: u32,
}

/// A rank of a layout. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_layout_rank_info {
    /// The number of its host.
    pub host: u32,
    /// The distribution that says what it runs, by its index in the array that was passed.
    pub distribution: u32,
}

/// Computes the layouts of the sessions of these distributions without launching anything.
///
/// layouts is an array with this much room. It gets one object for each session number, in the
/// order in which these are first named, and NULL in the remaining elements. Free each with
/// libi_layout_free(). Returns LIBI_OK, the first failure of a distribution, LIBI_ERR_LAYOUT, or
/// LIBI_ERR_LENGTH if there is not enough room. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_new(
    distributions: *const *const libi_distribution,
    count: usize,
    layouts: *mut *mut libi_layout,
    room: usize,
) -> libi_result {
    let new = || {
        // SAFETY: as documented in the header.
        let (places, distributions) =
            unsafe { (args::places(layouts, room, "layouts")?, distribution::copies(distributions, count)?) };
        for (place, layout) in places.iter().zip(lay_out_into(&distributions, room)?) {
            place.put(give_layout(layout));
        }
        Ok(())
    };
    code(new())
}

/// The layouts of the sessions of these distributions, if there is room for all.
pub(crate) fn lay_out_into(distributions: &[Distribution], room: usize) -> CallResult<Vec<Layout>> {
    let layouts = lay_out(distributions).map_err(|error| CallError::of(LIBI_ERR_LAYOUT, &error))?;
    if layouts.len() > room {
        let text = format!("there is room for {room} of {} sessions", layouts.len());
        return Err(CallError::new(LIBI_ERR_LENGTH, text));
    }
    Ok(layouts)
}

/// Frees a layout. NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_free(layout: *mut libi_layout) {
    // SAFETY: as documented in the header.
    unsafe { object::free(layout) }
}

/// Fills *info with the numbers of the layout. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_query(
    layout: *const libi_layout,
    info: *mut libi_layout_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(layout, info, size, |view| {
            Ok(libi_layout_info {
                session: view.layout.session().0,
                size: view.layout.size(),
                hosts: u32::try_from(view.names.len()).unwrap_or(u32::MAX),
            })
        })
    }
}

/// Fills *info with a host.
///
/// Returns LIBI_OK, or LIBI_NONE if there is no such host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_host(
    layout: *const libi_layout,
    host: u32,
    info: *mut libi_layout_host_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(layout, info, size, |view| {
            let found = || {
                let name = view.names.get(host as usize)?;
                let members = view.layout.hosts().entry(host as usize)?.count;
                let leader = view.layout.leader(HostIndex(host))?.0;
                Some(libi_layout_host_info { name: name.as_ptr(), members, leader })
            };
            found().ok_or_else(|| CallError::new(LIBI_NONE, "there is no such host"))
        })
    }
}

/// Fills *info with a rank.
///
/// Returns LIBI_OK, or LIBI_NONE if there is no such rank. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_layout_rank(
    layout: *const libi_layout,
    rank: u32,
    info: *mut libi_layout_rank_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(layout, info, size, |view| {
            let found = || {
                let host = view.layout.host_of(Rank(rank))?;
                // A rank is in the last block of its host that does not begin after it.
                let block = view.layout.blocks(host).iter().rfind(|block| block.first.0 <= rank)?;
                Some(libi_layout_rank_info { host: host.0, distribution: block.distribution })
            };
            found().ok_or_else(|| CallError::new(LIBI_NONE, "there is no such rank"))
        })
    }
}
