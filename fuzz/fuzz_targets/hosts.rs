//! Feeds random text to the readers of host lists.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| libi_fuzz::check_hosts(data));
