//! Waiting until the program has read what was sent.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::RunningTarget;
use crate::arrival::{self, Arrival, Sent};
use crate::in_flight::InFlight;
use crate::raw::RawConn;

/// Nothing tells when another process reads: the kernel's table is looked at so often.
const TABLE_INTERVAL: Duration = Duration::from_millis(10);
/// What was read is handed to a handler a moment later.
const HANDLER_DELAY: Duration = Duration::from_millis(100);
/// If the program has read nothing more for so long, it reads nothing more.
pub(crate) const READS_NO_MORE_AFTER: Duration = Duration::from_millis(400);
/// How long a program is asked that may be busy with what was sent before.
const BUSY_PROBE_TIMEOUT: Duration = Duration::from_secs(1);

impl RunningTarget {
    /// Waits until the program has read so many of these requests, or has read nothing more for a while, and notes
    /// where each of them is.
    pub(crate) async fn arrive(&self, requests: &mut [InFlight], enough: usize, steady: Duration) {
        let sent: Vec<Sent> = requests.iter().map(|in_flight| in_flight.sent).collect();
        let arrivals = self.see_arrive(&sent, enough, steady).await;
        for (in_flight, arrival) in requests.iter_mut().zip(arrivals) {
            in_flight.arrival = arrival;
        }
    }

    async fn see_arrive(&self, sent: &[Sent], enough: usize, steady: Duration) -> Vec<Arrival> {
        let server = self.endpoint.address;
        let mut seen = arrival::look(server, sent).await;
        let mut since = Instant::now();
        while since.elapsed() < steady {
            if seen.iter().all(|arrival| *arrival == Arrival::Unknown) {
                self.let_arrive().await;
                return seen;
            }
            let read = seen.iter().filter(|arrival| **arrival == Arrival::Read);
            if read.count() >= enough {
                sleep(HANDLER_DELAY).await;
                return arrival::look(server, sent).await;
            }
            sleep(TABLE_INTERVAL).await;
            let now = arrival::look(server, sent).await;
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
        seen
    }

    /// Waits until one request has been read.
    pub(crate) async fn one_arrives(&self, sent: Sent) {
        self.see_arrive(&[sent], 1, READS_NO_MORE_AFTER).await;
    }

    /// Gives what was sent the time to be read, where nothing tells from outside when it was. A later request has been
    /// answered, and then a moment passed. A program that answers one request at a time may be busy, and is not asked
    /// for long.
    pub(crate) async fn let_arrive(&self) {
        if self.endpoint.is_http() {
            let _ =
                RawConn::ask_within(&self.endpoint, &self.endpoint.request(), BUSY_PROBE_TIMEOUT)
                    .await;
        }
        sleep(HANDLER_DELAY).await;
    }
}
