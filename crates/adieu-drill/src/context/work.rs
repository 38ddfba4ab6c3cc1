//! Work for a program that takes it from elsewhere than its address: a worker, a bot.
//!
//! One command of the user's gives the running program work and prints what it gave. Another prints what is on the books
//! of the running program. What was given before a stop must be on the books some time after the next start: done in the
//! stop, or kept and done later.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::context::CheckContext;
use crate::error::DrillError;
use crate::finding::Finding;
use crate::process::helper_command;
use crate::running::RunningTarget;
use crate::stop_log::LoadKind;
use crate::threshold::show;

/// How often each entry stands in it: two alike are two.
pub(crate) type Ledger = BTreeMap<String, u64>;

/// How often the ledger is asked whether all is done: nothing tells when it is.
const LEDGER_INTERVAL: Duration = Duration::from_millis(200);

/// What is missing after, and how often.
pub(crate) fn missing<'a>(before: &'a Ledger, after: &Ledger) -> Vec<(&'a str, u64)> {
    let missing = before.iter().map(|(line, count)| {
        let left = after.get(line).copied().unwrap_or_default();
        (line.as_str(), count.saturating_sub(left))
    });
    missing.filter(|(_, count)| *count > 0).collect()
}

fn entries(printed: &str) -> Ledger {
    let lines = printed.lines().map(str::trim_end);
    let mut ledger = Ledger::new();
    for line in lines.filter(|line| !line.is_empty()) {
        *ledger.entry(line.to_owned()).or_default() += 1;
    }
    ledger
}

impl CheckContext<'_> {
    /// Whether the program can be given work, and what became of it can be seen.
    pub(crate) const fn can_feed(&self) -> bool {
        self.drill.feed.is_some() && self.drill.ledger.is_some()
    }

    /// What is on the books of the running program.
    pub(crate) async fn ledger(&self, run: &RunningTarget) -> Result<Ledger, String> {
        let command = self.drill.ledger.as_deref().unwrap_or_default();
        let command = run.process.placeholders.fill(command);
        Ok(entries(&helper_command::run(&command, self.cwd()).await?))
    }

    /// Gives the running program work, and a moment to begin with it. Empty if there is no command for it.
    pub(crate) async fn feed(&mut self, run: &RunningTarget) -> Result<Ledger, Finding> {
        let Some(command) = self.drill.feed.as_ref().filter(|_| self.can_feed()) else {
            return Ok(Ledger::new());
        };
        let command = run.process.placeholders.fill(command);
        let printed = helper_command::run(&command, self.cwd()).await;
        let given = match printed {
            Ok(printed) => entries(&printed),
            Err(why) => {
                let why = format!("the program could not be given work: --feed {why}");
                return Err(Finding::skipped(why));
            }
        };
        if given.is_empty() {
            return Err(Finding::skipped(
                "the --feed command printed nothing: it must print what it gave, an entry a line, as the ledger has it",
            ));
        }
        sleep(Duration::from_millis(self.rng.u64(200..500))).await;
        Ok(given)
    }

    /// Starts the program again, and says what of this is not on its books after all the time that a stop may take.
    pub(crate) async fn undone(&self, given: &Ledger) -> Result<Vec<String>, DrillError> {
        let again = self.start().await?;
        let begun = Instant::now();
        loop {
            let after = self.ledger(&again).await;
            let missing = match &after {
                Ok(after) => missing(given, after),
                Err(_) => missing(given, &Ledger::new()),
            };
            if missing.is_empty() {
                return Ok(Vec::new());
            }
            if begun.elapsed() > self.drill.grace {
                let mut told: Vec<String> = missing
                    .iter()
                    .map(|(line, _)| format!("given before the stop, and not done: {line}"))
                    .collect();
                told.extend(
                    after
                        .err()
                        .map(|why| format!("the ledger cannot be read: {why}")),
                );
                return Ok(told);
            }
            sleep(LEDGER_INTERVAL).await;
        }
    }

    /// The work in flight at a single stop, for a program that has no slow path.
    pub(crate) async fn work_in_hand(&mut self) -> Result<Finding, DrillError> {
        let run = self.start().await?;
        let given = match self.feed(&run).await {
            Ok(given) => given,
            Err(finding) => return Ok(finding),
        };
        let signal = run.stop();
        if self.see_end(&run, signal, LoadKind::Work).await.is_none() {
            return Ok(self.killed(&run, LoadKind::Work));
        }
        let lines = run.last_lines(3);
        run.process.kill().await;
        let undone = self.undone(&given).await?;
        let total: u64 = given.values().sum();
        let lost = undone.len();
        let measured = format!("{lost} of {total} lost");
        if lost as u64 > self.threshold.count() {
            return Ok(Finding::failed(format!(
                "{lost} of {total} entries that it was given before the stop are not done {} after a restart",
                show(self.drill.grace)
            ))
            .shown(undone)
            .shown(lines)
            .measured(measured));
        }
        Ok(Finding::passed(format!(
            "all {total} entries that it was given before the stop are done after a restart"
        ))
        .measured(measured))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_entries_alike_are_two() {
        let before = entries("a\nb\n\na \n");
        assert_eq!(missing(&before, &entries("b\na\nc\n")), [("a", 1)]);
        assert_eq!(missing(&before, &entries("b\na\na\n")), []);
    }
}
