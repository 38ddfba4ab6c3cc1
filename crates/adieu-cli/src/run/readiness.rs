//! When a generation counts as ready, and when as dead though it lives.

use std::os::fd::AsFd;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::generation::Generation;
use super::notify::NotifyState;
use super::options::{CommandOptions, Ready};
use super::probe::Probe;
use super::worker::Worker;
use super::{accept_probe, sockets};

/// Between two looks at a command that starts, at first: the kernel has no event for it. After the start there are
/// none.
const FIRST_LOOK_INTERVAL: Duration = Duration::from_millis(20);
const FIRST_PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// A command that takes long is looked at less and less often: it is seen to be ready a twentieth of its time late, and
/// one that never gets ready costs next to nothing.
const PART: u32 = 20;
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

impl Generation {
    /// Completes when it is ready. Cancel-safe: what was seen is seen again.
    pub(super) async fn ready(&self, worker: &Worker) {
        self.said_ready(worker).await;
        // However else it is known, a request that came before would wait.
        while !self.takes_requests() {
            sleep(pause(self.process.began.elapsed(), FIRST_LOOK_INTERVAL)).await;
        }
    }

    /// Whether it waits for the requests of `--front`.
    fn takes_requests(&self) -> bool {
        let upstream = self.upstream.as_ref();
        upstream.is_none_or(|upstream| upstream.is_accepted_on(self.pid()))
    }

    async fn said_ready(&self, worker: &Worker) {
        match worker.options().ready {
            Ready::Start => {}
            Ready::After(time) => sleep_until(Instant::from_std(self.process.began) + time).await,
            Ready::Notify => match &self.notify_socket {
                Some(notify_socket) => {
                    drop(notify_socket.said.clone().wait_for(|said| said.ready).await)
                }
                None => std::future::pending().await,
            },
            Ready::Accept => {
                while !self.takes_over(worker) {
                    sleep(pause(self.process.began.elapsed(), FIRST_LOOK_INTERVAL)).await;
                }
            }
            Ready::Probe => {
                while !self.probes_succeed(worker).await {
                    sleep(pause(self.process.began.elapsed(), FIRST_PROBE_INTERVAL)).await;
                }
            }
            // In this order: before it accepts, a probe of the socket is answered by others.
            Ready::AcceptAndProbe => {
                while !(self.takes_over(worker) && self.probes_succeed(worker).await) {
                    sleep(pause(self.process.began.elapsed(), FIRST_LOOK_INTERVAL)).await;
                }
            }
        }
    }

    /// Whether it waits for connections: on one of its sockets, and on all on which the one waits that it is to
    /// replace.
    fn takes_over(&self, worker: &Worker) -> bool {
        if worker.sockets().is_empty() {
            return self.takes_requests();
        }
        let mine = self.waits_for_connections(worker);
        let present = worker.current().filter(|it| it.pid() != self.pid());
        let wanted = present
            .map(|it| it.waits_for_connections(worker))
            .unwrap_or_default();
        // In the order of the command line, both of them.
        mine.contains(&true)
            && wanted
                .iter()
                .zip(&mine)
                .all(|(wanted, mine)| *mine || !wanted)
    }

    fn waits_for_connections(&self, worker: &Worker) -> Vec<bool> {
        let inodes: Vec<u64> = {
            let sockets = worker.sockets();
            let ours = sockets.of_set(self.set);
            ours.iter()
                .filter_map(|socket| sockets::inode(socket.as_fd()))
                .collect()
        };
        accept_probe::waits_for_connections(self.pid(), &inodes)
    }

    async fn probes_succeed(&self, worker: &Worker) -> bool {
        for probe in &worker.options().probes {
            let moved = self.own_probe(probe, worker);
            let probe = moved.as_ref().unwrap_or(probe);
            if probe.ask(worker.processes()).await.is_err() {
                return false;
            }
        }
        true
    }

    /// A probe that asks the front, which any process may answer, asks this one itself.
    fn own_probe(&self, probe: &Probe, worker: &Worker) -> Option<Probe> {
        let (upstream, front, target) = (self.upstream.as_ref()?, worker.front()?, probe.target()?);
        let asks_front = front.is_at(&target.place());
        asks_front.then(|| probe.moved_to(upstream.place()))
    }

    /// Completes when it has been silent for longer than the watchdog bears, counted from readiness as systemd does: a
    /// start may take longer. Never without a watchdog, or before it is ready. Cancel-safe.
    pub(super) async fn silent(&self, watchdog: Option<Duration>, ready: Option<Instant>) {
        let (Some(watchdog), Some(ready), Some(notify_socket)) =
            (watchdog, ready, &self.notify_socket)
        else {
            return std::future::pending().await;
        };
        silence(notify_socket.said.clone(), ready, watchdog).await;
    }
}

/// How long to wait until the next look at a command that was started so long ago.
fn pause(since: Duration, least: Duration) -> Duration {
    (since / PART).clamp(least, LONGEST_INTERVAL)
}

/// Completes when nothing was said for so long.
async fn silence(mut said: watch::Receiver<NotifyState>, ready: Instant, watchdog: Duration) {
    loop {
        // A message from before does not count as a sign of life after it.
        let alive = said.borrow_and_update().alive.unwrap_or(ready).max(ready);
        // Either time passes without a word, or there is one and its time is looked at.
        match timeout_at(alive + watchdog, said.changed()).await {
            Ok(Ok(())) => {}
            // The notify socket is gone: silence means nothing any more.
            Ok(Err(_)) => std::future::pending().await,
            Err(_) => return,
        }
    }
}

/// What to do for a command that does not get ready.
pub(super) fn advice(options: &CommandOptions) -> &'static str {
    match options.ready {
        Ready::Accept | Ready::Start | Ready::After(_)
            if options.front.is_some() && options.listen.is_empty() =>
        {
            "it does not wait for connections at {socket} or {port}: have it listen there, as `uvicorn --uds {socket}` does"
        }
        Ready::AcceptAndProbe if options.front.is_some() && options.listen.is_empty() => {
            "it does not wait for connections at {socket} or {port}, or its probes did not answer well: have it listen there, as \
             `uvicorn --uds {socket}` does"
        }
        Ready::Accept => {
            "it does not wait for connections on the socket it was handed, or not on all that the old one serves: have it use descriptor 3 (LISTEN_FDS), as \
             `uvicorn --fd 3` does, or say with --ready how else to know"
        }
        Ready::Notify => "it did not send READY=1 to NOTIFY_SOCKET",
        Ready::Probe => "its probes did not answer well",
        Ready::AcceptAndProbe => {
            "it does not wait for connections on the socket it was handed, or its probes did not answer well: have it use \
             descriptor 3 (LISTEN_FDS), as `uvicorn --fd 3` does, or say with --ready how else to know"
        }
        Ready::Start | Ready::After(_) => "it did not live long enough",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_gets_ready_is_hardly_looked_at() {
        let looks = |from: Duration, until: Duration| {
            let mut at = from;
            let mut count = 0;
            while at < until {
                at += pause(at, FIRST_LOOK_INTERVAL);
                count += 1;
            }
            count
        };
        let second = Duration::from_secs(1);
        assert!((20..=50).contains(&looks(Duration::ZERO, second)));
        assert!(looks(second, second * 60) < 100);
        assert!(looks(second * 3_600, second * 7_200) <= 60);
    }

    #[tokio::test(start_paused = true)]
    async fn every_word_is_a_new_lease() {
        let began = Instant::now();
        let (say, said) = watch::channel(NotifyState::default());
        let watch = tokio::spawn(silence(said, began, Duration::from_secs(10)));
        for _ in 0..5 {
            sleep(Duration::from_secs(9)).await;
            say.send_modify(|said| said.alive = Some(Instant::now()));
        }
        // Words that are no sign of life are none.
        sleep(Duration::from_secs(5)).await;
        say.send_modify(|said| said.ready = true);
        assert!(!watch.is_finished());
        watch.await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(5 * 9 + 10));
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_speaks_is_silent_from_its_readiness() {
        let began = Instant::now();
        let (say, said) = watch::channel(NotifyState::default());
        say.send_modify(|said| said.alive = Some(began));
        let ready = began + Duration::from_secs(60);
        silence(said, ready, Duration::from_secs(10)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(60 + 10));
    }
}
