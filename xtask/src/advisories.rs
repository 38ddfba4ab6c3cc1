//! Known vulnerabilities of what we depend on, through cargo-deny where it is installed.
//!
//! Its database comes from the network. Without the program or the database the step says so, by name, and passes: this
//! command has to work without a network.

use crate::checkout::Checkout;
use crate::command::{self, Stream};
use crate::step::{Failure, Outcome};

pub(crate) fn check(checkout: &Checkout) -> Outcome {
    if !command::succeeds(&mut checkout.cargo(["deny", "--version"])) {
        return Ok(
            "not checked: cargo-deny is not installed (`cargo install --locked cargo-deny`)"
                .to_owned(),
        );
    }
    let mut deny = checkout.cargo([
        "deny",
        "--all-features",
        "--color=never",
        "check",
        "advisories",
    ]);
    let overheard = command::overhear(&mut deny, Stream::Stderr)?;
    conclude(&overheard.text, overheard.end)
}

fn conclude(said: &str, end: Result<(), Failure>) -> Outcome {
    match end {
        Ok(()) => Ok("none known".to_owned()),
        Err(_) if said.contains("failed to fetch advisory database") => {
            Ok("not checked: the database cannot be reached from here".to_owned())
        }
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_database_it_is_said() {
        let said = "[ERROR] failed to fetch advisory database https://…";
        let outcome = conclude(said, Err(Failure::new("exit status: 1"))).expect("it goes on");
        assert!(outcome.starts_with("not checked"));
    }

    #[test]
    fn a_known_vulnerability_is_a_failure() {
        let said = "error[vulnerability]: a flaw";
        assert!(conclude(said, Err(Failure::new("exit status: 1"))).is_err());
        assert_eq!(
            conclude("advisories ok", Ok(())).expect("fine"),
            "none known"
        );
    }
}
