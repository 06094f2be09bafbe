//! An unrelated static library in Rust. It panics and catches the panic.
#![crate_type = "staticlib"]

use std::collections::HashMap;
use std::ffi::c_int;
use std::panic::catch_unwind;

/// Counts the distinct numbers; returns -1 if one of them is negative.
///
/// # Safety
/// `numbers` points to `count` readable integers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn other_count(numbers: *const c_int, count: usize) -> c_int {
    // SAFETY: the caller guarantees that there are `count` integers.
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
