//! One connection from the accept to its end: handshake, protocol, upgrade, each minded by its limits.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep};
use tower_service::Service;

use super::body::Upload;
use super::desk::Desk;
use super::facts::Facts;
use super::observed::Observed;
use super::track::{Stage, State, Verdict};
use crate::error::BoxError;
use crate::net::{Stream, Wire};
use crate::roster::WorkKind;
use crate::spawn;
use crate::tracked::Tracked;

/// What a client that speaks HTTP/2 without being asked begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Dropped half-way, which happens at the end of the drain, the connection is cut and named; requests under way name
/// themselves.
pub(super) async fn connection<S, B>(
    facts: Arc<Facts>,
    wire: Wire,
    #[cfg(feature = "tls")] tls: Option<crate::net::Tls>,
    desk: Desk<S>,
) where
    S: Service<Request<Upload>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    let mut hold = CutOnDrop {
        facts: Arc::clone(&facts),
        is_over: false,
    };
    // Made here and not handed in: a future that is handed in to be awaited takes its room twice, for every connection.
    #[cfg(feature = "tls")]
    converse(facts, wire, tls, desk).await;
    #[cfg(not(feature = "tls"))]
    converse(facts, wire, desk).await;
    hold.is_over = true;
}

async fn converse<S, B>(
    facts: Arc<Facts>,
    wire: Wire,
    #[cfg(feature = "tls")] tls: Option<crate::net::Tls>,
    desk: Desk<S>,
) where
    S: Service<Request<Upload>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    let mut minder = Minder::new(Arc::clone(&facts));
    #[cfg(feature = "tls")]
    let (stream, agreed) = match tls {
        None => (Stream::Plain(wire), None),
        Some(tls) => match minder.mind(pin!(tls.accept(wire)), |_| {}).await {
            Some(Ok(stream)) => {
                let agreed = stream.agreed_on_http2();
                (stream, agreed)
            }
            _ => return,
        },
    };
    #[cfg(not(feature = "tls"))]
    let (stream, agreed) = (Stream::Plain(wire), None);
    facts.enter(Stage::Detecting);
    let mut observed = Observed::new(stream, Arc::clone(&facts));
    let detected = match agreed {
        Some(http2) => Some(Ok(Some(http2))),
        None => minder.mind(pin!(detect(&mut observed)), |_| {}).await,
    };
    let http2 = match detected {
        Some(Ok(Some(http2))) => http2,
        // The client closed, or we hang up on it: say so, and let it close.
        Some(Ok(None)) => return drop(minder.mind(pin!(observed.shutdown()), |_| {}).await),
        _ => return,
    };
    if http2 {
        observed.speaks_http2();
    }
    let io = TokioIo::new(observed);
    if http2 {
        facts.enter(Stage::Http2);
        let conn = hyper::server::conn::http2::Builder::new(Tracker(Arc::clone(&facts)))
            .timer(TokioTimer::new())
            .max_concurrent_streams(256)
            .max_header_list_size(u32::try_from(facts.limits.head_size).unwrap_or(u32::MAX))
            .serve_connection(io, desk);
        let mut told = false;
        // Until then the client has only been told to go elsewhere, and whatever it still sends is served. Then hyper
        // says it once more, and a round trip later which stream was the last.
        let turn = |conn: Pin<&mut hyper::server::conn::http2::Connection<_, _, _>>| {
            if facts.is_time_to_draw_the_line() && !std::mem::replace(&mut told, true) {
                conn.graceful_shutdown();
            }
        };
        minder.mind(pin!(conn), turn).await;
    } else {
        facts.enter(Stage::Http1);
        let conn = hyper::server::conn::http1::Builder::new()
            // A client may close its side once it has asked, and still wants its answer.
            .half_close(true)
            .max_buf_size(facts.limits.head_size.max(8_192))
            .serve_connection(io, desk)
            .with_upgrades();
        minder.mind(pin!(conn), |_| {}).await;
        if matches!(facts.stage(), Stage::WebSocket | Stage::Upgraded) {
            // The handler has the connection now, in a task of its own; we stay until it lets go of it.
            let gone = poll_fn(|cx| {
                if facts.gone.load(Relaxed) {
                    return Poll::Ready(());
                }
                facts.say_going_away(cx);
                Poll::Pending
            });
            minder.mind(pin!(gone), |_| {}).await;
        }
    }
}

/// Runs the futures of HTTP/2 streams as tracked work.
#[derive(Clone)]
struct Tracker(Arc<Facts>);

impl<F> hyper::rt::Executor<F> for Tracker
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let server = &self.0.server;
        let seat = spawn::enter(
            &server.core,
            "stream".into(),
            server.place,
            WorkKind::Connection,
            None,
        );
        if let Ok(seat) = seat {
            // The protocol calls the service and spawns what that gives, one request after the other.
            self.0.runs_in(server.core.roster.id(seat));
            server
                .core
                .runtime
                .spawn(Tracked::new(Arc::clone(&server.core), seat, true, stream));
        }
    }
}

/// Which protocol the client speaks, `None` if it is gone or we have hung up. Nothing read is lost.
async fn detect(observed: &mut Observed) -> io::Result<Option<bool>> {
    let mut seen = [0; PREFACE.len()];
    let mut count = 0;
    loop {
        let more = poll_fn(|cx| poll_some(observed, cx, &mut seen[count..])).await?;
        count += more;
        let seen = &seen[..count];
        let http2 = match PREFACE.strip_prefix(seen) {
            _ if more == 0 && count == 0 => return Ok(None),
            Some([]) => true,
            Some(_) if more > 0 => continue,
            _ => false,
        };
        observed.unread(Bytes::copy_from_slice(seen));
        return Ok(Some(http2));
    }
}

fn poll_some(
    observed: &mut Observed,
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(buf);
    ready!(Pin::new(observed).poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

/// Polls one stage after the other of a connection, and looks after each poll whether its time is up.
struct Minder {
    facts: Arc<Facts>,
    timer: Option<Timer>,
    spared: u32,
    spared_until: Option<Instant>,
}

/// How long a connection is spared whose client has sent something that we did not come to read.
const SPARED: Duration = Duration::from_millis(250);
/// How often.
const MOST_SPARED: u32 = 4;
/// Looking again then is as good as never.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

impl Minder {
    const fn new(facts: Arc<Facts>) -> Self {
        Self {
            facts,
            timer: None,
            spared: 0,
            spared_until: None,
        }
    }

    /// Runs a stage to its end; `None` if it was cut. `on_turn` is called when the stop was announced.
    async fn mind<F: Future>(
        &mut self,
        mut stage: Pin<&mut F>,
        mut on_turn: impl FnMut(Pin<&mut F>),
    ) -> Option<F::Output> {
        poll_fn(|cx| {
            self.facts.bell.listen_as_ever(cx);
            loop {
                // Before the poll, which says it, and again after it, because the first answer may just have begun.
                let turned = self.facts.is_time_to_turn();
                if turned {
                    on_turn(stage.as_mut());
                }
                if let Poll::Ready(output) = stage.as_mut().poll(cx) {
                    return Poll::Ready(Some(output));
                }
                if !turned && self.facts.is_time_to_turn() {
                    continue;
                }
                if self.rests() {
                    return Poll::Pending;
                }
                if self.facts.waits_for_nobody(cx) {
                    return Poll::Ready(None);
                }
                let (verdict, now) = self.facts.verdict();
                match verdict {
                    Verdict::Wait(None) => return Poll::Pending,
                    Verdict::Wait(Some(left)) => ready!(self.wait(cx, now, left)),
                    Verdict::CloseWebSocket => self.facts.close_websocket(),
                    // Asked of the kernel at the last moment: a request that has just arrived is served.
                    Verdict::HangUp if self.facts.wire.has_unread() => return Poll::Pending,
                    Verdict::HangUp if self.facts.hang_up() => {
                        self.facts.count_closed();
                        if self.facts.stage() == Stage::Http2 {
                            on_turn(stage.as_mut());
                        }
                    }
                    Verdict::Cut if self.spares() => ready!(self.wait(cx, now, SPARED)),
                    // Told already, and the protocol has not ended: what it waits for does not come.
                    Verdict::HangUp | Verdict::Cut => {
                        self.cut();
                        return Poll::Ready(None);
                    }
                }
            }
        })
        .await
    }

    /// Whether there is nothing to judge: the next request may take as long as the timer runs, and longer. So it is
    /// after nearly every request, and nobody has to look at a clock.
    fn rests(&self) -> bool {
        self.timer.as_ref().is_some_and(|timer| {
            let end = self.facts.idle_until();
            end.is_some_and(|end| timer.at <= Duration::from_millis(end))
                && !timer.sleep.is_elapsed()
        })
    }

    /// Whether a connection whose time is up is spared a while: on a busy machine its client's handshake or
    /// first request may have come in time, and wait in the kernel. The bound stays a bound.
    fn spares(&mut self) -> bool {
        if !matches!(self.facts.state(), State::Handshake | State::IdleHttp2) {
            return false;
        }
        let now = Instant::now();
        if self.spared_until.is_some_and(|until| now < until) {
            return true;
        }
        let again = self.spared < MOST_SPARED && self.facts.wire.has_unread();
        if again {
            self.spared += 1;
            self.spared_until = Some(now + SPARED);
        }
        again
    }

    fn cut(&self) {
        // One that was told to go is counted already.
        if self.facts.state() != State::Parting && !self.facts.track.has_hung_up() {
            self.facts.count_closed();
        }
        self.facts.was_cut.store(true, Relaxed);
    }

    /// Ready when it is time to look again. A timer set earlier than needed is left alone, and not even asked while
    /// it runs: looking once too often is cheaper than setting it for every request.
    fn wait(&mut self, cx: &mut Context<'_>, now: u64, left: Duration) -> Poll<()> {
        // A limit may be the longest duration there is, and no clock goes that far.
        let left = left.min(FAR);
        let needed = Duration::from_millis(now) + left;
        if let Some(timer) = &mut self.timer {
            if timer.at <= needed && !timer.sleep.is_elapsed() {
                // It knows whom to wake: a connection is one task from its accept to its end.
                return Poll::Pending;
            }
            timer.at = needed;
            timer.sleep.as_mut().reset(Instant::now() + left);
        }
        let timer = self.timer.get_or_insert_with(|| Timer {
            sleep: Box::pin(tokio::time::sleep(left)),
            at: needed,
        });
        // Whatever the stage has used up of the task's turn: a timer that is put off does not know whom to wake, and it
        // is asked once.
        pin!(unconstrained(timer.sleep.as_mut())).poll(cx)
    }
}

/// Wakes the connection's task.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// When, by the coarse clock.
    at: Duration,
}

/// Whatever still holds the connection, a handler of an upgraded one say, loses it.
struct CutOnDrop {
    facts: Arc<Facts>,
    is_over: bool,
}

impl Drop for CutOnDrop {
    fn drop(&mut self) {
        let facts = &self.facts;
        if !self.is_over && facts.server.core.stop.is_cancelling() {
            facts.lose();
            if facts.stage() == Stage::Http2 && facts.has_errands() {
                let guest = Arc::<Facts>::downgrade(facts);
                facts.server.crowd.remember(guest);
            }
        }
        if !facts.gone.load(Relaxed) {
            if facts.stage() == Stage::WebSocket {
                // There was no time to say it before, or all is said.
                facts.close_websocket();
                facts.say_going_away(&mut Context::from_waker(Waker::noop()));
            }
            facts.was_cut.store(true, Relaxed);
            facts.wire.cut();
            facts.reader.ring();
            facts.writer.ring();
        }
    }
}
