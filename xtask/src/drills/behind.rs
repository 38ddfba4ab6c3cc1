//! `cargo xtask drills behind`: five targets behind a simulated balancer and behind the real one, and whether both lose
//! requests or neither does.

use std::fmt::Write;

use serde::Deserialize;

use super::{fetch, page};
use crate::checkout::Checkout;
use crate::packages::{self, Need};
use crate::step::Failure;

const BALANCERS: [&str; 2] = ["nginx", "haproxy"];
const NEEDS: &[Need] = &[
    Need::debian("python3", "python3-venv", "most targets are in Python"),
    Need::debian("node", "nodejs", "a target"),
    Need::debian("nginx", "nginx-light", "a balancer"),
    Need::debian("haproxy", "haproxy", "a balancer"),
];

/// A program, and what is asked of it.
struct Subject {
    name: &'static str,
    /// The method, and the path with what makes it late.
    request: (&'static str, &'static str),
    command: Vec<String>,
}

#[derive(Deserialize)]
struct Report {
    behind: Behind,
}

#[derive(Deserialize)]
struct Behind {
    runs: Vec<Run>,
}

/// The few fields of a report that the table has.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Run {
    requests: u64,
    lost: u64,
}

impl Run {
    fn words(self) -> String {
        match self.lost {
            0 => format!("none of {}", self.requests),
            lost => format!("**{lost}** of {}", self.requests),
        }
    }
}

/// Drills each target behind each balancer, simulated and real, and writes the table.
pub(super) fn compare(checkout: &Checkout, dev: bool, dry: bool) -> Result<(), Failure> {
    packages::provide(checkout, NEEDS)?;
    let adieu = fetch::adieu(checkout, dev)?;
    let python = fetch::python(checkout)?;
    let mut rows = Vec::new();
    for subject in subjects(
        checkout,
        &adieu.display().to_string(),
        &python.display().to_string(),
    ) {
        for balancer in BALANCERS {
            println!("{} behind {balancer} …", subject.name);
            let run = |profile: &str| drill(checkout, &adieu, &subject, profile);
            let simulated = run(balancer)?;
            let real = run(&format!("{balancer}:real"))?;
            rows.push((subject.name, balancer, simulated, real));
        }
    }
    let text = render(&rows);
    print!("\n{text}");
    if !dry {
        page::write(
            checkout,
            "docs/drill-behind.md",
            "cargo xtask drills behind",
            &text,
        )?;
    }
    Ok(())
}

fn subjects(checkout: &Checkout, adieu: &str, python: &str) -> Vec<Subject> {
    let peers = checkout.root().join("fixtures/peers");
    let place = |path: &str| peers.join(path).display().to_string();
    let late = place("python/without_handler.py");
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let bare = ["python3", &late, "{port}"];
    let subject = |name, request, command| Subject {
        name,
        request,
        command,
    };
    vec![
        subject("no handler for SIGTERM, GET", ("GET", "/"), words(&bare)),
        subject("no handler for SIGTERM, POST", ("POST", "/"), words(&bare)),
        subject(
            "the same under `adieu run --pre-stop 4s`",
            ("POST", "/"),
            words(&[&[adieu, "run", "--pre-stop", "4s", "--"], &bare[..]].concat()),
        ),
        subject(
            "uvicorn, GET",
            ("GET", "/slow?ms=150"),
            words(&[
                &format!("{python}/uvicorn"),
                "asgi:app",
                "--app-dir",
                &place("python"),
                "--no-access-log",
                "--port",
                "{port}",
            ]),
        ),
        subject(
            "node, GET",
            ("GET", "/slow?ms=150"),
            words(&["node", &place("node/server.js"), "{port}"]),
        ),
    ]
}

fn drill(
    checkout: &Checkout,
    adieu: &std::path::Path,
    subject: &Subject,
    profile: &str,
) -> Result<Run, Failure> {
    let (method, path) = subject.request;
    let mut command = checkout.program(adieu);
    command.args(["drill", "--json", "--slim", "--behind", profile]);
    command.args(["--method", method, "--http"]);
    command.arg(format!("http://127.0.0.1:{{port}}{path}"));
    let output = command.arg("--").args(&subject.command).output()?;
    let report: Report = serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::new(format!(
            "{} behind {profile}: {error}: {said}",
            subject.name
        ))
    })?;
    let run = report.behind.runs.first().copied();
    run.ok_or_else(|| Failure::new(format!("{} behind {profile}: no run", subject.name)))
}

fn render(rows: &[(&str, &str, Run, Run)]) -> String {
    let mut out =
        "| target | balancer | simulated | real | agree |\n|---|---|---|---|:-:|\n".to_owned();
    for (name, balancer, simulated, real) in rows {
        let agree = match (simulated.lost == 0) == (real.lost == 0) {
            true => "✓",
            false => "**✗**",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "| {name} | {balancer} | {} | {} | {agree} |",
            simulated.words(),
            real.words()
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_agree_if_both_lose_or_neither_does() {
        let run = |lost| Run {
            requests: 300,
            lost,
        };
        let rows = [
            ("a", "nginx", run(3), run(17)),
            ("b", "haproxy", run(0), run(1)),
        ];
        let expected = "\
| target | balancer | simulated | real | agree |
|---|---|---|---|:-:|
| a | nginx | **3** of 300 | **17** of 300 | ✓ |
| b | haproxy | none of 300 | **1** of 300 | **✗** |
";
        assert_eq!(render(&rows), expected);
    }
}
