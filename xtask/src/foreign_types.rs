//! The types and traits of other crates in the public API of `adieu` and of the crates it re-exports: a new major version of theirs is one of ours, so each
//! one is listed with its reason in `foreign_types.toml`.
//!
//! Read from the signatures as they are written, and not from rustdoc's JSON, which stable compilers do not give: `pub`
//! means public here, because the lint `unreachable_pub` sees to it.

mod names;
mod surface;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Deserialize;

use crate::checkout::Checkout;
use crate::step::{Failure, Outcome};

const HELP: &str = "\
The types and traits of other crates in the public API of the published libraries, compared with the list of those that
may be there; and the number of names at the root of `adieu`.

usage: cargo xtask foreign-types

exit code: 0 all are listed, 1 one is new, gone or without a reason, 2 usage
";

/// The library, and the crates whose items it re-exports.
const PACKAGES: &[&str] = &[
    "crates/adieu",
    "crates/adieu-core",
    "crates/adieu-nats",
    "crates/adieu-postgres",
    "crates/adieu-redis",
];
const LIST: &str = "xtask/src/foreign_types.toml";
const ROOT: &str = "crates/adieu/src/lib.rs";
/// Names at the root of the library; what is beyond belongs into a module.
const MOST_AT_ROOT: usize = 25;

#[derive(Deserialize)]
struct List {
    allowed: BTreeMap<String, String>,
}

/// A type or trait of another crate, and where it is used first.
type Found = BTreeMap<String, String>;

pub(crate) fn run(words: &[&str]) -> ExitCode {
    match words {
        [] => match check(&Checkout::here()) {
            Ok(said) => {
                println!("{said}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                eprintln!("error: {}", failure.why());
                ExitCode::FAILURE
            }
        },
        ["--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        [unknown, ..] => crate::usage(
            &format!("`foreign-types` has no option `{unknown}`"),
            "foreign-types --help",
        ),
    }
}

pub(crate) fn check(checkout: &Checkout) -> Outcome {
    let list: List = toml::from_str(&read(checkout, LIST)?)
        .map_err(|error| Failure::new(format!("{LIST}: {error}")))?;
    let (mut found, mut dependencies) = (Found::new(), BTreeMap::new());
    for package in PACKAGES {
        let manifest = format!("{package}/Cargo.toml");
        let own = dependencies_of(&manifest, &read(checkout, &manifest)?)?;
        let crates: BTreeSet<&str> = own.keys().map(String::as_str).collect();
        let parsed = parse(checkout, package)?;
        for (name, place) in surface::of(&parsed, &crates) {
            found.entry(name).or_insert(place);
        }
        dependencies.extend(own);
    }
    let findings = compare(&found, &list.allowed, &dependencies);
    for finding in &findings {
        println!("{finding}");
    }
    let root = syn::parse_file(&read(checkout, ROOT)?)
        .map_err(|error| Failure::new(format!("{ROOT} cannot be read: {error}")))?;
    let names = root_names(&root.items);
    if names.len() > MOST_AT_ROOT {
        return Err(Failure::new(format!(
            "{} names at the root of the library, {MOST_AT_ROOT} are allowed: {}",
            names.len(),
            names.join(", ")
        ))
        .advise("export some from the module that they belong to"));
    }
    match findings.len() {
        0 => Ok(format!(
            "{} types of other crates, {} names at the root",
            found.len(),
            names.len()
        )),
        number => Err(Failure::new(format!("{number} findings")).advise(&format!(
            "use a type of our own, or add it to {LIST} with its reason"
        ))),
    }
}

/// The public items at the root of a library that are not modules.
fn root_names(items: &[syn::Item]) -> Vec<String> {
    let mut names = Vec::new();
    for item in items {
        let (visibility, ident) = match item {
            syn::Item::Use(item) if is_public(&item.vis) => {
                used(&item.tree, &mut names);
                continue;
            }
            syn::Item::Fn(item) => (&item.vis, &item.sig.ident),
            syn::Item::Struct(item) => (&item.vis, &item.ident),
            syn::Item::Enum(item) => (&item.vis, &item.ident),
            syn::Item::Trait(item) => (&item.vis, &item.ident),
            syn::Item::Type(item) => (&item.vis, &item.ident),
            syn::Item::Const(item) => (&item.vis, &item.ident),
            _ => continue,
        };
        if is_public(visibility) {
            names.push(ident.to_string());
        }
    }
    names
}

const fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

/// The names that a `use` brings in.
fn used(tree: &syn::UseTree, names: &mut Vec<String>) {
    match tree {
        syn::UseTree::Path(next) => used(&next.tree, names),
        syn::UseTree::Group(group) => group.items.iter().for_each(|it| used(it, names)),
        syn::UseTree::Name(name) => names.push(name.ident.to_string()),
        syn::UseTree::Rename(name) => names.push(name.rename.to_string()),
        syn::UseTree::Glob(_) => names.push("*".to_owned()),
    }
}

/// The sources of a package, by their names.
fn parse(checkout: &Checkout, package: &str) -> Result<Vec<(String, syn::File)>, Failure> {
    let mut files = Vec::new();
    collect(&checkout.root().join(package).join("src"), &mut files)?;
    let mut parsed = Vec::new();
    for path in &files {
        let name = path.strip_prefix(checkout.root()).unwrap_or(path);
        let file = syn::parse_file(&fs::read_to_string(path)?)
            .map_err(|error| Failure::new(format!("{} cannot be read: {error}", name.display())))?;
        parsed.push((name.display().to_string(), file));
    }
    Ok(parsed)
}

fn read(checkout: &Checkout, name: &str) -> Result<String, Failure> {
    fs::read_to_string(checkout.root().join(name))
        .map_err(|error| Failure::new(format!("cannot read {name}: {error}")))
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// The crates that the package uses, as the code spells them, with their version requirements.
fn dependencies_of(name: &str, manifest: &str) -> Result<BTreeMap<String, String>, Failure> {
    let manifest: toml::Table = manifest
        .parse()
        .map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let everywhere = manifest.get("dependencies");
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let somewhere = targets
        .into_iter()
        .flat_map(|targets| targets.values().filter_map(|it| it.get("dependencies")));
    let mut found = BTreeMap::new();
    for table in everywhere.into_iter().chain(somewhere) {
        // Those of this project have its version.
        let others = |(name, _): &(&String, &toml::Value)| !name.starts_with("adieu-");
        for (name, value) in table.as_table().into_iter().flatten().filter(others) {
            let version = value.as_str().or_else(|| value.get("version")?.as_str());
            // One that is inherited has its version in the root; all of those are 1.0 and later or our own.
            let version = version.unwrap_or("1").to_owned();
            found.insert(name.replace('-', "_"), version);
        }
    }
    Ok(found)
}

fn compare(
    found: &Found,
    allowed: &BTreeMap<String, String>,
    dependencies: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, place) in found {
        match allowed.get(name) {
            None => findings.push(format!("{place}: {name} is new in the public API")),
            Some(reason) => {
                let is_below_1 = name
                    .split("::")
                    .next()
                    .and_then(|it| dependencies.get(it))
                    .is_some_and(|version| version.starts_with("0."));
                if is_below_1 && !reason.starts_with("feature `") {
                    findings.push(format!(
                        "{place}: {name} is of a crate below 1.0: its reason has to begin with the feature whose point \
                         that crate is, as in \"feature `http`: ...\""
                    ));
                }
            }
        }
    }
    for name in allowed.keys().filter(|name| !found.contains_key(*name)) {
        findings.push(format!("{LIST}: {name} is not in the public API any more"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(source: &str) -> Vec<String> {
        let file = syn::parse_file(source).expect("Rust");
        let crates = BTreeSet::from(["sqlx", "http", "tokio", "serde"]);
        let found = surface::of(&[("a.rs".to_owned(), file)], &crates);
        found.into_keys().collect()
    }

    #[test]
    fn public_signatures_are_read_and_private_ones_are_not() {
        let source = "
            use sqlx::{PgPool, postgres::PgRow as Row};
            use tokio::time::Instant;
            pub struct Queue { pub(crate) pool: PgPool, pub since: Instant }
            impl Queue {
                pub fn on(pool: PgPool) -> Self { todo!() }
                pub(crate) fn row(&self) -> Row { todo!() }
                fn request(&self) -> http::Request<()> { todo!() }
            }
        ";
        assert_eq!(found_in(source), ["sqlx::PgPool", "tokio::time::Instant"]);
    }

    #[test]
    fn bounds_aliases_and_implemented_traits_count() {
        let source = "
            use serde::Serialize;
            pub type Answer = http::Response<()>;
            pub struct Cursor;
            struct Hidden;
            impl Serialize for Hidden {}
            impl tokio::io::AsyncRead for Cursor {}
            pub trait Stored: Serialize {}
            pub fn save<T>(_: T) where T: serde::de::DeserializeOwned {}
        ";
        assert_eq!(
            found_in(source),
            [
                "http::Response",
                "serde::Serialize",
                "serde::de::DeserializeOwned",
                "tokio::io::AsyncRead"
            ]
        );
    }

    #[test]
    fn a_module_of_our_own_hides_a_crate_of_its_name() {
        let source = "
            use crate::http;
            pub fn answer() -> http::Answer { todo!() }
            mod serde;
            pub use serde::Reader;
            pub use tokio::task::JoinHandle;
            #[cfg(test)]
            mod tests { pub fn pool() -> sqlx::PgPool { todo!() } }
            mod inner { pub fn pool() -> sqlx::PgConnection { todo!() } }
        ";
        assert_eq!(
            found_in(source),
            ["sqlx::PgConnection", "tokio::task::JoinHandle"]
        );
    }

    #[test]
    fn names_at_the_root_are_counted_and_modules_are_not() {
        let source = "
            pub mod http;
            pub use app::{App, scope::{Scope, scope as open}};
            pub fn serve() {}
            pub(crate) fn hidden() {}
            use report::Report;
            struct Private;
        ";
        let file = syn::parse_file(source).expect("Rust");
        assert_eq!(root_names(&file.items), ["App", "Scope", "open", "serve"]);
    }

    #[test]
    fn what_is_new_gone_or_without_its_feature_is_a_finding() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let own = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
            pairs.iter().map(own).collect()
        };
        let dependencies = map(&[("sqlx", "0.9"), ("http", "1.5")]);
        let found = map(&[("sqlx::PgPool", "a.rs:1"), ("http::Request", "a.rs:2")]);
        let reasons = [
            ("http::Request", "the request"),
            ("sqlx::PgPool", "feature `postgres`: its client"),
        ];
        assert!(compare(&found, &map(&reasons), &dependencies).is_empty());
        let wrong = [("http::Body", "gone"), ("sqlx::PgPool", "a pool")];
        let findings = compare(&found, &map(&wrong), &dependencies);
        assert_eq!(findings.len(), 3, "{findings:?}");
    }
}
