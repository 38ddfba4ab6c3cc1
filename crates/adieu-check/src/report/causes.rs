//! Where findings meet: the call at the end of many ways.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::check::Outcome;
use crate::finding::{Finding, Place};
use crate::rule::Code;

/// A call that several findings end at. Mending it mends them all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The file the call stands in.
    pub path: Arc<str>,
    /// Where in that file.
    pub place: Place,
    /// What is called.
    pub call: String,
    /// How many findings end there.
    pub findings: usize,
}

impl Outcome {
    /// The calls that at least `fewest` findings end at, the most first.
    #[must_use]
    pub fn causes(&self, fewest: usize) -> Vec<Cause> {
        let mut causes: FxHashMap<(Code, &str, Place), Cause> = FxHashMap::default();
        for (code, last) in self.findings.iter().filter_map(end) {
            causes
                .entry((code, &last.path, last.place))
                .or_insert_with(|| Cause {
                    path: Arc::clone(&last.path),
                    place: last.place,
                    call: last.call.clone(),
                    findings: 0,
                })
                .findings += 1;
        }
        let mut causes: Vec<Cause> = causes.into_values().collect();
        causes.retain(|cause| cause.findings >= fewest);
        causes.sort_by(|a, b| {
            let least = (b.findings, &a.path, a.place);
            least.cmp(&(a.findings, &b.path, b.place))
        });
        causes
    }
}

/// The end of a way down through calls.
fn end(finding: &Finding) -> Option<(Code, &crate::finding::Step)> {
    match finding.trace.as_slice() {
        [_, .., last] => Some((finding.code, last)),
        _ => None,
    }
}
