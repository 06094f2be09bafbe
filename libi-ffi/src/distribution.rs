//! What to start where.

use std::ptr::null_mut;

use libc::c_char;
use libi::{EnvVar, HostList, OsBytes, SessionId};
use libi_core::dist::Distribution;

use crate::args;
use crate::error::{CallError, CallResult, code};
use crate::hosts::{self, libi_hosts};
use crate::object::{self, Builder, ask_builder, change, give, handle};
use crate::result::libi_result;

/// A group of equal processes of one session: their program, arguments and hosts. A builder: one
/// thread at a time. Since 0.1.
pub struct libi_distribution {
    _opaque: (),
}

handle!(libi_distribution, "distribution", Builder<Distribution>);

/// Makes a distribution of a program in the session with this number, which is the program's
/// choice. Several distributions may belong to one session. Until its hosts are set it runs once,
/// on this machine.
///
/// The program is a name that each host looks up in its PATH, or a path. A relative path starts in
/// the working directory if one is set; otherwise, if the file exists below this process's current
/// directory, all hosts use its absolute path; if not, it starts where the remote shell does,
/// usually in the home directory.
///
/// Returns NULL if executable is NULL. Free it with libi_distribution_free(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_new(
    session: u32,
    executable: *const c_char,
) -> *mut libi_distribution {
    // SAFETY: as documented in the header.
    match unsafe { args::os_bytes(executable, "the executable") } {
        Ok(executable) => {
            let hosts = HostList::parse("localhost").unwrap_or_default();
            give(Builder::new(Distribution::new(SessionId(session), executable, hosts)))
        }
        Err(error) => {
            code(Err(error));
            null_mut()
        }
    }
}

/// Frees a distribution. NULL is allowed. Launches that have begun are not affected. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_free(distribution: *mut libi_distribution) {
    // SAFETY: as documented in the header.
    unsafe { object::free(distribution) }
}

/// Sets the hosts: each entry of the list gets as many processes as it says, with the next ranks
/// in this order. The list is copied.
///
/// Returns LIBI_OK, or the first failure of the list. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_hosts(
    distribution: *mut libi_distribution,
    hosts: *const libi_hosts,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(distribution, |distribution: &mut Distribution| {
            distribution.hosts = hosts::copy(hosts)?;
            Ok(())
        })
    }
}

/// Sets the hosts as a text such as "node[01-64]:2".
///
/// Returns LIBI_OK, or LIBI_ERR_HOSTS if the text has a syntax error: libi_last_error() shows its
/// place. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_host_list(
    distribution: *mut libi_distribution,
    text: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(distribution, |distribution: &mut Distribution| {
            distribution.hosts = hosts::parse(args::text(text, "the host list")?)?;
            Ok(())
        })
    }
}

/// Appends an argument of the program. argv[0] is not one of them. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_add_arg(
    distribution: *mut libi_distribution,
    arg: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(distribution, |distribution: &mut Distribution| {
            distribution.args.push(args::os_bytes(arg, "the argument")?);
            Ok(())
        })
    }
}

/// Sets all arguments of the program: an array that ends with NULL, or NULL for none. argv[0] is
/// not one of them. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_args(
    distribution: *mut libi_distribution,
    args: *const *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(distribution, |distribution: &mut Distribution| {
            distribution.args = null_terminated(args)?;
            Ok(())
        })
    }
}

/// The strings of an array that ends with NULL.
///
/// # Safety
/// It is NULL, or such an array of strings.
pub(crate) unsafe fn null_terminated(array: *const *const c_char) -> CallResult<Vec<OsBytes>> {
    let mut strings = Vec::new();
    if array.is_null() {
        return Ok(strings);
    }
    // SAFETY: nothing after the NULL is read.
    unsafe {
        while !array.add(strings.len()).read().is_null() {
            strings.push(args::os_bytes(array.add(strings.len()).read(), "an argument")?);
        }
    }
    Ok(strings)
}

/// Sets a variable in addition to the environment that the host provides. The last value that was
/// set for a name counts.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if the name is empty or contains "=". Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_env(
    distribution: *mut libi_distribution,
    name: *const c_char,
    value: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(distribution, |distribution: &mut Distribution| {
            let (name, value) = (args::os_bytes(name, "the name")?, args::os_bytes(value, "the value")?);
            let variable =
                EnvVar::new(name, value).map_err(|error| CallError::argument(error.to_string()))?;
            distribution.env.push(variable);
            Ok(())
        })
    }
}

/// Sets the working directory. NULL, the default, is the one in which the remote shell starts the
/// program. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_directory(
    distribution: *mut libi_distribution,
    directory: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(distribution, |distribution: &mut Distribution| {
            distribution.cwd = args::optional(directory, |path| args::os_bytes(path, "the directory"))?;
            Ok(())
        })
    }
}

/// The number of its session; 0 for NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_session(distribution: *const libi_distribution) -> u32 {
    // SAFETY: as documented in the header.
    unsafe { ask_builder(distribution, 0, |distribution| distribution.session.0) }
}

/// Copies of all distributions in an array.
///
/// # Safety
/// The array has as many elements, each as [`object::built`] needs it.
pub(crate) unsafe fn copies(
    array: *const *const libi_distribution,
    count: usize,
) -> CallResult<Vec<Distribution>> {
    if array.is_null() && count > 0 {
        return Err(CallError::null("the array of distributions"));
    }
    let copy = |index| {
        // SAFETY: as for this function.
        unsafe { object::built(array.add(index).read(), &format!("distribution {index}")) }
    };
    (0..count).map(copy).collect()
}
