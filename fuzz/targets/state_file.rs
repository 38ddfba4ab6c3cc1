//! Files of state: whatever is on the disk is read or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| adieu::fuzzing::state_file("orders", bytes));
