//! The functions that tools register to pack and unpack what is sent.

use libc::{c_int, c_void};
use libi::Bytes;

use super::codes::{ECLLB, ENCLLB, ENEGCB};
use crate::compat::{CallError, CallResult};

/// Packs `data` into a buffer of `most` bytes, and says how many it has used.
pub type Pack =
    unsafe extern "C" fn(data: *mut c_void, buffer: *mut c_void, most: c_int, length: *mut c_int) -> c_int;
/// Unpacks a buffer into `data`.
pub type Unpack = unsafe extern "C" fn(buffer: *mut c_void, length: c_int, data: *mut c_void) -> c_int;

/// The header's `LMON_MAX_USRPAYLOAD`.
const MAX_PAYLOAD: usize = 4 << 20;

/// The functions that one side has registered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packing {
    pub(super) pack: Option<Pack>,
    pub(super) unpack: Option<Unpack>,
}

impl Packing {
    /// What the tool's function makes of this.
    ///
    /// # Safety
    /// The registered function may be called with this pointer.
    pub(super) unsafe fn pack(self, data: *mut c_void) -> CallResult<Bytes> {
        let missing = || CallError::new(ENCLLB, "no function that packs data is registered");
        let pack = self.pack.ok_or_else(missing)?;
        let (mut buffer, mut length) = (vec![0_u8; MAX_PAYLOAD], 0);
        // SAFETY: as for this function; the buffer has this length.
        let code = unsafe { pack(data, buffer.as_mut_ptr().cast(), MAX_PAYLOAD as c_int, &raw mut length) };
        negative(code, "packs")?;
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_PAYLOAD);
        let odd = || CallError::new(ECLLB, "the length that the function says it has packed is not possible");
        buffer.truncate(length.ok_or_else(odd)?);
        buffer.shrink_to_fit();
        Ok(buffer.into())
    }

    /// Passes what was received to the tool's function.
    ///
    /// # Safety
    /// The registered function may be called with this pointer.
    pub(super) unsafe fn unpack(self, received: &[u8], data: *mut c_void) -> CallResult {
        let missing =
            || CallError::new(ENCLLB, "data were received, and no function that unpacks them is registered");
        let unpack = self.unpack.ok_or_else(missing)?;
        let long = |_| CallError::new(ECLLB, "the length of the data does not fit into an int");
        let length = c_int::try_from(received.len()).map_err(long)?;
        // The function may change its buffer, and an empty one is not NULL.
        let mut buffer = [received, &[0]].concat();
        // SAFETY: as for this function; the buffer has this length.
        negative(unsafe { unpack(buffer.as_mut_ptr().cast(), length, data) }, "unpacks")
    }
}

fn negative(code: c_int, what: &str) -> CallResult {
    if code >= 0 {
        return Ok(());
    }
    Err(CallError::new(ENEGCB, format!("the registered function that {what} data has returned {code}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn pack(
        data: *mut c_void,
        buffer: *mut c_void,
        most: c_int,
        length: *mut c_int,
    ) -> c_int {
        assert_eq!(most, 4_194_304);
        let wanted = unsafe { *data.cast::<c_int>() };
        unsafe { buffer.cast::<u8>().write(7) };
        unsafe { length.write(wanted) };
        if wanted == -7 { -7 } else { 3 }
    }

    #[test]
    fn what_functions_say_is_checked() {
        let packing = Packing { pack: Some(pack), unpack: None };
        let packed =
            |mut wanted: c_int| unsafe { packing.pack((&raw mut wanted).cast()) }.map_err(|error| error.code);
        assert_eq!(packed(2).unwrap()[..], [7, 0]);
        assert_eq!((packed(0).unwrap().len(), packed(4_194_304).unwrap().len()), (0, 4_194_304));
        assert_eq!([-1, 4_194_305, -7].map(|wanted| packed(wanted).unwrap_err()), [ECLLB, ECLLB, ENEGCB]);
        assert_eq!(unsafe { packing.unpack(b"x", std::ptr::null_mut()) }.unwrap_err().code, ENCLLB);
    }
}
