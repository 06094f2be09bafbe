//! Jobs that run already.

use std::ptr::null_mut;

use libc::c_char;
use libi::SessionId;
use libi::job::{Job, JobName, attach_on};

use super::{give_job, libi_job};
use crate::args::{self, OutParam};
use crate::error::{CallResult, code};
use crate::options::{self, libi_options};
use crate::reentry;
use crate::result::libi_result;
use crate::result::libi_timeout;

/// Gives the caller a job that is attached to.
///
/// # Safety
/// The place is NULL, or may be written to.
unsafe fn put(place: *mut *mut libi_job, attach: impl FnOnce() -> CallResult<Job>) -> libi_result {
    let attached = || {
        // SAFETY: as for this function.
        let place = unsafe { OutParam::new(place, null_mut(), "job") }?;
        reentry::may_wait()?;
        place.put(give_job(attach()?, None));
        Ok(())
    };
    code(attached())
}

/// Finds the processes of the job that the process with this ID has launched, on this machine.
/// The launcher goes on: it is neither stopped nor traced. A table that is still being written is
/// read again until the timeout is over.
///
/// *job is the new object, to be freed with libi_job_free(). Returns LIBI_OK, LIBI_ERR_NULL, or
/// LIBI_ERR_NOT_ATTACHED: libi_last_error() says what is in the way, and what would help. Since
/// 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_attach(
    pid: i32,
    job: *mut *mut libi_job,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { put(job, || Ok(Job::attach(pid, args::timeout(timeout))?)) }
}

/// As libi_job_attach(), for a front end of libi that has several sessions: the one with this
/// number, which its distributions have. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_attach_to_session(
    pid: i32,
    session: u32,
    job: *mut *mut libi_job,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { put(job, || Ok(Job::attach_to_session(pid, SessionId(session), args::timeout(timeout))?)) }
}

/// As libi_job_attach(), for a step of a Slurm job, as "123.0", or the only step of a job, as
/// "123", whose srun runs on this machine. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_attach_to_slurm(
    step: *const c_char,
    job: *mut *mut libi_job,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { put(job, || Ok(Job::attach_to_slurm(args::text(step, "step")?, args::timeout(timeout))?)) }
}

/// As libi_job_attach(), for a launcher on another host, which is reached as the options say. They
/// need an agent (libi_options_set_agent()), which runs there for as long as that takes. Whether
/// that launcher goes on running is not known here.
///
/// Returns LIBI_ERR_NOT_ATTACHED, too, if the host cannot be launched on or does not answer in
/// time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_attach_on(
    host: *const c_char,
    pid: i32,
    options: *const libi_options,
    job: *mut *mut libi_job,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        put(job, || {
            let (host, options) = (args::text(host, "host")?, options::copy(options)?);
            Ok(attach_on(host, &JobName::Pid(pid), &options, args::timeout(timeout))?)
        })
    }
}
