//! What is to be started where.

use std::ptr::null_mut;
use std::sync::Mutex;

use libc::c_char;
use libi::{EnvVar, HostList, OsBytes, SessionId};
use libi_core::dist::Distribution;

use crate::args;
use crate::hosts::{self, libi_hosts};
use crate::object::{self, ask_one, give, handle, with_one};
use crate::result::{CallError, CallResult, libi_result};

/// A set of equal processes of one session: what they are, and where they run. It may be used by one thread at a time.
/// Since 0.1.
pub struct libi_distribution {
    _opaque: (),
}

handle!(libi_distribution, "distribution", Mutex<Distribution>);

/// What to start for a session: sessions are told apart by numbers of your choice. The program is a path, or a name to be looked
/// up in the search path of the host. It runs once on this machine, called "localhost", until libi_distribution_set_hosts() says
/// otherwise.
///
/// NULL if the program is NULL. To be freed by libi_distribution_free(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_new(
    session: u32,
    executable: *const c_char,
) -> *mut libi_distribution {
    // SAFETY: as the header asks.
    let Ok(executable) = (unsafe { args::os_bytes(executable, "the executable") }) else { return null_mut() };
    let hosts = HostList::parse("localhost").unwrap_or_default();
    give(Mutex::new(Distribution::new(SessionId(session), executable, hosts)))
}

/// Frees it; NULL is fine. Launches that were begun with it go on. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_free(distribution: *mut libi_distribution) {
    // SAFETY: as the header asks.
    unsafe { object::free(distribution) }
}

/// What failed last with it in this thread; empty if nothing has. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_error(distribution: *const libi_distribution) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { object::error(distribution) }
}

/// Says where it runs: on each entry of the list as many processes as that says, which get the next ranks in that order. The
/// list is copied. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_hosts(
    distribution: *mut libi_distribution,
    hosts: *const libi_hosts,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(distribution, |distribution| {
            distribution.hosts = hosts::copy(hosts)?;
            Ok(())
        })
    }
}

/// Says where it runs by the text of a host list, such as "node[01-64]:2".
///
/// Returns LIBI_OK, or LIBI_ERR_HOSTS with the place of the mistake in libi_distribution_error(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_host_list(
    distribution: *mut libi_distribution,
    text: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(distribution, |distribution| {
            distribution.hosts = hosts::parse(args::text(text, "the host list")?)?;
            Ok(())
        })
    }
}

/// Adds an argument, behind those there are; the program's name is none of them. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_add_arg(
    distribution: *mut libi_distribution,
    arg: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(distribution, |distribution| {
            distribution.args.push(args::os_bytes(arg, "the argument")?);
            Ok(())
        })
    }
}

/// Says what all its arguments are: an array that ends with NULL, or NULL for none. The program's name is none of them.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_args(
    distribution: *mut libi_distribution,
    args: *const *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(distribution, |distribution| {
            distribution.args = words(args)?;
            Ok(())
        })
    }
}

/// The words of an array that ends with NULL.
///
/// # Safety
/// It is NULL, or such an array of strings.
unsafe fn words(array: *const *const c_char) -> CallResult<Vec<OsBytes>> {
    let mut words = Vec::new();
    if array.is_null() {
        return Ok(words);
    }
    // SAFETY: nothing behind the NULL is looked at.
    unsafe {
        while !array.add(words.len()).read().is_null() {
            words.push(args::os_bytes(array.add(words.len()).read(), "an argument")?);
        }
    }
    Ok(words)
}

/// Sets a variable in addition to the environment that the host provides; of equal names the last one counts.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if the name is empty or holds a "=". Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_env(
    distribution: *mut libi_distribution,
    name: *const c_char,
    value: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(distribution, |distribution| {
            let (name, value) = (args::os_bytes(name, "the name")?, args::os_bytes(value, "the value")?);
            let variable =
                EnvVar::new(name, value).map_err(|error| CallError::argument(error.to_string()))?;
            distribution.env.push(variable);
            Ok(())
        })
    }
}

/// Says in which directory it runs; NULL, as at first, for wherever the remote shell puts it. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_set_directory(
    distribution: *mut libi_distribution,
    directory: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(distribution, |distribution| {
            distribution.cwd = args::optional(directory, |path| args::os_bytes(path, "the directory"))?;
            Ok(())
        })
    }
}

/// Which session it belongs to; 0 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_distribution_session(distribution: *const libi_distribution) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask_one(distribution, 0, |distribution| distribution.session.0) }
}

/// Copies of all in an array.
///
/// # Safety
/// The array has as many, each NULL or what C was given.
pub(crate) unsafe fn copies(
    array: *const *const libi_distribution,
    count: usize,
) -> CallResult<Vec<Distribution>> {
    if array.is_null() && count > 0 {
        return Err(CallError::null("the array of distributions"));
    }
    let copy = |place| {
        // SAFETY: as this function asks.
        unsafe {
            object::read(array.add(place).read(), &format!("distribution {place}"), Distribution::clone)
        }
    };
    (0..count).map(copy).collect()
}
