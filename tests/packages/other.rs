//! A static library of somebody else, which is written in Rust, too. It panics, and catches that.
#![crate_type = "staticlib"]

use std::collections::HashMap;
use std::ffi::c_int;
use std::panic::catch_unwind;

/// How many different ones there are of these numbers; -1 if one of them is negative.
///
/// # Safety
/// There are as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn other_count(numbers: *const c_int, count: usize) -> c_int {
    // SAFETY: as this function asks.
    let numbers = unsafe { std::slice::from_raw_parts(numbers, count) };
    let counted = catch_unwind(|| {
        let mut seen: HashMap<u32, usize> = HashMap::new();
        for number in numbers {
            *seen.entry(u32::try_from(*number).expect("none is negative")).or_default() += 1;
        }
        seen.len()
    });
    counted.map_or(-1, |count| c_int::try_from(count).unwrap_or(c_int::MAX))
}
