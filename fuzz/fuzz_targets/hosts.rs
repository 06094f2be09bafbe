//! Feeds random text to the readers of host lists.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| libi_test_core::inputs::check_hosts(data));
