//! Instructions to spawn and finish a task, counted by callgrind: a ratio that no noise touches.
//!
//! Instructions are not time (a lock costs few and a missed cache line none at all), but a change that adds or
//! saves some shows here to the digit. Each contestant runs twice, with a different number of tasks; the
//! difference leaves out the start and the end of the program.

use std::io;
use std::process::{Command, ExitCode};

use adieu_bench::{Finding, Unit};
use tokio::runtime::{Builder, Handle};
use tokio::task::yield_now;
use tokio_util::task::TaskTracker;

const FEW: u32 = 20_000;
const MANY: u32 = 120_000;
const BATCH: usize = 100;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["contestant", who, tasks] => contestant(who, tasks.parse().expect("a number")),
        _ => match compare() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: cannot count with valgrind, is it installed? {error}");
                ExitCode::from(2)
            }
        },
    }
}

fn compare() -> io::Result<()> {
    let ours = each("ours")?;
    let finding = || Finding::value("count", "spawn to end, 1 thread", Unit::Instructions, ours);
    finding().over("tokio::spawn", each("tokio")?).tell();
    finding().over("TaskTracker", each("tracker")?).tell();
    Ok(())
}

/// Instructions for each task.
fn each(who: &str) -> io::Result<f64> {
    let (few, many) = (count(who, FEW)?, count(who, MANY)?);
    Ok((many - few) / f64::from(MANY - FEW))
}

fn count(who: &str, tasks: u32) -> io::Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["contestant", who, &tasks.to_string()])
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    // ==123== Collected : 123456789
    words
        .lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
        .ok_or_else(|| io::Error::other(words.into_owned()))
}

fn contestant(who: &str, tasks: u32) -> ExitCode {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime can be made");
    // All of them spawn from a task on the worker.
    runtime.block_on(async {
        match who {
            "ours" => ours(tasks).await,
            "tokio" => drop(tokio::spawn(drive(tasks, || tokio::spawn(async {}))).await),
            _ => {
                let tracker = TaskTracker::new();
                let work = drive(tasks, move || tracker.spawn(async {}));
                drop(tokio::spawn(work).await);
            }
        }
    });
    ExitCode::SUCCESS
}

async fn ours(tasks: u32) {
    let report = adieu::scope("bench")
        .run(async |app| {
            app.task("driver", move |stop| async move {
                drive(tasks, || {
                    stop.spawn("job", async {}).expect("nothing is stopping")
                })
                .await;
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
}

/// No code holds a handle, so that nothing but the tasks is counted.
async fn drive<H>(tasks: u32, spawn: impl Fn() -> H) {
    let metrics = Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    for _ in 0..tasks as usize / BATCH {
        (0..BATCH).for_each(|_| drop(spawn()));
        while metrics.num_alive_tasks() > before {
            yield_now().await;
        }
    }
}
