//! Whether everything we depend on may be used under a licence we accept and comes from the public
//! registry.
//!
//! cargo-deny would do this and more. It is not used: it takes minutes to build on a fresh machine,
//! and its check for known vulnerabilities needs a database from the network, while this command
//! has to work without one.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use crate::checkout::Checkout;
use crate::metadata::{self, Package};
use crate::step::{Failure, Outcome};

/// Has the licences that a user of the library can live with, in the list that cargo-deny reads.
const SETTINGS: &str = "deny.toml";

#[derive(Deserialize)]
struct Settings {
    licenses: Licences,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

/// How cargo names the public registry, by whichever road it is reached.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check(checkout: &Checkout) -> Outcome {
    let packages = metadata::all(checkout)?;
    let settings = fs::read_to_string(checkout.root().join(SETTINGS))?;
    let accepted = accepted(&settings)?;
    let mut objections = 0;
    for package in &packages {
        for objection in objections_to(package, &accepted) {
            println!("error: {} {}: {objection}", package.name, package.version);
            objections += 1;
        }
    }
    let twice = in_several_versions(&packages);
    for (name, versions) in &twice {
        println!(
            "warning: {name} comes in {} versions: {}",
            versions.len(),
            versions.join(", ")
        );
    }
    if objections > 0 {
        return Err(Failure::new(format!("{objections} objections")));
    }
    Ok(match twice.len() {
        0 => format!("{} packages", packages.len()),
        several => format!("{} packages, {several} in several versions", packages.len()),
    })
}

fn accepted(settings: &str) -> Result<Vec<Licensee>, Failure> {
    let settings: Settings =
        toml::from_str(settings).map_err(|error| Failure::new(format!("{SETTINGS}: {error}")))?;
    let parse = |name: &String| {
        Licensee::parse(name).map_err(|error| Failure::new(format!("{SETTINGS}: {name}: {error}")))
    };
    settings.licenses.allow.iter().map(parse).collect()
}

fn objections_to(package: &Package, accepted: &[Licensee]) -> Vec<String> {
    let mut objections = Vec::new();
    match &package.license {
        Some(expression) => objections.extend(refusal(expression, accepted)),
        None => objections.push("states no licence expression".to_owned()),
    }
    match package.source.as_deref() {
        None | Some(REGISTRY) => {}
        Some(source) => objections.push(format!("comes from {source}, not from the registry")),
    }
    objections
}

/// Why the expression cannot be met with the accepted licences, if so.
fn refusal(expression: &str, accepted: &[Licensee]) -> Option<String> {
    // Old crates write `MIT/Apache-2.0`, or identifiers that have a new name since.
    let mode = ParseMode {
        allow_slash_as_or_operator: true,
        allow_deprecated: true,
        ..ParseMode::STRICT
    };
    let parsed = match Expression::parse_mode(expression, mode) {
        Ok(parsed) => parsed,
        // The parser's own words come on several lines, with a marker under the place.
        Err(error) => return Some(format!("not a licence expression:\n{error}")),
    };
    let unmet = parsed
        .evaluate_with_failures(|wanted| accepted.iter().any(|ours| ours.satisfies(wanted)))
        .err()?;
    let unmet: Vec<String> = unmet.iter().map(|term| term.req.to_string()).collect();
    Some(format!(
        "licence `{expression}` is not acceptable because of {}",
        unmet.join(", ")
    ))
}

/// Not wrong, but each further version is built, and shipped, once more.
fn in_several_versions(packages: &[Package]) -> Vec<(&str, Vec<&str>)> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions
            .entry(&package.name)
            .or_default()
            .push(&package.version);
    }
    versions
        .into_iter()
        .filter(|(_, versions)| versions.len() > 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Vec<Licensee> {
        let path = Checkout::here().root().join(SETTINGS);
        let settings = fs::read_to_string(path).expect(SETTINGS);
        accepted(&settings).expect("the list is valid")
    }

    fn refused(expression: &str) -> Option<String> {
        refusal(expression, &ours())
    }

    #[track_caller]
    fn good(expression: &str) {
        assert_eq!(refused(expression), None);
    }

    #[track_caller]
    fn bad(expression: &str, because: &str) {
        let words = refused(expression).expect("must be refused");
        assert!(words.ends_with(&format!("because of {because}")), "{words}");
    }

    #[test]
    fn one_licence() {
        good("MIT");
        good("Unicode-3.0");
        bad("GPL-3.0-only", "GPL-3.0-only");
        bad("AGPL-3.0-or-later", "AGPL-3.0-or-later");
    }

    #[test]
    fn or_needs_one_side() {
        good("MIT OR Apache-2.0");
        good("GPL-2.0-only OR MIT");
        bad(
            "GPL-2.0-only OR LGPL-3.0-only",
            "GPL-2.0-only, LGPL-3.0-only",
        );
    }

    #[test]
    fn and_needs_both_sides() {
        good("MIT AND BSD-3-Clause");
        bad("MIT AND GPL-2.0-only", "GPL-2.0-only");
    }

    #[test]
    fn and_binds_tighter_than_or() {
        good("MIT OR GPL-2.0-only AND GPL-3.0-only");
        bad(
            "GPL-2.0-only OR GPL-3.0-only AND MIT",
            "GPL-2.0-only, GPL-3.0-only",
        );
    }

    #[test]
    fn parentheses_bind_tightest() {
        good("(MIT OR Apache-2.0) AND Unicode-3.0");
        good("(GPL-2.0-only OR MIT) AND (ISC OR GPL-3.0-only)");
        bad(
            "(MIT OR GPL-2.0-only) AND GPL-3.0-only",
            "GPL-2.0-only, GPL-3.0-only",
        );
    }

    #[test]
    fn an_exception_is_accepted_by_name() {
        good("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT");
        good("Apache-2.0 WITH LLVM-exception");
        bad(
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "GPL-2.0-only WITH Classpath-exception-2.0",
        );
    }

    #[test]
    fn the_old_slash_is_an_or() {
        good("MIT/Apache-2.0");
        good("GPL-2.0-only/MIT");
        bad("GPL-2.0-only / GPL-3.0-only", "GPL-2.0-only, GPL-3.0-only");
    }

    #[test]
    fn nonsense_is_refused() {
        for expression in [
            "",
            "MIT OR",
            "MIT Apache-2.0",
            "(MIT",
            "Whatever-1.0",
            "MIT WITH",
        ] {
            let words = refused(expression).expect("must be refused");
            assert!(
                words.starts_with("not a licence expression:"),
                "{expression}: {words}"
            );
        }
    }

    fn package(version: &str, license: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: "some".to_owned(),
            version: version.to_owned(),
            license: license.map(str::to_owned),
            source: source.map(str::to_owned),
            features: BTreeMap::new(),
        }
    }

    #[test]
    fn a_package_has_a_licence_and_a_known_source() {
        let accepted = ours();
        let objections =
            |license, source| objections_to(&package("1.0.0", license, source), &accepted);
        assert!(objections(Some("MIT"), None).is_empty());
        assert!(objections(Some("MIT"), Some(REGISTRY)).is_empty());
        assert_eq!(
            objections(None, Some("git+https://example.com/some#1234")),
            [
                "states no licence expression",
                "comes from git+https://example.com/some#1234, not from the registry"
            ]
        );
    }

    #[test]
    fn several_versions_are_listed() {
        let packages = [package("1.4.0", None, None), package("2.0.1", None, None)];
        assert_eq!(
            in_several_versions(&packages),
            [("some", vec!["1.4.0", "2.0.1"])]
        );
        assert!(in_several_versions(&packages[..1]).is_empty());
    }
}
