//! What has come of a call, as bytes.

use std::ptr::null;

use libc::c_void;
use libi::Bytes;

use crate::object::{self, ask, give, handle};

/// Bytes that have come: one part, or one for each rank, in their order. Nothing changes them, and any number of threads may read them at
/// a time. It needs nothing of the object that it came of, and may be freed later. Since 0.1.
pub struct libi_data {
    _opaque: (),
}

handle!(libi_data, "data", Vec<Bytes>);

/// Gives them to C.
pub(crate) fn give_data(parts: Vec<Bytes>) -> *mut libi_data {
    give(parts)
}

/// How many parts there are; 0 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_data_count(data: *const libi_data) -> usize {
    // SAFETY: as the header asks.
    unsafe { ask(data, 0, Vec::len) }
}

/// The bytes of a part, counted from 0; NULL if there is no such part, and never for one that is there and empty.
///
/// They are the data's, and not aligned for anything: copy numbers out of them. No NUL follows them. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_data_bytes(data: *const libi_data, index: usize) -> *const c_void {
    // SAFETY: as the header asks.
    unsafe { ask(data, null(), |parts| parts.get(index).map_or(null(), |part| part.as_ptr().cast())) }
}

/// How many bytes a part has; 0 if there is no such part. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_data_length(data: *const libi_data, index: usize) -> usize {
    // SAFETY: as the header asks.
    unsafe { ask(data, 0, |parts| parts.get(index).map_or(0, Bytes::len)) }
}

/// Frees them; NULL is fine. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_data_free(data: *mut libi_data) {
    // SAFETY: as the header asks.
    unsafe { object::free(data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_there_even_if_they_are_empty() {
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
