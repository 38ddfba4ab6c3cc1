//! The text in which a process hands its listeners to the next one.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| adieu::fuzzing::handoff_payload(text));
