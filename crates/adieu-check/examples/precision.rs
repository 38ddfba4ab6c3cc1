//! Draws findings of error and warning level at random, to be judged by reading.
//!
//! ```console
//! $ cargo run --release -p adieu-check --example precision -- SEED COUNT FOLDER
//! ```
//!
//! `FOLDER` holds one unpacked project in each of its directories. The draw is the same for the same
//! seed and the same findings. What is drawn and how it was judged stands in `docs/check-precision.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adieu_check::{Finding, Request, Severity, check};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [seed, count, folder] = words.as_slice() else {
        eprintln!("usage: precision SEED COUNT DIRECTORY");
        return ExitCode::from(2);
    };
    let (Ok(seed), Ok(count)) = (seed.parse::<u64>(), count.parse::<usize>()) else {
        eprintln!("the seed and the count are numbers");
        return ExitCode::from(2);
    };
    let Ok(found) = all(Path::new(folder)) else {
        eprintln!("{folder}: cannot be read");
        return ExitCode::from(2);
    };
    let mut tally: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (_, finding) in &found {
        *tally
            .entry((finding.code.as_str(), finding.severity.to_string()))
            .or_default() += 1;
    }
    for ((code, severity), number) in &tally {
        println!("# {code} {severity}: {number}");
    }
    let drawn: Vec<&(String, Finding)> = found
        .iter()
        .filter(|(_, it)| it.severity >= Severity::Warning)
        .collect();
    println!(
        "# {} of {} errors and warnings, seed {seed}",
        count.min(drawn.len()),
        drawn.len()
    );
    for at in draw(seed, count, drawn.len()) {
        let (project, finding) = drawn[at];
        println!(
            "{project}\t{}\t{}\t{}:{}\t{}",
            finding.severity, finding.code, finding.path, finding.place.line, finding.message
        );
        for step in finding.trace.iter().skip(1) {
            println!("\t\t\t{}:{}\t{}", step.path, step.place.line, step.call);
        }
    }
    ExitCode::SUCCESS
}

/// The findings of each project, by its name and in the order of the report.
fn all(folder: &Path) -> std::io::Result<Vec<(String, Finding)>> {
    let mut projects: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        projects.push(entry?.path());
    }
    projects.sort();
    let mut found = Vec::new();
    for project in projects {
        let name = project
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let request = Request {
            paths: vec![project.clone()],
            ..Request::default()
        };
        let root = format!("{}/", project.display());
        for mut finding in check(&request, &|_, _| {}).findings {
            finding.path = finding
                .path
                .strip_prefix(&*root)
                .unwrap_or(&finding.path)
                .into();
            for step in &mut finding.trace {
                step.path = step.path.strip_prefix(&*root).unwrap_or(&step.path).into();
            }
            found.push((name.clone(), finding));
        }
    }
    Ok(found)
}

/// Numbers below `of`, each once, in ascending order.
fn draw(seed: u64, count: usize, of: usize) -> Vec<usize> {
    let mut state = seed;
    let mut all: Vec<(u64, usize)> = (0..of)
        .map(|at| {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31), at)
        })
        .collect();
    all.sort_unstable();
    let mut drawn: Vec<usize> = all.into_iter().take(count).map(|(_, at)| at).collect();
    drawn.sort_unstable();
    drawn
}
