//! What `adieu::serve` adds to a plain axum program: crates, and time of a cold release build.
//!
//! Two programs that differ in the line that serves, with the versions of the project's lock file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::bench::Finding;
use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

/// What is promised.
const MOST_CRATES: f64 = 5.0;
const MOST_TIME: f64 = 1.15;

const MANIFEST: &str = r#"[package]
name = "NAME"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
axum = "0.8.9"
tokio = { version = "1", features = ["macros", "net", "rt-multi-thread", "signal"] }
"#;

const PROGRAM: &str = r#"use axum::{Router, routing::get};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let router = Router::new().route("/", get(async || "hello"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    SERVE
    Ok(())
}
"#;

const PLAIN: &str = "axum::serve(listener, router).with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await?;";
const OURS: &str = "adieu::serve(listener, router).await?;";

/// A program of one file, in a directory of its own.
struct Program {
    directory: PathBuf,
}

/// How long a build took.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    processor: f64,
}

pub(crate) fn measure(checkout: &Checkout, rounds: usize) -> Result<Vec<Finding>, Failure> {
    let plain = Program::write(checkout, "plain", PLAIN, None)?;
    let library = checkout.root().join("crates/adieu");
    let ours = Program::write(checkout, "ours", OURS, Some(&library))?;
    let (theirs, all) = (plain.crates(checkout)?, ours.crates(checkout)?);
    let added: Vec<&String> = all.difference(&theirs).collect();
    eprintln!("beyond axum's own {}: {added:?}", theirs.len());
    // In turn, and the best of each counts.
    let mut best = [None; 2];
    for _ in 0..rounds.max(1) {
        for (program, best) in [&plain, &ours].into_iter().zip(&mut best) {
            let took = program.build(checkout)?;
            *best = Some(best.map_or(took, |best: Took| took.best(best)));
        }
    }
    let [Some(without), Some(with)] = best else {
        return Err(Failure::new("nothing was built".to_owned()));
    };
    let seconds = |case: &str, ours, peer, bar| Finding {
        bench: "adoption".to_owned(),
        case: case.to_owned(),
        unit: "s".to_owned(),
        ours,
        against: Some("plain axum".to_owned()),
        peer: Some(peer),
        figure: ours / peer,
        kind: "ratio".to_owned(),
        bar,
        holds: bar.map(|bar| ours / peer <= bar),
    };
    let figure = added.len() as f64;
    Ok(vec![
        Finding {
            bench: "adoption".to_owned(),
            case: "crates".to_owned(),
            unit: "crates".to_owned(),
            ours: all.len() as f64,
            against: Some("plain axum".to_owned()),
            peer: Some(theirs.len() as f64),
            figure,
            kind: "difference".to_owned(),
            bar: Some(MOST_CRATES),
            holds: Some(figure <= MOST_CRATES),
        },
        seconds(
            "cold release build, processor time",
            with.processor,
            without.processor,
            Some(MOST_TIME),
        ),
        seconds("cold release build", with.wall, without.wall, None),
    ])
}

impl Took {
    fn best(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            processor: self.processor.min(other.processor),
        }
    }
}

impl Program {
    fn write(
        checkout: &Checkout,
        name: &str,
        serve: &str,
        library: Option<&Path>,
    ) -> Result<Self, Failure> {
        let directory = checkout.root().join("target/adoption").join(name);
        fs::create_dir_all(directory.join("src"))?;
        let mut manifest = MANIFEST.replace("NAME", name);
        if let Some(library) = library {
            manifest += &format!("adieu = {{ path = {library:?}, features = [\"axum\"] }}\n");
        }
        fs::write(directory.join("Cargo.toml"), manifest)?;
        fs::write(
            directory.join("src/main.rs"),
            PROGRAM.replace("SERVE", serve),
        )?;
        // The same versions for both; cargo leaves out what is not used.
        fs::copy(
            checkout.root().join("Cargo.lock"),
            directory.join("Cargo.lock"),
        )?;
        Ok(Self { directory })
    }

    fn cargo(&self, checkout: &Checkout, words: &[&str]) -> std::process::Command {
        let mut cargo = checkout.program("cargo");
        cargo.args(words).current_dir(&self.directory);
        cargo.env("CARGO_TARGET_DIR", self.directory.join("target"));
        cargo
    }

    /// The packages that are compiled for it, but for itself.
    fn crates(&self, checkout: &Checkout) -> Result<BTreeSet<String>, Failure> {
        let words = [
            "tree",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ];
        let listed = command::ask(&mut self.cargo(checkout, &words))?;
        let listed = String::from_utf8_lossy(&listed);
        let names = listed.lines().skip(1).filter(|line| !line.is_empty());
        let names = names.filter_map(|line| line.split(' ').next());
        Ok(names.map(str::to_owned).collect())
    }

    /// From nothing.
    fn build(&self, checkout: &Checkout) -> Result<Took, Failure> {
        let target = self.directory.join("target");
        if target.exists() {
            fs::remove_dir_all(&target)?;
        }
        let (began, before) = (Instant::now(), processor_time_of_children()?);
        command::run(&mut self.cargo(checkout, &["build", "--release", "--quiet"]))?;
        Ok(Took {
            wall: began.elapsed().as_secs_f64(),
            processor: processor_time_of_children()? - before,
        })
    }
}

/// Of all children that have ended, and of theirs, in seconds.
fn processor_time_of_children() -> Result<f64, Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may hold anything: the fields from the third on.
    let fields: Vec<&str> = stat
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    // `cutime` and `cstime`, fields 16 and 17 of proc(5), in ticks of a hundredth.
    let ticks = fields.get(13..15).unwrap_or_default().iter();
    Ok(ticks.filter_map(|it| it.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_differ_in_one_line() {
        let [plain, ours] = [PLAIN, OURS].map(|serve| PROGRAM.replace("SERVE", serve));
        let lines = plain.lines().zip(ours.lines());
        assert_eq!(lines.filter(|(one, other)| one != other).count(), 1);
    }

    #[test]
    fn the_time_of_a_child_that_has_ended_counts() {
        let before = processor_time_of_children().expect("procfs is there");
        let mut child = std::process::Command::new("sh");
        child.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        assert!(child.status().expect("a shell").success());
        let after = processor_time_of_children().expect("procfs is there");
        assert!(after > before, "{before} and {after}");
    }
}
