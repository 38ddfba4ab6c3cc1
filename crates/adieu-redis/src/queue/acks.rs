//! Jobs that are done at the same time are acknowledged together: one script takes them all away, where each by itself
//! would be a script of its own, and as many entries in the server's log.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{ErrorKind, RedisError, RedisResult};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::GroupConsumer;
use super::scripts::ACK;

/// As many as Lua takes as arguments of one call, with room to spare.
const MAX_BATCH: usize = 1_000;

/// What is done and not yet sent.
#[derive(Default)]
pub(super) struct Acks {
    waiting: Mutex<Vec<Ack>>,
}

struct Ack {
    id: Arc<str>,
    answer: oneshot::Sender<RedisResult<bool>>,
}

impl Acks {
    /// Whether the job was still ours, and is gone now. Dropped half-way, it is acknowledged all the same.
    pub(super) async fn add(
        self: &Arc<Self>,
        job: &Arc<str>,
        consumer: &GroupConsumer,
    ) -> RedisResult<bool> {
        let (answer, answered) = oneshot::channel();
        let id = Arc::clone(job);
        if self.put(Ack { id, answer }) {
            // A task, because the first may be dropped and the others not. It ends with the answer, for which the
            // connection has its own limit.
            tokio::spawn(send(Arc::clone(self), consumer.clone()));
        }
        let gone = |_| RedisError::from((ErrorKind::Client, "the runtime ends"));
        answered.await.map_err(gone)?
    }

    /// Whether it is the first, so that the caller has to start the task that sends them.
    fn put(&self, ack: Ack) -> bool {
        let mut waiting = self.waiting();
        waiting.push(ack);
        waiting.len() == 1
    }

    fn take(&self) -> Vec<Ack> {
        mem::take(&mut self.waiting())
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Ack>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn send(acks: Arc<Acks>, consumer: GroupConsumer) {
    // Those whose answers came with the same packet join before it is sent.
    yield_now().await;
    let mut all = acks.take();
    while !all.is_empty() {
        let some: Vec<Ack> = all.drain(..all.len().min(MAX_BATCH)).collect();
        let ids: Vec<&[u8]> = some.iter().map(|ack| ack.id.as_bytes()).collect();
        let answers: RedisResult<Vec<bool>> = consumer.run(&ACK, &[], &ids).await;
        for (nth, ack) in some.into_iter().enumerate() {
            let answer = match &answers {
                Ok(answers) => Ok(answers.get(nth).is_some_and(|held| *held)),
                Err(error) => Err(error.clone()),
            };
            // A caller that was dropped does not need the answer.
            let _ = ack.answer.send(answer);
        }
    }
}
