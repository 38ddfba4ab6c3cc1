//! What a drill of workers looks like as text, which is also what the page of the guide shows.

use adieu_drill::render::{self, Style};
use adieu_drill::report::{Check, Group, JobsReport, JobsStop, Level, Outcome, Report, Target};

const PAGE: &str = include_str!("../../../../docs/drill-jobs.md");

fn check(id: &str, outcome: Outcome, reason: &str, evidence: &[&str]) -> Check {
    let found = adieu_drill::find_check(id).expect("a check of workers");
    Check {
        id: id.to_owned(),
        group: Group::Jobs,
        why: found.why().to_owned(),
        outcome,
        reason: reason.to_owned(),
        evidence: evidence.iter().map(|&line| line.to_owned()).collect(),
        threshold: None,
        measured: None,
        hint: None,
        duration_ms: if id == "jobs-lost" { 21_400 } else { 0 },
        repeats: 4,
    }
}

fn stop(worker: &str, signal: &str, at_ms: f64, took_ms: f64, counts: [u64; 3]) -> JobsStop {
    let end = match signal {
        "SIGKILL" => "ended by SIGKILL",
        _ => "exit code 0",
    };
    let [left, in_flight, finished] = counts;
    JobsStop {
        worker: worker.to_owned(),
        signal: signal.to_owned(),
        at_ms,
        took_ms,
        end: end.to_owned(),
        left,
        in_flight: Some(in_flight),
        finished: Some(finished),
    }
}

pub(crate) fn sample() -> Report {
    let target = Target {
        name: "worker".to_owned(),
        command: ["python3", "worker.py"].map(str::to_owned).to_vec(),
        address: String::new(),
    };
    let mut report = Report::new(target, 7, Level::Default);
    report.definition = "A job counts as lost only if its --enqueue command ended with 0 and the ledger never had it as done."
        .to_owned();
    report.checks = vec![
        check(
            "jobs-lost",
            Outcome::Failed,
            "2 of 200 jobs lost over 4 stops; nothing more was done for 8.00 s",
            &[
                "never done: 61, 118",
                "w2-1 had begun job 61 when it got the stop signal",
                "w1-1 had begun job 118 when it got SIGKILL",
            ],
        ),
        check(
            "jobs-twice",
            Outcome::Passed,
            "0 of 200 jobs done more than once over 4 stops",
            &[],
        ),
        check(
            "jobs-in-flight",
            Outcome::Failed,
            "1 of 2 jobs in flight at the stop signal were finished by their worker",
            &["w2-1 ended 31 ms after the stop signal without job 61"],
        ),
        check(
            "jobs-two-at-once",
            Outcome::Passed,
            "0 times a job was begun while another worker was at it",
            &[],
        ),
        check(
            "jobs-wait",
            Outcome::Skipped,
            "no job of a stopped worker was begun again",
            &[],
        ),
        check(
            "jobs-exit",
            Outcome::Passed,
            "each of 2 stopped workers ended by itself, the slowest after 48 ms",
            &[],
        ),
    ];
    report.jobs = Some(JobsReport {
        enqueue: "python3 enqueue.py {from} {to}".to_owned(),
        done: "python3 done.py".to_owned(),
        asked: 200,
        workers: 2,
        lease_ms: 2_000.0,
        lost: 2,
        twice: 0,
        again_after_kill: 0,
        followed: true,
        longest_wait_ms: None,
        ended_alone: Vec::new(),
        stops: vec![
            stop("w2-1", "SIGTERM", 1_310.0, 31.0, [27, 1, 0]),
            stop("w1-1", "SIGKILL", 2_050.0, 4.1, [33, 1, 0]),
            stop("w1-2", "SIGTERM", 3_402.0, 48.0, [12, 1, 1]),
            stop("w2-2", "SIGKILL", 4_275.0, 3.9, [20, 0, 0]),
        ],
    });
    report.duration_ms = 21_400;
    report.judge();
    report
}

#[test]
fn the_page_of_the_guide_shows_what_is_printed() {
    let text = render::text(&sample(), Style::PLAIN);
    assert!(
        PAGE.contains(text.trim_end()),
        "docs/drill-jobs.md must show this:\n{text}"
    );
}

#[test]
fn it_is_whole_in_json_and_told_on_the_page_for_a_browser() {
    let report = sample();
    let again = Report::from_json(&report.to_json()).expect("it reads what it writes");
    assert_eq!(again, report);
    let page = render::html(&report);
    assert!(page.contains("Stops of workers"), "no section");
    assert!(page.contains("ended by SIGKILL") && page.contains("done.py"));
    assert!(
        !page.contains("Refused connections"),
        "jobs are no requests"
    );
}

/// What a worker or a user calls itself cannot write to a terminal or a page.
#[test]
fn foreign_text_is_tamed() {
    let mut report = sample();
    if let Some(jobs) = &mut report.jobs {
        jobs.stops[0].worker = "\u{1b}[31m<b>".to_owned();
        jobs.done = "<script>".to_owned();
        jobs.ended_alone = vec!["<i>".to_owned()];
    }
    let text = render::text(&report, Style::PLAIN);
    assert!(text.contains("\\u{1b}[31m") && !text.contains('\u{1b}'));
    assert!(text.contains("1 end of a worker by itself"));
    let page = render::html(&report);
    assert!(page.contains("&lt;script&gt;") && page.contains("&lt;i&gt;") && !page.contains("<i>"));
}

#[test]
fn of_many_stops_the_first_are_listed() {
    let mut report = sample();
    if let Some(jobs) = &mut report.jobs {
        let one = jobs.stops[0].clone();
        jobs.stops = vec![one; 50];
    }
    let text = render::text(&report, Style::PLAIN);
    assert!(
        text.contains("and 30 other stops, in the HTML report"),
        "{text}"
    );
    assert_eq!(render::html(&report).matches("<td>w2-1</td>").count(), 50);
}
