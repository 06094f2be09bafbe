//! Feeds random bytes to every reader of the wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| libi_fuzz::check_frames(data));
