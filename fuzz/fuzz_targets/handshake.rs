//! Feeds random bytes to both ends of a link's handshake, and to the reader of its records.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| libi_test_core::inputs::check_handshake(data));
