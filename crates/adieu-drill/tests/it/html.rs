//! The page, as text.

use adieu_drill::render::{html, html_of_all, is_report};
use adieu_drill::report::Fate;

use crate::sample;

/// What an attacker would put into a path, a name, a line of output.
const BREAK_OUT: &str =
    "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&\u{2028}";

#[test]
fn the_parts_of_a_failure_are_all_there() {
    let mut report = sample::failing();
    report.target_report = Some(sample::own_report());
    report.target_report_stop = Some(0);
    let page = html(&report);
    for expected in [
        "id=\"check-listener-refuses\"",
        "no byte in 5.00 s",
        "uvicorn: run it with --timeout-graceful-shutdown.",
        "terminationGracePeriodSeconds: 5",
        "stop_grace_period: 5s",
        "TimeoutStopSec=5s",
        "A request counts as lost only if",
        "short of processor time",
        "What web says of its stop",
        "accept queue drained",
        "GET /slow?ms=100",
    ] {
        assert!(page.contains(expected), "no {expected}");
    }
    assert!(is_report(&page));
    assert!(!is_report("<!DOCTYPE html><title>another page</title>"));
}

#[test]
fn nothing_is_fetched_from_anywhere() {
    let page = html(&sample::failing());
    for outside in [
        "src=", "<link", "@import", "url(", "fetch(", "XMLHttp", "https:",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
}

#[test]
fn no_text_of_the_target_becomes_markup() {
    let mut report = sample::failing();
    report.target.name = BREAK_OUT.to_owned();
    report.target.command = vec![BREAK_OUT.to_owned()];
    report.target.address = BREAK_OUT.to_owned();
    report.started = BREAK_OUT.to_owned();
    report.tool = BREAK_OUT.to_owned();
    report.definition = BREAK_OUT.to_owned();
    for check in &mut report.checks {
        for field in [&mut check.id, &mut check.why, &mut check.reason] {
            *field = BREAK_OUT.to_owned();
        }
        check.evidence = vec![BREAK_OUT.to_owned()];
        check.hint = Some(BREAK_OUT.to_owned());
        check.measured = Some(BREAK_OUT.to_owned());
        check.threshold = Some(BREAK_OUT.to_owned());
    }
    for stop in &mut report.stops {
        stop.check = BREAK_OUT.to_owned();
        for mark in &mut stop.marks {
            mark.label = BREAK_OUT.to_owned();
        }
        for bar in &mut stop.requests {
            bar.label = BREAK_OUT.to_owned();
            bar.fate = Fate::Reset;
        }
    }
    let mut own = sample::own_report();
    for field in ["service", "cause", "exit_code"] {
        own[field] = BREAK_OUT.into();
    }
    own["phases"][0]["phase"] = BREAK_OUT.into();
    own["parts"][0]["name"] = BREAK_OUT.into();
    own["parts"][0]["notes"][0] = BREAK_OUT.into();
    own["timeline"][1]["part"] = BREAK_OUT.into();
    report.target_report = Some(own);
    report.target_report_stop = Some(0);
    let page = html(&report);
    assert_eq!(
        page.matches("<script").count(),
        2,
        "the data and the one script"
    );
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img"), "no element but ours");
    assert!(!page.contains('\u{2028}') || page.contains("\\u2028"));
}

#[test]
fn ten_thousand_requests_are_a_page_of_less_than_a_megabyte() {
    let mut report = sample::passing();
    report.stops = vec![sample::stop(500, 20)];
    assert!(html(&report).len() < 1_000_000);
}

/// Each target is a page in a frame, and what it holds cannot leave it.
#[test]
fn several_targets_are_frames_of_one_page() {
    let (mut one, two) = (sample::failing(), sample::passing());
    one.target.name = BREAK_OUT.to_owned();
    let page = html_of_all(&[one.clone(), two]);
    assert!(is_report(&page));
    assert_eq!(page.matches("<iframe ").count(), 2);
    // All markup of a frame is text of an attribute.
    assert_eq!(page.matches("<script").count(), 0);
    assert_eq!(page.matches("<img").count(), 0);
    assert_eq!(html_of_all(&[one.clone()]), html(&one));
}
