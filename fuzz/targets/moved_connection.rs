//! The messages with which connections go from one process to the next.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| adieu::fuzzing::moved_connection(bytes));
