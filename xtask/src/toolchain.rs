//! The compiler that the run rests on, beside the oldest ones that the manifests promise.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;

use crate::checkout::Checkout;
use crate::step::{Failure, Outcome};
use crate::{command, metadata};

/// Too old is a failure. With a newer compiler the promise is checked with the promised one, if rustup has it; so are
/// the promises of crates that need less than the workspace.
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
    let mut told = vec![version];
    if used != promised {
        told.push(compiles(
            checkout,
            &promised,
            &["--workspace", "--all-features"],
        )?);
    }
    for (oldest, selection) in older(&metadata::members_as(checkout)?, promised) {
        let words: Vec<&str> = selection.iter().map(String::as_str).collect();
        told.push(compiles(checkout, &oldest, &words)?);
    }
    Ok(told.join("; "))
}

/// Compiles a selection of packages with this compiler, if rustup has it.
fn compiles(checkout: &Checkout, oldest: &[u32; 2], selection: &[&str]) -> Result<String, Failure> {
    let oldest = shown(oldest);
    let has =
        command::ask(checkout.program("rustup").args(["toolchain", "list"])).is_ok_and(|list| {
            String::from_utf8_lossy(&list)
                .lines()
                .any(|line| line.starts_with(&format!("{oldest}-")))
        });
    if !has {
        return Ok(format!(
            "{oldest} is not installed and was not tried, `rustup toolchain install {oldest}` brings it"
        ));
    }
    let mut check = checkout.program("cargo");
    // Stronger than rust-toolchain.toml.
    check.args([&format!("+{oldest}"), "check", "--locked"]);
    check.args(selection);
    check.args(["--target-dir", "target/oldest"]);
    command::run(&mut check)?;
    let packages = selection.iter().filter(|word| !word.starts_with('-'));
    let packages: Vec<&str> = packages
        .copied()
        .filter(|word| !word.contains('/'))
        .collect();
    Ok(match packages.as_slice() {
        [] => format!("everything compiles with {oldest}"),
        names => format!("{} compile with {oldest}", names.join(", ")),
    })
}

/// A package, and what the compiler that it promises is found by.
#[derive(Deserialize)]
struct Member {
    name: String,
    rust_version: Option<String>,
    features: BTreeMap<String, Vec<String>>,
}

/// The oldest compilers of packages that need less than the workspace, each with the words that select its packages:
/// all of their features but those that need a newer one, because they bring a package that does.
fn older(members: &[Member], workspace: [u32; 2]) -> BTreeMap<[u32; 2], Vec<String>> {
    let needs = |member: &Member| member.rust_version.as_deref().map(numbers);
    let mut found = BTreeMap::<_, Vec<String>>::new();
    for member in members {
        let Some(oldest) = needs(member).filter(|oldest| *oldest < workspace) else {
            continue;
        };
        let words = found.entry(oldest).or_default();
        words.extend(["--package".to_owned(), member.name.clone()]);
        for (feature, brings) in &member.features {
            let is_newer = brings.iter().any(|name| {
                let name = name.trim_start_matches("dep:");
                let of = members.iter().find(|member| member.name == name);
                of.and_then(needs).is_some_and(|newer| newer > oldest)
            });
            if !is_newer {
                words.extend([
                    "--features".to_owned(),
                    format!("{}/{feature}", member.name),
                ]);
            }
        }
    }
    found
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
    fn member(name: &str, oldest: &str, features: &[(&str, &str)]) -> Member {
        let features = features
            .iter()
            .map(|(feature, brings)| ((*feature).to_owned(), vec![(*brings).to_owned()]));
        Member {
            name: name.to_owned(),
            rust_version: Some(oldest.to_owned()),
            features: features.collect(),
        }
    }

    #[test]
    fn a_crate_that_needs_less_is_tried_without_the_features_that_need_more() {
        let members = [
            member("command", "1.95", &[]),
            member(
                "library",
                "1.89",
                &[("net", "tokio/net"), ("sql", "dep:engine")],
            ),
            member("engine", "1.94", &[]),
        ];
        let found = older(&members, [1, 95]);
        let words = |oldest| found.get(&oldest).map(|words| words.join(" "));
        let library = "--package library --features library/net";
        assert_eq!(words([1, 89]).as_deref(), Some(library));
        assert_eq!(words([1, 94]).as_deref(), Some("--package engine"));
        assert_eq!(words([1, 95]), None);
    }
}
