//! The variables in which a parent process says which sockets it passes.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| adieu::fuzzing::listen_fds(text));
