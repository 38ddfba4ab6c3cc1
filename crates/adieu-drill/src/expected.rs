//! What a request was answered with before any stop: what the same one is held against that meets the stop.

use std::fmt;
use std::time::Duration;

use tokio::time::sleep;

use crate::endpoint::Endpoint;
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, Answer, Digest, RawConn};

/// What the same request was answered with, several times, before any stop.
#[derive(Debug)]
pub(crate) struct ExpectedResponse {
    status: u16,
    body: Digest,
    keeps: Keeps,
    numbers: Numbers,
}

/// What a number in an answer is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// A clock or a counter, which may have gone on.
    Tell,
    /// Part of what was asked for.
    Count,
}

/// A clock of whole seconds has moved on after so long.
const CLOCK_TICK: Duration = Duration::from_millis(1_100);

/// Does the same twice before any stop, the second time when a clock in the answer has moved on. They overlap if they
/// take longer than that.
pub(crate) async fn twice<T, E, F>(ask: impl Fn() -> F) -> Result<[T; 2], E>
where
    F: Future<Output = Result<T, E>>,
{
    let later = async {
        sleep(CLOCK_TICK).await;
        ask().await
    };
    let (one, two) = tokio::try_join!(ask(), later)?;
    Ok([one, two])
}

/// What several answers to one request had in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Bytes,
    Length,
    Nothing,
}

/// By so much an answer may differ in length that differs in bytes each time: a number in it has as many digits as it
/// has.
const DIGITS: u64 = 16;

impl ExpectedResponse {
    /// Asks for this place, called so, twice before any stop; or why nothing can be held against what it answers.
    pub(crate) async fn ask(endpoint: &Endpoint, path: &str) -> Result<Self, Finding> {
        let request = endpoint.request();
        let answers = twice(|| RawConn::ask_within(endpoint, &request, ANSWER_TIMEOUT * 3)).await;
        let answers = answers
            .map_err(|broken| Finding::failed(format!("{path} fails before any stop: {broken}")))?;
        if let Some(answer) = answers.iter().find(|answer| answer.head.status >= 400) {
            let status = answer.head.status;
            return Err(Finding::skipped(format!("{path} answers {status}")));
        }
        Self::of(&answers).ok_or_else(|| Finding::skipped("no answer to compare with"))
    }

    /// From at least one answer.
    pub(crate) fn of(answers: &[Answer]) -> Option<Self> {
        let first = answers.first()?;
        let all = |same: fn(&Digest, &Digest) -> bool| {
            answers.iter().all(|other| same(&other.body, &first.body))
        };
        let keeps = if all(|one, two| one == two) {
            Keeps::Bytes
        } else if all(|one, two| one.length == two.length) {
            Keeps::Length
        } else {
            Keeps::Nothing
        };
        Some(Self {
            status: first.head.status,
            body: first.body,
            keeps,
            numbers: Numbers::Tell,
        })
    }

    /// For responses whose numbers are what was asked for, as how many bytes came: a digit that was the same each time
    /// counts.
    pub(crate) const fn counting_numbers(mut self) -> Self {
        self.numbers = Numbers::Count;
        self
    }

    /// What is wrong with an answer that met the stop, if anything is. It had been accepted: to send it elsewhere, as a
    /// 503 does, is too late.
    pub(crate) fn wrong(&self, answer: &Answer) -> Option<String> {
        let status = answer.head.status;
        if is_other(status, self.status) {
            return Some(format!(
                "answered {status}, before the stop {}",
                self.status
            ));
        }
        let kept = match self.keeps {
            Keeps::Bytes => {
                answer.body == self.body || (self.about_as_long(answer) && self.only_tells(answer))
            }
            Keeps::Length => self.about_as_long(answer),
            Keeps::Nothing => true,
        };
        (!kept).then(|| {
            format!(
                "answered with {:?}, before the stop with {:?}",
                answer.body, self.body
            )
        })
    }

    const fn about_as_long(&self, answer: &Answer) -> bool {
        answer.body.length.abs_diff(self.body.length) <= DIGITS
    }

    fn only_tells(&self, answer: &Answer) -> bool {
        self.numbers == Numbers::Tell && answer.body.same_but_numbers(&self.body)
    }

    pub(crate) const fn length(&self) -> u64 {
        self.body.length
    }
}

/// Whether a status says something else than the one before the stop: it is of another class, or blames the server.
pub(crate) const fn is_other(status: u16, before: u16) -> bool {
    status >= 500 || status / 100 != before / 100
}

/// What was compared, to follow `whole`.
impl fmt::Display for ExpectedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.keeps {
            Keeps::Bytes => "and the same as before",
            Keeps::Length => "and as long as before (the bytes differ each time)",
            Keeps::Nothing => "(bytes and length differ each time)",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use adieu_load::{Body, Head};

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        let mut digest = Digest::default();
        digest.add(body.as_bytes());
        Answer {
            head: Head {
                status,
                keep_alive: true,
                body: Body::Length(digest.length),
            },
            text: String::new(),
            body: digest,
        }
    }

    #[test]
    fn a_status_of_another_class_is_wrong_whatever_the_bytes() {
        let reference = ExpectedResponse::of(&[answer(200, "a"), answer(200, "b")]).unwrap();
        for status in [302, 404, 408, 503] {
            assert!(reference.wrong(&answer(status, "a")).is_some(), "{status}");
        }
        assert!(reference.wrong(&answer(201, "c")).is_none());
    }

    /// A clock of minutes stands still for two answers and may move before the third.
    #[test]
    fn a_number_that_goes_on_is_no_loss_unless_it_was_asked_for() {
        let clock = [answer(200, "up 59 s"), answer(200, "up 59 s")];
        let reference = ExpectedResponse::of(&clock).unwrap();
        assert!(reference.wrong(&answer(200, "up 100 s")).is_none());
        assert!(reference.wrong(&answer(200, "up 59 m")).is_some());
        let long = answer(200, &format!("up {} s", "5".repeat(40)));
        assert!(reference.wrong(&long).is_some());
        let strict = ExpectedResponse::of(&clock).unwrap().counting_numbers();
        assert!(strict.wrong(&answer(200, "up 58 s")).is_some());
    }

    #[tokio::test]
    async fn the_second_answer_is_more_than_a_second_younger() {
        let [one, two] = twice(async || Ok::<_, ()>(Instant::now())).await.unwrap();
        assert!(two - one > Duration::from_secs(1));
    }

    #[test]
    fn what_was_the_same_each_time_must_be_the_same() {
        let long = "y".repeat(100);
        let steady = ExpectedResponse::of(&[answer(200, "abc"), answer(200, "abc")]).unwrap();
        assert!(steady.wrong(&answer(200, "abd")).is_some());
        let varies =
            ExpectedResponse::of(&[answer(200, &long), answer(200, &"z".repeat(100))]).unwrap();
        assert!(varies.wrong(&answer(200, &"x".repeat(101))).is_none());
        assert!(varies.wrong(&answer(200, &"x".repeat(50))).is_some());
        let wild = ExpectedResponse::of(&[answer(200, &long), answer(200, "z")]).unwrap();
        assert!(wild.wrong(&answer(200, &"x".repeat(50))).is_none());
        assert!(ExpectedResponse::of(&[]).is_none());
    }
}
