//! Times and foreign text, as they may be shown.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use crate::report::{Phase, Recommendation};

/// `17 µs`, `2.4 ms`, `312 ms`, `1.40 s`, `2 min 5 s`.
pub(crate) fn micros(us: i64) -> String {
    let (sign, us) = if us < 0 {
        ("−", us.unsigned_abs())
    } else {
        ("", us.unsigned_abs())
    };
    let value = us as f64;
    match us {
        0 => "0 ms".to_owned(),
        1..1_000 => format!("{sign}{us} µs"),
        1_000..9_950 => format!("{sign}{:.1} ms", value / 1e3),
        9_950..999_500 => format!("{sign}{:.0} ms", value / 1e3),
        999_500..9_995_000 => format!("{sign}{:.2} s", value / 1e6),
        9_995_000..99_950_000 => format!("{sign}{:.1} s", value / 1e6),
        _ => {
            let seconds = us / 1_000_000;
            format!("{sign}{} min {} s", seconds / 60, seconds % 60)
        }
    }
}

/// A duration from milliseconds.
pub(crate) fn millis(ms: f64) -> String {
    micros((ms * 1e3).round() as i64)
}

/// `, in hung-handler`: where the slowest stop was seen, if a check saw it.
pub(crate) fn seen_by(advice: &Recommendation) -> String {
    let check = advice.worst_check.as_deref().map(tame);
    check.map_or_else(String::new, |check| format!(", in {check}"))
}

/// `; 2 other stops had no end, ...`: what no grace period is long enough for, if there was any.
pub(crate) fn endless(advice: &Recommendation) -> String {
    if advice.endless == 0 {
        return String::new();
    }
    let stops = usize::try_from(advice.endless).unwrap_or(usize::MAX);
    format!(
        "; {} had no end, and no grace period is long enough for that",
        count(stops, "other", "others")
    )
}

/// The columns of the table of a roll-out's phases.
pub(crate) const ROLLOUT_COLUMNS: [&str; 8] = [
    "requests", "answered", "lost", "refused", "5xx", "p50", "p99", "slowest",
];

/// The numbers of a phase, in the order of [`ROLLOUT_COLUMNS`].
pub(crate) fn rollout_cells(phase: &Phase) -> [String; 8] {
    let totals = &phase.totals;
    [
        thousands(totals.all()),
        thousands(totals.answered),
        thousands(totals.lost),
        thousands(totals.refused),
        thousands(totals.errors),
        millis(phase.p50_ms),
        millis(phase.p99_ms),
        millis(phase.max_ms),
    ]
}

/// Text that others wrote, on one line and unable to do anything to a terminal: what controls it, or turns the
/// direction of writing around, is spelled out.
pub(crate) fn tame(text: &str) -> String {
    let mut tamed = String::with_capacity(text.len());
    for found in text.chars() {
        let turns = matches!(found, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if found.is_control() || turns || matches!(found, '\u{2028}' | '\u{2029}') {
            let _ = write!(tamed, "{}", found.escape_default());
        } else {
            tamed.push(found);
        }
    }
    tamed
}

/// Words on lines of at most `width` columns; a longer word has a line of its own.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// At most so many columns; what is missing is marked.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for found in text.chars() {
        short.push(found);
        if short.width() >= width {
            short.pop();
            break;
        }
    }
    short.push('…');
    short
}

/// `1 check`, `2 checks`.
pub(crate) fn count(number: usize, one: &str, several: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{} {several}", thousands(number as u64))
    }
}

/// `12,345`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_digits_that_matter() {
        let times = [
            0,
            17,
            999,
            1_000,
            9_949,
            9_950,
            312_400,
            999_499,
            999_500,
            9_994_999,
            9_995_000,
            99_949_999,
            99_950_000,
            125_000_000,
            -2_400,
        ];
        assert_eq!(
            times.map(micros),
            [
                "0 ms",
                "17 µs",
                "999 µs",
                "1.0 ms",
                "9.9 ms",
                "10 ms",
                "312 ms",
                "999 ms",
                "1.00 s",
                "9.99 s",
                "10.0 s",
                "99.9 s",
                "1 min 39 s",
                "2 min 5 s",
                "−2.4 ms"
            ]
        );
        // The greatest that fits does no harm.
        assert!(micros(i64::MIN).starts_with('−'));
    }

    #[test]
    fn an_escape_sequence_is_seen_and_not_obeyed() {
        assert_eq!(
            tame("a\x1b[31mb\r\nc\u{202e}d\u{9b}"),
            "a\\u{1b}[31mb\\r\\nc\\u{202e}d\\u{9b}"
        );
        assert_eq!(tame("ordinary – text ✓"), "ordinary – text ✓");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable a", 4), ["unbreakable", "a"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn what_is_cut_is_marked() {
        assert_eq!([cut("short", 5), cut("longer", 5)], ["short", "long…"]);
        assert_eq!(cut("日本語", 4), "日…");
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 12_345, 1_234_567].map(thousands),
            ["0", "999", "1,000", "12,345", "1,234,567"]
        );
    }
}
