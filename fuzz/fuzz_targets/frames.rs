//! Feeds random bytes to every reader of the wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| libi_test_core::inputs::check_frames(data));
