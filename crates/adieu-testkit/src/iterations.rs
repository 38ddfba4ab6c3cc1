//! Enough to see it, or enough to be convinced.

/// How often something is done that takes long: a few times as a rule, and many with `ADIEU_PROVE` in the environment,
/// as `cargo xtask prove` has it.
#[must_use]
pub fn iterations(few: usize, many: usize) -> usize {
    match std::env::var_os("ADIEU_PROVE") {
        Some(_) => many,
        None => few,
    }
}
