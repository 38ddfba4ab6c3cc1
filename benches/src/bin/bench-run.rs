//! What `adieu run` costs beside tini and dumb-init: the time until the command runs, and memory and wake-ups while
//! it does.
//!
//! Ours is the program behind `--adieu PATH`; the peers are those on PATH. The command is this program itself, so
//! what it takes to start is in every number alike, and not in a difference.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use adieu_bench::{Clock, Finding, Unit, elapsed, percentile, rounds};

/// What may be above tini until the command runs.
const LATER: f64 = 5_000.0;
/// What may be resident.
const RESIDENT: f64 = 6_000_000.0;
/// For start-up to be over.
const SETTLE: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(10);

struct Wrapper {
    name: &'static str,
    words: Vec<String>,
}

fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("stamp") => {
            println!("{}", Clock::now());
            return Ok(());
        }
        Some("wait") => {
            println!("up");
            io::stdin().read_to_end(&mut Vec::new())?;
            return Ok(());
        }
        _ => {}
    }
    let wrappers = wrappers()?;
    let mut times = vec![Vec::new(); wrappers.len()];
    for round in 0..rounds(200) {
        for turn in 0..wrappers.len() {
            let index = (round + turn) % wrappers.len();
            times[index].push(until_it_runs(&wrappers[index])?);
        }
    }
    for percent in [50, 90] {
        let mut micros = times.iter_mut().map(|it| percentile(it, percent) / 1e3);
        let ours = micros.next().unwrap_or(f64::NAN);
        let case = format!("until the command runs, p{percent}");
        for (peer, theirs) in wrappers[1..].iter().zip(micros) {
            let finding = Finding::value("run", case.clone(), Unit::Us, ours);
            let finding = finding.above(peer.name, theirs);
            // What the promise is about; the slowest tenth tells of the machine.
            if peer.name == "tini" && percent == 50 {
                finding.at_most(LATER).tell();
            } else {
                finding.tell();
            }
        }
    }
    let resting = wrappers.iter().map(rest).collect::<io::Result<Vec<_>>>()?;
    let [(ours, wakes), peers @ ..] = resting.as_slice() else {
        return Ok(());
    };
    Finding::value("run", "resident", Unit::Bytes, *ours)
        .at_most(RESIDENT)
        .tell();
    for (peer, (theirs, _)) in wrappers[1..].iter().zip(peers) {
        if *theirs > 0.0 {
            let finding = Finding::value("run", "resident", Unit::Bytes, *ours);
            finding.above(peer.name, *theirs).tell();
        }
    }
    Finding::value("run", "wake-ups in 10 s", Unit::Switches, *wakes)
        .at_most(0.0)
        .tell();
    Ok(())
}

/// Ours first, and at last none at all.
fn wrappers() -> io::Result<Vec<Wrapper>> {
    let mut words = std::env::args().skip_while(|word| word != "--adieu");
    let adieu = words.nth(1);
    let adieu = adieu.ok_or_else(|| io::Error::other("which one? --adieu PATH"))?;
    let wrapper = |name, words: &[&str]| Wrapper {
        name,
        words: words.iter().map(|&word| word.to_owned()).collect(),
    };
    Ok(vec![
        wrapper("adieu run", &[&adieu, "run", "--quiet", "--"]),
        wrapper("tini", &["tini", "-s", "--"]),
        wrapper("dumb-init", &["dumb-init", "--"]),
        wrapper("no wrapper", &[]),
    ])
}

fn start(wrapper: &Wrapper, role: &str) -> io::Result<Child> {
    let me = std::env::current_exe()?.display().to_string();
    let mut words = wrapper.words.iter().map(String::as_str).chain([&*me, role]);
    let program = words.next().unwrap_or_default();
    let started = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    started.map_err(|error| io::Error::other(format!("{program} cannot be run: {error}")))
}

fn line(child: &mut Child) -> io::Result<String> {
    let mut text = String::new();
    if let Some(output) = child.stdout.as_mut() {
        BufReader::new(output).read_line(&mut text)?;
    }
    Ok(text.trim().to_owned())
}

/// Nanoseconds from before the wrapper is started until its command looks at the clock.
fn until_it_runs(wrapper: &Wrapper) -> io::Result<f64> {
    let begun = Clock::now();
    let mut child = start(wrapper, "stamp")?;
    let stamp = line(&mut child)?;
    child.wait()?;
    let stamp = stamp
        .parse()
        .map_err(|_| io::Error::other(format!("{} ran nothing: `{stamp}`", wrapper.name)))?;
    Ok(elapsed(begun, stamp))
}

/// Bytes in memory of the wrapper alone, and its wake-ups, while its command waits.
fn rest(wrapper: &Wrapper) -> io::Result<(f64, f64)> {
    if wrapper.words.is_empty() {
        return Ok((0.0, 0.0));
    }
    let mut child = start(wrapper, "wait")?;
    line(&mut child)?;
    thread::sleep(SETTLE);
    let resident = resident(child.id())?;
    // Only ours is held to it.
    let wakes = if wrapper.name == "adieu run" {
        let before = switches(child.id())?;
        thread::sleep(IDLE);
        switches(child.id())? - before
    } else {
        0.0
    };
    // Its command ends with its input.
    drop(child.stdin.take());
    child.wait()?;
    Ok((resident, wakes))
}

fn resident(process: u32) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kibibytes
        .map(|number| number * 1024.0)
        .ok_or_else(|| io::Error::other("no VmRSS"))
}

/// Context switches of all threads so far.
fn switches(process: u32) -> io::Result<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        let counts = status.lines().filter_map(|line| {
            line.split_once("ctxt_switches:")?
                .1
                .trim()
                .parse::<f64>()
                .ok()
        });
        sum += counts.sum::<f64>();
    }
    Ok(sum)
}
