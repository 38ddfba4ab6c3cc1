//! Both tools on the whole corpus, turn by turn in one run.

use std::path::Path;
use std::process::Command;

use super::Failure;
use super::fetch::Corpus;

const TURNS: usize = 7;

/// The best of several turns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    /// Largest resident memory, in megabytes.
    pub(crate) megabytes: f64,
}

/// What both cost.
pub(crate) struct Speed {
    pub(crate) ruff: Cost,
    pub(crate) adieu: Cost,
    /// Our cost of one package alone, to see how memory grows.
    pub(crate) one: Cost,
    pub(crate) cores: usize,
}

/// Runs a command and prints its wall time and its largest resident memory.
const WRAPPER: &str = "\
import resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
wall = time.perf_counter() - start
print(wall, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
";

pub(crate) fn measure(corpus: &Corpus) -> Result<Speed, Failure> {
    let ruff = [
        "check",
        "--isolated",
        "--select",
        "ASYNC",
        "--no-cache",
        ".",
    ];
    let adieu = ["check", "--select", "ADP", "."];
    let one = ["check", "--select", "ADP", "discord.py"];
    let mut best: [Option<Cost>; 3] = [None; 3];
    for _ in 0..TURNS {
        let turn = [
            cost(corpus, &corpus.ruff, &ruff)?,
            cost(corpus, &corpus.adieu, &adieu)?,
            cost(corpus, &corpus.adieu, &one)?,
        ];
        for (best, now) in best.iter_mut().zip(turn) {
            if best.is_none_or(|best| now.seconds < best.seconds) {
                *best = Some(now);
            }
        }
    }
    let [Some(ruff), Some(adieu), Some(one)] = best else {
        return Err("nothing was measured".into());
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Speed {
        ruff,
        adieu,
        one,
        cores,
    })
}

fn cost(corpus: &Corpus, program: &Path, args: &[&str]) -> Result<Cost, Failure> {
    let output = Command::new(&corpus.python)
        .args(["-c", WRAPPER])
        .arg(program)
        .args(args)
        .current_dir(&corpus.folder)
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text
        .split_whitespace()
        .filter_map(|word| word.parse::<f64>().ok());
    match (words.next(), words.next()) {
        (Some(seconds), Some(kilobytes)) => Ok(Cost {
            seconds,
            megabytes: kilobytes / 1024.0,
        }),
        _ => Err(format!("{} could not be measured", program.display())),
    }
}
