//! On a terminal.

use adieu_drill::render::{Style, html, text, timeline};
use adieu_drill::report::{MarkKind, StopTimeline};

use crate::sample;

#[test]
fn a_pass_in_plain_text() {
    insta::assert_snapshot!(text(&sample::passing(), Style::PLAIN));
}

#[test]
fn a_failure_in_plain_text() {
    insta::assert_snapshot!(text(&sample::failing(), Style::PLAIN));
}

#[test]
fn a_failure_in_colour_on_a_narrow_terminal() {
    let style = Style {
        width: 72,
        colour: true,
    };
    // Escapes are spelled out to be read in a review.
    insta::assert_snapshot!(text(&sample::failing(), style).replace('\x1b', "␛"));
}

#[test]
fn without_colour_no_escape_is_written_not_even_the_targets_own() {
    assert!(!text(&sample::failing(), Style::PLAIN).contains('\x1b'));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [60, 72, 100, 140] {
        let style = Style {
            width,
            colour: false,
        };
        let shown = text(&sample::failing(), style);
        // The verdict is one line for grep, whatever the terminal makes of it.
        for line in shown.lines().take_while(|line| !line.starts_with("FAILED")) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

/// The slowest stop is not the one that was killed, so it does not stand alone.
#[test]
fn a_grace_period_says_what_it_is_too_short_for() {
    let mut report = sample::failing();
    let advice = report.recommendation.as_mut().expect("a stop was seen");
    advice.endless = 2;
    let words = "2 others had no end, and no grace period is long enough for that.";
    let told = text(&report, Style::PLAIN).replace('\n', " ");
    assert!(told.contains(words), "{told}");
    assert!(html(&report).contains(words));
}

#[test]
fn a_stop_that_shows_nothing_is_drawn_all_the_same() {
    assert_eq!(
        timeline(&StopTimeline::default(), Style::PLAIN),
        ", stop 0\n"
    );
    let mut stop = sample::stop(0, 0);
    stop.marks.retain(|mark| mark.kind == MarkKind::Signal);
    let drawn = timeline(&stop, Style::PLAIN);
    assert!(drawn.contains("signal           ◆"), "{drawn}");
}

#[test]
fn what_was_left_out_is_counted() {
    let mut stop = sample::stop(1, 2);
    stop.omitted = 1_300;
    let drawn = timeline(&stop, Style::PLAIN);
    assert!(
        drawn.contains("1,302 requests: 2 answered, 1,300 not drawn"),
        "{drawn}"
    );
}

#[test]
fn times_at_the_edge_of_what_fits_do_no_harm() {
    let mut stop = sample::stop(1, 2);
    stop.requests[0].start_us = i64::MIN / 4;
    stop.requests[1].end_us = i64::MAX / 4;
    stop.requests[1].start_us = i64::MAX;
    let drawn = timeline(&stop, Style::PLAIN);
    assert!(drawn.contains("2 requests: 2 answered"), "{drawn}");
    assert!(drawn.contains("signal  "), "{drawn}");
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    assert!(widest(&drawn) <= Some(120), "{drawn}");
    let narrow = Style {
        width: 0,
        colour: true,
    };
    let said = text(&sample::passing(), narrow);
    assert!(said.contains("PASSED"), "{said}");
}
