//! What was not answered well, told by what became of it and when.

use std::time::Duration;

use adieu_load::{NumberedRequest, Outcome};

use super::phases::Events;
use crate::threshold::show;

/// Failures of one kind that are further apart are two.
const SEPARATE_AFTER: Duration = Duration::from_millis(500);
/// So many are listed.
const MOST: usize = 12;

/// A sentence for each group of failures alike, in order of time.
pub(super) fn told(requests: &[NumberedRequest], events: &Events) -> Vec<String> {
    let mut bad: Vec<&NumberedRequest> = requests.iter().filter(|it| !it.is_good()).collect();
    bad.sort_by_key(|request| request.ended);
    let mut groups: Vec<Vec<&NumberedRequest>> = Vec::new();
    for request in bad {
        let fitting = groups.iter_mut().rev().find(|group| {
            let last = group[group.len() - 1];
            kind(last.outcome) == kind(request.outcome)
                && request.ended - last.ended < SEPARATE_AFTER
        });
        match fitting {
            Some(group) => group.push(request),
            None => groups.push(vec![request]),
        }
    }
    let more = groups.len().saturating_sub(MOST);
    let mut told: Vec<String> = groups
        .iter()
        .take(MOST)
        .map(|group| tell(group, events))
        .collect();
    if more > 0 {
        told.push(format!("and {more} more groups of failures"));
    }
    told
}

/// All answers that blame the server are of one kind, but for their status.
const fn kind(outcome: Outcome) -> (u8, u16) {
    match outcome {
        Outcome::Answered => (0, 0),
        Outcome::Failed(status) => (1, status),
        Outcome::Retry => (2, 0),
        Outcome::Refused => (3, 0),
        Outcome::Unsent => (4, 0),
        Outcome::Lost(loss) => (5, loss as u16),
    }
}

fn tell(group: &[&NumberedRequest], events: &Events) -> String {
    let (first, last) = (group[0], group[group.len() - 1]);
    let count: u64 = group.iter().map(|request| u64::from(request.weight)).sum();
    let what = match first.outcome {
        Outcome::Failed(status) => format!("answered {status}"),
        other => other.to_string(),
    };
    let from = events.ms(first.ended) / 1_000.0;
    let when = match count {
        1 => format!("at {from:.2} s"),
        _ => format!(
            "from {from:.2} s to {:.2} s",
            events.ms(last.ended) / 1_000.0
        ),
    };
    let requests = if count == 1 { "request" } else { "requests" };
    let mut told = format!(
        "{count} {requests} {what}, {when}, {}",
        events.before(first.ended)
    );
    if matches!(first.outcome, Outcome::Lost(_)) {
        let kept = group.iter().filter(|request| request.earlier > 0).count();
        told.push_str(&match kept {
            0 => ", on new connections".to_owned(),
            kept if kept == group.len() => ", on keep-alive connections".to_owned(),
            kept => format!(", {kept} of them on keep-alive connections"),
        });
        let open = last.ended - last.began;
        told.push_str(&format!("; the last was open for {}", show(open)));
    }
    told.push_str(&format!("; x-request-id ends with {:010}", first.number));
    if let Some(evidence) = &first.evidence {
        told.push_str(&format!(" ({evidence})"));
    }
    told
}
