//! The compiler that the run rests on, beside the oldest one that the manifests promise.

use std::fs;

use crate::checkout::Checkout;
use crate::command;
use crate::step::{Failure, Outcome};

/// Too old is a failure. With a newer compiler the promise is checked with the promised one, if rustup has it.
pub(crate) fn check(checkout: &Checkout) -> Outcome {
    let promised = promised(&fs::read_to_string(checkout.root().join("Cargo.toml"))?)?;
    let version = command::ask(checkout.program("rustc").arg("--version"))?;
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    let used = numbers(version.split_whitespace().nth(1).unwrap_or_default());
    if used < promised {
        return Err(Failure::new(format!(
            "{version} is older than the promised {}; `rustup update` brings a newer one",
            shown(&promised)
        )));
    }
    if used == promised {
        return Ok(format!("{version}, the oldest that is promised"));
    }
    let oldest = shown(&promised);
    let has =
        command::ask(checkout.program("rustup").args(["toolchain", "list"])).is_ok_and(|list| {
            String::from_utf8_lossy(&list)
                .lines()
                .any(|line| line.starts_with(&oldest))
        });
    if !has {
        return Ok(format!(
            "{version}; the oldest, {oldest}, is not installed and was not tried"
        ));
    }
    let mut check = checkout.program("cargo");
    check.args([
        &format!("+{oldest}"),
        "check",
        "--locked",
        "--workspace",
        "--all-features",
    ]);
    check.args(["--target-dir", "target/oldest"]);
    command::run(&mut check)?;
    Ok(format!("{version}; everything compiles with {oldest}"))
}

/// Major and minor number of `rust-version`.
fn promised(manifest: &str) -> Result<[u32; 2], Failure> {
    manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .map(|version| numbers(version.trim_matches('"')))
        .ok_or_else(|| Failure::new("Cargo.toml has no rust-version"))
}

fn numbers(version: &str) -> [u32; 2] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    [parts.next().unwrap_or(0), parts.next().unwrap_or(0)]
}

fn shown([major, minor]: &[u32; 2]) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(
            promised("a\nrust-version = \"1.95\"\n").expect("it is there"),
            [1, 95]
        );
        assert!(numbers("1.100.0") > numbers("1.95.0"));
        assert_eq!(numbers("1.97.0-nightly"), [1, 97]);
    }
}
