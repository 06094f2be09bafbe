//! How hosts are linked to each other, and how these links are protected.

use libc::c_int;
use libi::{LaunchOptions, LinkPolicy, LinkSecurity};

use super::libi_options;
use crate::args::from_c;
use crate::object::change;
use crate::result::libi_result;

/// How hosts are linked to each other. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_links {
    /// Through the channels of the remote shell until the session is up and a link has carried
    /// some 100 KB, or 32 messages of calls; then by a direct connection, where that works.
    LIBI_LINKS_AUTO = 0,
    /// By direct connections from the beginning; a host that cannot be reached so fails.
    LIBI_LINKS_DIRECT = 1,
    /// Through the channels of the remote shell; no host listens.
    LIBI_LINKS_CHANNEL = 2,
}

/// cbindgen:ignore
pub type libi_links_arg = c_int;

/// Sets how hosts are linked to each other; LIBI_LINKS_AUTO is the default.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such choice. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_links(
    options: *mut libi_options,
    links: libi_links_arg,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.links = from_c!(links, "libi_links", libi_links {
                LIBI_LINKS_AUTO => LinkPolicy::Auto,
                LIBI_LINKS_DIRECT => LinkPolicy::Direct,
                LIBI_LINKS_CHANNEL => LinkPolicy::Channel,
            })?;
            Ok(())
        })
    }
}

/// Sets whether direct connections are encrypted, which is the default. If not, the peers are
/// still authenticated, but data can be read and changed on the way: for trusted networks. Since
/// 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_encrypted(
    options: *mut libi_options,
    encrypted: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.link_security =
                if encrypted { LinkSecurity::Encrypted } else { LinkSecurity::Authenticated };
            Ok(())
        })
    }
}

/// Sets whether a backend may be used that sends in plaintext, as rsh; by default not. Anyone on
/// the network can then read the session's secret and interfere. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_allow_plain(
    options: *mut libi_options,
    allow: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.allow_plain = allow;
            Ok(())
        })
    }
}

/// Sets whether all hosts are this machine, whatever their names: direct connections are then
/// made on the loopback address only. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_loopback(
    options: *mut libi_options,
    loopback: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.loopback = loopback;
            Ok(())
        })
    }
}
