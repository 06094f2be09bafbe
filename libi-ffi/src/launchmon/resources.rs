//! `LMON_fe_…`: the resource manager of a job.

use libc::{c_char, c_int};
use libi::job::LauncherKind;

use super::codes::{EDUNAV, ETRUNC};
use super::failure::{Side, done};
use super::sessions::{self, Handle};
use crate::compat::{CallError, CallResult, Code};

/// The numbers in the header's `rm_catalogue_e` of those that are known, the last one for others.
static KNOWN: [c_int; 4] = [SLURM, ORTE, HYDRA, NONE];
const SLURM: c_int = 1;
const ORTE: c_int = 9;
const HYDRA: c_int = 10;
const NONE: c_int = 13;

/// The header's `lmon_rm_info_t`.
#[repr(C)]
pub struct lmon_rm_info_t {
    types: *const c_int,
    count: c_int,
    current: c_int,
    launcher: c_int,
}

fn place_of(kind: LauncherKind) -> c_int {
    match kind {
        LauncherKind::Srun => 0,
        LauncherKind::OpenMpi => 1,
        LauncherKind::Hydra => 2,
        _ => 3,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_getRMInfo(session: Handle, info: *mut lmon_rm_info_t) -> Code {
    done(Side::FrontEnd, "LMON_fe_getRMInfo", || {
        let tool = sessions::on(session, |session| session.tool())?;
        // SAFETY: as documented in the header.
        let info = unsafe { info.as_mut() };
        *info.ok_or_else(|| CallError::argument("the place for the information is NULL"))? = lmon_rm_info_t {
            types: KNOWN.as_ptr(),
            count: KNOWN.len() as c_int,
            current: place_of(tool.job.kind()),
            launcher: tool.job.launcher_pid(),
        };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_getResourceHandle(
    session: Handle,
    text: *mut c_char,
    size: *mut c_int,
    most: c_int,
) -> Code {
    done(Side::FrontEnd, "LMON_fe_getResourceHandle", || {
        let tool = sessions::on(session, |session| session.tool())?;
        if text.is_null() || size.is_null() {
            return Err(CallError::argument("the place for the text or its size is NULL"));
        }
        let none = || CallError::new(EDUNAV, "the launcher of the job has no number of an allocation");
        let handle = tool.job.slurm_job().ok_or_else(none)?;
        // SAFETY: as documented in the header.
        unsafe { write(handle, text, size, most) }
    })
}

/// Writes a text with its NUL, and its size without that.
///
/// # Safety
/// There is room for so many bytes, and for the size.
unsafe fn write(handle: &str, text: *mut c_char, size: *mut c_int, most: c_int) -> CallResult {
    let length = handle.len();
    if usize::try_from(most).unwrap_or(0) <= length {
        return Err(CallError::new(
            ETRUNC,
            format!("the text has {length} bytes and a NUL, and there is room for {most}"),
        ));
    }
    // SAFETY: as for this function; it is longer than the text.
    unsafe {
        std::ptr::copy_nonoverlapping(handle.as_ptr(), text.cast(), length);
        text.add(length).write(0);
        size.write(length as c_int);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_with_its_nul_or_not_at_all() {
        let (mut text, mut size) = ([7 as c_char; 8], -1);
        let mut write = |most| unsafe { write("4711", text.as_mut_ptr(), &raw mut size, most) };
        assert_eq!([4, 0, -1].map(|most| write(most).unwrap_err().code), [ETRUNC; 3]);
        write(5).unwrap();
        assert_eq!((text.map(|byte| byte as u8), size), (*b"4711\0\x07\x07\x07", 4));
    }

    #[test]
    fn every_launcher_has_its_place() {
        let kinds = [LauncherKind::Srun, LauncherKind::OpenMpi, LauncherKind::Hydra, LauncherKind::Other];
        assert_eq!(kinds.map(|kind| KNOWN[place_of(kind) as usize]), [SLURM, ORTE, HYDRA, NONE]);
    }
}
