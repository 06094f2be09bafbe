//! Bytes that a call has received.

use std::ptr::null;

use libc::c_void;
use libi::Bytes;

use crate::object::{self, ask, give, handle};

/// Received bytes: one part, or one part for each rank in their order. They do not change, and
/// any number of threads may read them. They are independent of the object that received them.
/// Since 0.1.
pub struct libi_data {
    _opaque: (),
}

handle!(libi_data, "data", Vec<Bytes>);

pub(crate) fn give_data(parts: Vec<Bytes>) -> *mut libi_data {
    give(parts)
}

/// The number of parts; 0 for NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_data_count(data: *const libi_data) -> usize {
    // SAFETY: as documented in the header.
    unsafe { ask(data, 0, Vec::len) }
}

/// The bytes of a part, counted from 0. NULL if there is no such part; never NULL for one that is
/// empty.
///
/// They belong to the data, are not aligned (copy numbers out of them), and no NUL follows them.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_data_bytes(data: *const libi_data, index: usize) -> *const c_void {
    // SAFETY: as documented in the header.
    unsafe { ask(data, null(), |parts| parts.get(index).map_or(null(), |part| part.as_ptr().cast())) }
}

/// The length of a part; 0 if there is no such part. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_data_length(data: *const libi_data, index: usize) -> usize {
    // SAFETY: as documented in the header.
    unsafe { ask(data, 0, |parts| parts.get(index).map_or(0, Bytes::len)) }
}

/// Frees data. NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_data_free(data: *mut libi_data) {
    // SAFETY: as documented in the header.
    unsafe { object::free(data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_part_has_an_address() {
        let data = give_data(vec![Bytes::from_static(b"one"), Bytes::new()]);
        // SAFETY: the data are alive until they are freed.
        unsafe {
            assert_eq!(libi_data_count(data), 2);
            assert_eq!(
                (libi_data_length(data, 0), libi_data_length(data, 1), libi_data_length(data, 2)),
                (3, 0, 0)
            );
            assert_eq!(std::slice::from_raw_parts(libi_data_bytes(data, 0).cast::<u8>(), 3), b"one");
            assert!(!libi_data_bytes(data, 1).is_null() && libi_data_bytes(data, 2).is_null());
            libi_data_free(data);
        }
    }
}
