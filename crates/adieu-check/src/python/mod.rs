//! Python: from a file to a unit of the program, and the rules that need one function only.

mod bindings;
mod blocking;
mod calls;
mod definitions;
mod extract;
mod grace;
mod held;
mod imports;
mod known;
mod paths;
mod project;
mod rules;
mod spelling;
mod tests_in;

pub(crate) use extract::extract;
pub(crate) use project::findings;
pub(crate) use tests_in::is_test_file;
