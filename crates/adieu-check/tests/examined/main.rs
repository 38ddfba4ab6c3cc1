//! An examination by someone who knew only what the check promises: small programs and manifests, each with its answer
//! written down before it was asked for. Half of them are traps.

#[path = "../support/mod.rs"]
mod support;

macro_rules! predictions {
    ($($name:ident: $project:expr => [$($expected:literal),*];)*) => {$(
        #[test]
        fn $name() {
            let expected: &[&str] = &[$($expected),*];
            let project = $project;
            assert_eq!(project.told(), expected, "{}", project.text());
        }
    )*};
}

mod as_written;
mod images;
mod manifests;
mod python_faults;
mod python_traps;
mod rust;
mod servers;
