#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| km_fuzz::check("recordio", data));
