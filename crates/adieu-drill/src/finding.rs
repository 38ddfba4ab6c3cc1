//! What one try of a check found.

use crate::report::Outcome;

/// What one try of a check found.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) outcome: Outcome,
    pub(crate) reason: String,
    pub(crate) evidence: Vec<String>,
    pub(crate) measured: Option<String>,
    /// Whether the judgement rests on how long something took, so that a starved drill cannot make it.
    pub(crate) by_time: bool,
    /// How to mend it, if not as the check says.
    pub(crate) advice: Option<String>,
}

impl Finding {
    fn new(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            reason: reason.into(),
            evidence: Vec::new(),
            measured: None,
            by_time: false,
            advice: None,
        }
    }

    pub(crate) fn passed(reason: impl Into<String>) -> Self {
        Self::new(Outcome::Passed, reason)
    }

    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::new(Outcome::Failed, reason)
    }

    /// Failed because something took too long.
    pub(crate) fn late(reason: impl Into<String>) -> Self {
        let mut finding = Self::failed(reason);
        finding.by_time = true;
        finding
    }

    /// Passed all the same, because so much may be lost.
    pub(crate) fn allowed(mut self) -> Self {
        self.outcome = Outcome::Passed;
        self.reason.push_str(", as the threshold allows");
        self
    }

    pub(crate) fn skipped(reason: impl Into<String>) -> Self {
        Self::new(Outcome::Skipped, reason)
    }

    /// With advice of its own.
    pub(crate) fn advising(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Adds what shows it.
    pub(crate) fn shown(mut self, evidence: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.evidence.extend(evidence.into_iter().map(Into::into));
        self
    }

    pub(crate) fn measured(mut self, measured: impl Into<String>) -> Self {
        self.measured = Some(measured.into());
        self
    }
}
