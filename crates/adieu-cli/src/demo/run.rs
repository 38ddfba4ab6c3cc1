//! From the arguments to the exit code.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use adieu_drill::report::Level;
use adieu_drill::{Drill, file, render};

use super::args::DemoArgs;
use super::service;
use crate::drill::{NoReport, ending, run_drill, runtime};
use crate::output::{self, ExitKind};
use crate::ui;

/// Runs the command.
pub(crate) fn run(args: &DemoArgs) -> ExitCode {
    if let (Some(port), Some(admin)) = (args.serve, args.admin) {
        return service::serve(port, admin);
    }
    #[cfg(target_os = "linux")]
    if args.serve_counter {
        return super::deploys::serve();
    }
    let shown = match args.deploys {
        Some(count) => show_deploys(count, &args.html),
        None => demo(&args.html),
    };
    match shown {
        Ok(ending) => ending.into(),
        Err(code) => code,
    }
}

fn usage(problem: String) -> ExitCode {
    output::error(problem);
    ExitCode::from(ExitKind::Usage)
}

/// Whether the page can be written, said before anything is started.
fn check_page(page: &Path) -> Result<(), ExitCode> {
    may_replace(page).map_err(usage)?;
    file::check_writable(page).map_err(|error| usage(error.to_string()))
}

#[cfg(target_os = "linux")]
fn show_deploys(count: u32, page: &Path) -> Result<ExitKind, ExitCode> {
    check_page(page)?;
    super::deploys::run(count, page).map_err(|why| {
        output::error(why);
        ExitCode::from(ExitKind::Findings)
    })
}

#[cfg(not(target_os = "linux"))]
fn show_deploys(_: u32, _: &Path) -> Result<ExitKind, ExitCode> {
    let why =
        "connections move to a new process on Linux only; `adieu demo` without --deploys runs here";
    Err(usage(why.to_owned()))
}

fn demo(page: &Path) -> Result<ExitKind, ExitCode> {
    check_page(page)?;
    let program = env::current_exe().map_err(|error| {
        usage(format!(
            "cannot determine the path of the adieu executable: {error}"
        ))
    })?;
    output::note(
        "starting a service built into this program, putting load on it, and stopping it again and again",
    );
    let held = runtime().and_then(|runtime| run_drill(&runtime, drill(&program)));
    let mut report = held.map_err(NoReport::say)?;
    // The report does not show where this program is installed.
    "adieu".clone_into(&mut report.target.command[0]);
    let told = output::print(&render::text(&report, ui::style()));
    // The page can be written though standard output cannot.
    file::write(page, render::html(&report).as_bytes())
        .map_err(|error| usage(error.to_string()))?;
    told.map_err(usage)?;
    output::note(format!(
        "the whole report, for a browser: {}",
        page.display()
    ));
    Ok(ending(report.verdict))
}

fn drill(program: &Path) -> Drill {
    let program = program.display().to_string();
    let words = ["demo", "--serve", "{port}", "--admin", "{port2}"].map(str::to_owned);
    Drill::command([program].into_iter().chain(words))
        .name("the flagship service")
        .alone()
        .http("http://127.0.0.1:{port}/orders")
        .slow("/slow?ms={ms}")
        .stream("/stream")
        .large("/large")
        .sse("/sse")
        .ws("/ws")
        .upload("/upload")
        .readiness("http://127.0.0.1:{port2}/readyz")
        .liveness("http://127.0.0.1:{port2}/livez")
        .level(Level::Quick)
}

/// A file that a demo did not write is not ours to replace.
fn may_replace(page: &Path) -> Result<(), String> {
    let mut beginning = Vec::new();
    match File::open(page).and_then(|file| file.take(2_048).read_to_end(&mut beginning)) {
        Ok(_) if !page.is_file() || render::is_report(&String::from_utf8_lossy(&beginning)) => {
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // The write says that it is a directory.
        Err(_) if page.is_dir() => Ok(()),
        Ok(_) | Err(_) => Err(format!(
            "{} exists and is not a drill report, so it is left alone; name another with --html FILE",
            page.display()
        )),
    }
}
