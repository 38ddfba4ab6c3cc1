//! Pull requests of our own, because a request cannot be taken back, and a job that is sent in answer to one whose
//! subscriber is gone waits for the end of its lease.
//!
//! A request that waits is answered once: by a job, by the server's status that there is none, or by a message of our
//! own. The subscription for it ends with the first message, at the server, where the order of messages is decided. So
//! a wait can be as long as we like, and be given up at any moment without a job lost on the way.

use std::time::Duration;

use adieu_core::{BoxError, ShutdownSignal, Winner, race};
use async_nats::jetstream::{self, Context, Message};
use async_nats::{Client, StatusCode, Subscriber};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How long a request waits at the server before it is made anew. One that is lost with its server is made anew when the
/// connection is; this is for whatever else may happen.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long the first one waits on a new connection: a server that has just come back may not know its streams yet.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// An answer that takes longer is none.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks one consumer for jobs.
#[derive(Clone)]
pub(super) struct Puller {
    client: Client,
    context: Context,
    subject: String,
    /// When the connection was made. Changes with every new one: what was asked over the old one may be forgotten.
    connected: watch::Receiver<Instant>,
}

/// What came in answer to a request.
enum PullAnswer {
    Job(Box<Message>),
    /// There is none, or none any more.
    Over,
    /// The connection is a new one.
    Reconnected,
}

impl Puller {
    pub(super) fn new(
        client: Client,
        context: Context,
        (stream, consumer): (&str, &str),
        connected: watch::Receiver<Instant>,
    ) -> Self {
        Self {
            client,
            context,
            subject: format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"),
            connected,
        }
    }

    /// What is there, at most so many.
    pub(super) async fn take(&self, most: usize) -> Result<Vec<Message>, BoxError> {
        let request = format!(r#"{{"batch":{most},"no_wait":true}}"#);
        let (mut answers, mut connections, _) = self.ask(request, None).await?;
        let mut jobs = Vec::new();
        while jobs.len() < most {
            let word = timeout(ANSWER_TIMEOUT, self.next(&mut answers, &mut connections)).await;
            match word.map_err(BoxError::from).flatten() {
                Ok(PullAnswer::Job(job)) => jobs.push(*job),
                Ok(PullAnswer::Over | PullAnswer::Reconnected) => break,
                // What came before it is ours all the same.
                Err(_) if !jobs.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(jobs)
    }

    /// Waits for one job; none, if the service stops or it is time to ask anew.
    pub(super) async fn wait(
        &self,
        stop: &dyn ShutdownSignal,
    ) -> Result<Option<Message>, BoxError> {
        let turn = turn(self.connected.borrow().elapsed());
        let request = format!(r#"{{"batch":1,"expires":{}}}"#, turn.as_nanos());
        let (mut answers, mut connections, inbox) = self.ask(request, Some(1)).await?;
        // A server that has forgotten the request does not say when it is over either.
        let next = timeout(
            turn + SHORTEST_WAIT,
            self.next(&mut answers, &mut connections),
        );
        match stop.until(next).await.and_then(Result::ok).transpose()? {
            Some(PullAnswer::Job(job)) => return Ok(Some(*job)),
            Some(PullAnswer::Over) => return Ok(None),
            // It is not wanted any more, or may be forgotten; or a job is on its way.
            Some(PullAnswer::Reconnected) | None => {}
        }
        self.client.publish(inbox, Vec::new().into()).await?;
        let last = timeout(ANSWER_TIMEOUT, answers.next()).await?;
        // Our own word has nowhere to answer to.
        let job = last.filter(|word| word.status.is_none() && word.reply.is_some());
        Ok(job.map(|message| self.job(message)))
    }

    /// Sends a request; the answers end by themselves after so many.
    async fn ask(
        &self,
        request: String,
        answers: Option<u64>,
    ) -> Result<(Subscriber, watch::Receiver<Instant>, String), BoxError> {
        let mut connections = self.connected.clone();
        connections.mark_unchanged();
        let inbox = self.client.new_inbox();
        let mut subscriber = self.client.subscribe(inbox.clone()).await?;
        if let Some(answers) = answers {
            subscriber.unsubscribe_after(answers).await?;
        }
        let (subject, reply) = (self.subject.clone(), inbox.clone());
        self.client
            .publish_with_reply(subject, reply, request.into())
            .await?;
        Ok((subscriber, connections, inbox))
    }

    async fn next(
        &self,
        answers: &mut Subscriber,
        connections: &mut watch::Receiver<Instant>,
    ) -> Result<PullAnswer, BoxError> {
        let message = match race(answers.next(), connections.changed()).await {
            Winner::First(Some(message)) => message,
            Winner::First(None) => return Err("the connection is closed".into()),
            Winner::Second(_) => return Ok(PullAnswer::Reconnected),
        };
        match message.status {
            None | Some(StatusCode::OK) => Ok(PullAnswer::Job(Box::new(self.job(message)))),
            Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => Ok(PullAnswer::Over),
            Some(status) => {
                let why = message.description.unwrap_or_default();
                Err(format!("the server says {status}: {why}").into())
            }
        }
    }

    fn job(&self, message: async_nats::Message) -> Message {
        jetstream::Message {
            message,
            context: self.context.clone(),
        }
    }
}

/// The longer a connection lasts, the longer a request on it may wait.
fn turn(connected: Duration) -> Duration {
    connected.clamp(SHORTEST_WAIT, LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_young_connection_is_not_trusted_for_long() {
        for (age, seconds) in [(0, 1), (1, 1), (2, 2), (7, 7), (60, 60), (3_600, 60)] {
            assert_eq!(turn(Duration::from_secs(age)).as_secs(), seconds);
        }
    }
}
