//! What the command of `--done` prints: a line for each job that was done and, if the workers say so, for each that was begun.

use std::fmt::Write as _;

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) job: u64,
    pub(super) step: Step,
    /// Seconds since 1970.
    pub(super) at: Option<f64>,
    /// `ADIEU_DRILL_WORKER` of the worker that wrote it.
    pub(super) worker: Option<String>,
}

/// What happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Start,
    Done,
}

/// Reads all lines. `enqueued` jobs exist, from 1 on.
///
/// # Errors
///
/// With a sentence, if a line is not about one of them.
pub(super) fn read(printed: &str, enqueued: u64) -> Result<Vec<Entry>, String> {
    let lines = printed.lines().map(str::trim);
    let lines = lines
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(at, line)| {
            entry(line, enqueued).map_err(|why| {
                let shown: String = line.chars().take(80).collect();
                format!("line {}, `{}`: {why}", at + 1, shown.escape_debug())
            })
        });
    lines.collect()
}

fn entry(line: &str, enqueued: u64) -> Result<Entry, String> {
    let mut words = line.split_whitespace();
    let job = words.next().unwrap_or_default();
    let job: u64 = job
        .parse()
        .map_err(|_| "it does not begin with the number of a job".to_owned())?;
    if job == 0 || job > enqueued {
        return Err(match enqueued {
            0 => {
                format!("job {job} is done before any job was enqueued; begin with an empty ledger")
            }
            _ => format!("job {job} was never enqueued; there are jobs 1 to {enqueued} so far"),
        });
    }
    let step = match words.next() {
        None | Some("done") => Step::Done,
        Some("start") => Step::Start,
        Some(_) => return Err("after the number comes `done` or `start`".to_owned()),
    };
    let at = words.next().map(|word| {
        let time = word.parse::<f64>().ok().filter(|time| time.is_finite());
        time.ok_or_else(|| {
            format!(
                "`{}` is not a time in seconds since 1970",
                word.escape_debug()
            )
        })
    });
    Ok(Entry {
        job,
        step,
        at: at.transpose()?,
        worker: words.next().map(str::to_owned),
    })
}

/// Numbers in order as a person writes them: `3, 7-9 and 12 more`.
pub(super) fn ranges(numbers: &[u64], most: usize) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let mut text = String::new();
    let mut told = 0;
    for (first, last) in runs.iter().take(most) {
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = match first == last {
            true => write!(text, "{comma}{first}"),
            false => write!(text, "{comma}{first}-{last}"),
        };
        told += last - first + 1;
    }
    let rest = (numbers.len() as u64).saturating_sub(told);
    if rest > 0 {
        let _ = write!(text, " and {rest} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(job: u64) -> Entry {
        Entry {
            job,
            step: Step::Done,
            at: None,
            worker: None,
        }
    }

    #[test]
    fn a_number_alone_is_a_job_that_was_done() {
        assert_eq!(read("3\n\n 1 \n", 3), Ok(vec![done(3), done(1)]));
        assert_eq!(read("", 0), Ok(vec![]));
    }

    #[test]
    fn time_and_worker_are_read_and_what_follows_is_the_programs_own() {
        let entry = |step| Entry {
            job: 2,
            step,
            at: Some(1_700_000_000.25),
            worker: Some("w1-2".to_owned()),
        };
        let read = read(
            "2 start 1700000000.25 w1-2\n2 done 1700000000.25 w1-2 with love\n",
            2,
        );
        assert_eq!(read, Ok(vec![entry(Step::Start), entry(Step::Done)]));
        assert_eq!(super::read("1 done", 1), Ok(vec![done(1)]));
    }

    #[test]
    fn a_line_about_no_job_is_named_with_its_number() {
        for (printed, enqueued, words) in [
            ("1\nhello\n", 1, "line 2, `hello`: it does not begin with"),
            ("0", 4, "job 0 was never enqueued"),
            ("5", 4, "there are jobs 1 to 4 so far"),
            ("5", 0, "before any job was enqueued"),
            ("-1", 4, "does not begin with the number"),
            ("1 failed", 4, "comes `done` or `start`"),
            ("1 done soon", 4, "`soon` is not a time"),
            ("1 done NaN", 4, "`NaN` is not a time"),
            ("99999999999999999999", 4, "does not begin with the number"),
            ("\u{1b}[31m", 4, "`\\u{1b}[31m`"),
        ] {
            let why = read(printed, enqueued).expect_err(printed);
            assert!(why.contains(words), "{why}");
        }
        let long = "x".repeat(10_000);
        assert!(read(&long, 1).expect_err("no number").len() < 200);
    }

    #[test]
    fn numbers_in_a_row_are_a_range() {
        assert_eq!(ranges(&[], 3), "");
        assert_eq!(ranges(&[4], 3), "4");
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10], 9), "1-3, 7, 9-10");
        assert_eq!(ranges(&[1, 3, 5, 6, 9], 2), "1, 3 and 3 more");
    }
}
