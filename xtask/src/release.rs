//! `cargo xtask release`: the crates that are published, in the order in which they have to be.
//!
//! The step `crates` of `cargo xtask test` packs each of them and looks at what is inside. The chore also builds each
//! one from its package, with the others as the registry would serve them.

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;

use serde::Deserialize;

use crate::checkout::Checkout;
use crate::command;
use crate::metadata;
use crate::step::{Failure, Outcome};

const HELP: &str = "\
The crates that are published, and their order.

usage: cargo xtask release --dry-run

  --dry-run   pack every crate, build it from its package, and print the commands that would publish them

A crate is published unless its manifest says `publish = false`. The version of all crates stands in the manifest of
the workspace. Building from the packages takes as long as a build of the command from scratch.

exit code: 0 every crate could be published, 1 not, 2 usage
";

/// What a person who finds a crate in the registry looks for.
const FILES: &[&str] = &["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

pub(crate) fn run(words: &[&str]) -> ExitCode {
    match words {
        ["--dry-run"] => {}
        ["--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        [] => return crate::usage("`release` needs --dry-run", "release --help"),
        [unknown, ..] => {
            return crate::usage(
                &format!("`release` has no option `{unknown}`"),
                "release --help",
            );
        }
    }
    match dry_run(&Checkout::here()) {
        Ok(crates) => {
            println!("publish in this order, each once the one before is in the index:");
            for one in crates {
                println!("  cargo publish --package {}", one.name);
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}

fn dry_run(checkout: &Checkout) -> Result<Vec<Published>, Failure> {
    let crates = published(checkout)?;
    judge(findings(checkout, &crates)?)?;
    pack(checkout, &crates, &[])?;
    Ok(crates)
}

/// The step: packages are made and not built, which would take as long as everything before it.
pub(crate) fn check(checkout: &Checkout) -> Outcome {
    let crates = published(checkout)?;
    judge(findings(checkout, &crates)?)?;
    // What is resolved was resolved by the steps before: no registry is asked.
    pack(checkout, &crates, &["--no-verify", "--offline"])?;
    let names: Vec<&str> = crates.iter().map(|it| it.name.as_str()).collect();
    Ok(format!("packed, not built: {}", names.join(", ")))
}

fn judge(findings: Vec<String>) -> Result<(), Failure> {
    if findings.is_empty() {
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    let count = findings.len();
    Err(Failure::new(format!(
        "{count} findings in manifests and packages"
    )))
}

/// Those that depend on one of the others are packed against its package. What cargo says is shown if it fails: of each
/// test that stays at home it has a warning.
fn pack(checkout: &Checkout, crates: &[Published], options: &[&str]) -> Result<(), Failure> {
    let mut words = vec!["package", "--locked", "--allow-dirty"];
    words.extend(options);
    for one in crates {
        words.extend(["--package", &one.name]);
    }
    println!("$ cargo {}", words.join(" "));
    let output = checkout.cargo(words).output()?;
    if output.status.success() {
        return Ok(());
    }
    print!("{}", String::from_utf8_lossy(&output.stderr));
    Err(Failure::new(format!("cargo package: {}", output.status)))
}

#[derive(Debug, Deserialize)]
struct Published {
    name: String,
    version: String,
    manifest_path: String,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    homepage: Option<String>,
    readme: Option<String>,
    rust_version: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    features: BTreeMap<String, Vec<String>>,
    /// An empty list for a crate that is not published.
    publish: Option<Vec<String>>,
    dependencies: Vec<Dependency>,
    metadata: Option<Metadata>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    /// `dev`, `build`, or none for a normal one.
    kind: Option<String>,
    path: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    docs: Option<Docs>,
}

#[derive(Debug, Deserialize)]
struct Docs {
    rs: Option<DocsRs>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct DocsRs {
    #[serde(default)]
    all_features: bool,
}

impl Dependency {
    /// A dependency that lies in this workspace and is needed to build the crate: cargo drops the others from a package.
    fn is_sibling(&self) -> bool {
        self.path.is_some() && self.kind.as_deref() != Some("dev")
    }
}

fn published(checkout: &Checkout) -> Result<Vec<Published>, Failure> {
    let members: Vec<Published> = metadata::members_as(checkout)?;
    let is_published = |it: &Published| it.publish.as_ref().is_none_or(|to| !to.is_empty());
    in_order(members.into_iter().filter(is_published).collect())
}

/// A crate comes after all that it depends on; those that could be in any order are in that of the alphabet.
fn in_order(mut crates: Vec<Published>) -> Result<Vec<Published>, Failure> {
    crates.sort_by(|one, other| one.name.cmp(&other.name));
    let mut ordered: Vec<Published> = Vec::new();
    while !crates.is_empty() {
        let waits = |one: &Published| {
            let siblings = one.dependencies.iter().filter(|it| it.is_sibling());
            let mut names = siblings.map(|it| &it.name);
            names.any(|name| crates.iter().any(|other| other.name == *name))
        };
        let Some(next) = crates.iter().position(|one| !waits(one)) else {
            let names: Vec<&str> = crates.iter().map(|it| it.name.as_str()).collect();
            return Err(Failure::new(format!(
                "these crates depend on each other in a circle: {}",
                names.join(", ")
            )));
        };
        ordered.push(crates.remove(next));
    }
    Ok(ordered)
}

fn findings(checkout: &Checkout, crates: &[Published]) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for one in crates {
        all.extend(manifest_findings(one, crates));
        let listed = command::ask(&mut checkout.cargo([
            "package",
            "--locked",
            "--offline",
            "--quiet",
            "--allow-dirty",
            "--list",
            "--package",
            &one.name,
        ]))?;
        let listed = String::from_utf8_lossy(&listed);
        let lacks = |name: &&&str| !listed.lines().any(|line| line == **name);
        for file in FILES.iter().filter(lacks) {
            all.push(format!("{}: the package has no {file}", one.name));
        }
        all.extend(licence_findings(checkout, one)?);
    }
    all.extend(stray_versions(checkout, crates)?);
    Ok(all)
}

/// A licence that is not the text itself. A link is a file with the name of another one where links are not kept.
fn licence_findings(checkout: &Checkout, one: &Published) -> Result<Vec<String>, Failure> {
    let root = checkout.root();
    let folder = root.join(&one.manifest_path);
    let mut all = Vec::new();
    for file in FILES.iter().filter(|it| it.starts_with("LICENSE")) {
        let copy = folder.with_file_name(file);
        if fs::read(&copy).ok() != Some(fs::read(root.join(file))?) {
            all.push(format!("{}: is not the text of {file}", copy.display()));
        }
    }
    Ok(all)
}

/// What the manifest of a crate lacks.
fn manifest_findings(one: &Published, crates: &[Published]) -> Vec<String> {
    let fields = [
        ("description", one.description.is_some()),
        ("license", one.license.is_some()),
        ("repository", one.repository.is_some()),
        ("homepage", one.homepage.is_some()),
        ("readme", one.readme.is_some()),
        ("rust-version", one.rust_version.is_some()),
        ("keywords", !one.keywords.is_empty()),
        ("categories", !one.categories.is_empty()),
    ];
    let mut all: Vec<String> = fields
        .iter()
        .filter(|(_, is_there)| !is_there)
        .map(|(field, _)| format!("{}: the manifest has no `{field}`", one.manifest_path))
        .collect();
    // The registry takes no more.
    if one.keywords.len() > 5 || one.categories.len() > 5 {
        all.push(format!(
            "{}: more than 5 keywords or categories",
            one.manifest_path
        ));
    }
    // docs.rs builds the default features only, unless the manifest says otherwise.
    let docs = one.metadata.as_ref().and_then(|it| it.docs.as_ref());
    let builds_all = docs.and_then(|it| it.rs.as_ref());
    if !one.features.is_empty() && !builds_all.is_some_and(|it| it.all_features) {
        all.push(format!(
            "{}: [package.metadata.docs.rs] has no `all-features = true`",
            one.manifest_path
        ));
    }
    for dependency in one.dependencies.iter().filter(|it| it.is_sibling()) {
        if !crates.iter().any(|other| other.name == dependency.name) {
            all.push(format!(
                "{}: depends on {}, which is not published",
                one.manifest_path, dependency.name
            ));
        } else if dependency.req != format!("^{}", one.version) {
            all.push(format!(
                "{}: wants {} {}, and the version of all is {}",
                one.manifest_path, dependency.name, dependency.req, one.version
            ));
        }
    }
    all
}

/// Manifests with a version of their own: all have that of the workspace.
fn stray_versions(checkout: &Checkout, crates: &[Published]) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for one in crates {
        let text = fs::read_to_string(checkout.root().join(&one.manifest_path))?;
        if !text.lines().any(|line| line == "version.workspace = true") {
            all.push(format!(
                "{}: has a version of its own, and not that of the workspace",
                one.manifest_path
            ));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn krate(name: &str, needs: &[&str]) -> Published {
        let dependencies = needs.iter().map(|name| Dependency {
            name: (*name).to_owned(),
            req: "^0.1.0".to_owned(),
            kind: None,
            path: Some(format!("crates/{name}")),
        });
        let is_there = || Some("there".to_owned());
        Published {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            manifest_path: format!("crates/{name}/Cargo.toml"),
            description: is_there(),
            license: is_there(),
            repository: is_there(),
            homepage: is_there(),
            readme: is_there(),
            rust_version: is_there(),
            keywords: vec!["shutdown".to_owned()],
            categories: vec!["concurrency".to_owned()],
            features: BTreeMap::new(),
            publish: None,
            dependencies: dependencies.collect(),
            metadata: None,
        }
    }

    fn names(crates: &[Published]) -> Vec<&str> {
        crates.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn a_crate_comes_after_those_it_depends_on() {
        let crates = vec![
            krate("cli", &["drill", "lib"]),
            krate("drill", &["load"]),
            krate("lib", &[]),
            krate("load", &[]),
        ];
        let ordered = in_order(crates).expect("no circle");
        assert_eq!(names(&ordered), ["lib", "load", "drill", "cli"]);
    }

    #[test]
    fn a_circle_is_named() {
        let crates = vec![krate("one", &["two"]), krate("two", &["one"])];
        let failure = in_order(crates).expect_err("a circle");
        assert!(failure.why().ends_with("one, two"), "{}", failure.why());
    }

    #[test]
    fn a_whole_manifest_has_no_finding() {
        let crates = [krate("load", &[]), krate("drill", &["load"])];
        assert_eq!(manifest_findings(&crates[1], &crates), Vec::<String>::new());
    }

    #[test]
    fn what_a_manifest_lacks_is_named() {
        let mut one = krate("drill", &["load", "private"]);
        one.homepage = None;
        one.features.insert("extra".to_owned(), Vec::new());
        one.dependencies[0].req = "^0.2.0".to_owned();
        let found = manifest_findings(&one, &[krate("load", &[])]).join("\n");
        for wanted in [
            "no `homepage`",
            "all-features = true",
            "wants load ^0.2.0",
            "depends on private, which is not published",
        ] {
            assert!(found.contains(wanted), "{wanted}: {found}");
        }
    }

    #[test]
    fn a_dependency_of_tests_may_be_private() {
        let mut one = krate("lib", &["fixture"]);
        one.dependencies[0].kind = Some("dev".to_owned());
        assert_eq!(manifest_findings(&one, &[]), Vec::<String>::new());
    }
}
