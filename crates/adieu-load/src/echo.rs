//! Lines and their echoes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::client::Client;
use crate::outcome::{Loss, Outcome};
use crate::target::Connection;

impl Client {
    pub(crate) async fn drive_echo(&mut self, connection: Connection, goodbye: Option<&[u8]>) {
        let mut connection = BufReader::new(connection);
        let mut heard = Vec::new();
        while !self.is_ending() {
            let keep = self.keeps();
            self.began = Instant::now();
            let line = format!("line {}\r\n", self.tally.answered);
            let (mut sent, mut echoed) = (false, Ok(0));
            heard.clear();
            let exchange = async {
                connection.write_all(line.as_bytes()).await?;
                connection.flush().await?;
                sent = true;
                connection.read_until(b'\n', &mut heard).await
            };
            match timeout(self.patience, exchange).await {
                Ok(result) => echoed = result,
                Err(_) => echoed = echoed.and(Err(io::ErrorKind::TimedOut.into())),
            }
            let mut outcome = judge(sent, &heard, &line, &echoed, goodbye.is_none());
            if is_goodbye(&heard, outcome, goodbye) {
                self.tally.goodbyes += 1;
                outcome = Outcome::Retry;
            }
            self.settle(outcome, || {
                format!("{}, after {}", ending(sent, &echoed), quoted(&heard))
            });
            if outcome != Outcome::Answered || !keep {
                return;
            }
            if something_came(&mut connection).await {
                self.read_goodbye(&mut connection, goodbye).await;
                return;
            }
        }
    }

    /// The server speaks or closes without being asked: it must be the goodbye.
    async fn read_goodbye(
        &mut self,
        connection: &mut BufReader<Connection>,
        goodbye: Option<&[u8]>,
    ) {
        let mut heard = Vec::new();
        let hearing = connection.read_until(b'\n', &mut heard);
        let _ = timeout(self.patience, hearing).await;
        if goodbye.is_none_or(|goodbye| heard == goodbye) {
            self.tally.goodbyes += u64::from(!heard.is_empty());
        } else {
            self.settle(Outcome::Unsent, || {
                format!("in the place of a goodbye: {}", quoted(&heard))
            });
        }
    }
}

/// How an exchange ended that is worth telling.
fn ending(sent: bool, echoed: &io::Result<usize>) -> String {
    let what = if sent { "the echo" } else { "the line" };
    match echoed {
        Ok(0) => format!("{what}: the connection was closed"),
        Ok(_) => format!("{what}: something else came"),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => format!("{what}: not in time"),
        Err(error) => format!("{what}: {error}"),
    }
}

/// What was heard, as a person can read it.
fn quoted(heard: &[u8]) -> String {
    match heard {
        [] => "not a byte".to_owned(),
        some => format!("`{}`", some.escape_ascii()),
    }
}

/// A whole line in the place of an echo.
fn is_goodbye(heard: &[u8], outcome: Outcome, goodbye: Option<&[u8]>) -> bool {
    match goodbye {
        Some(goodbye) => heard == goodbye,
        None => outcome == Outcome::Lost(Loss::Truncated) && heard.ends_with(b"\n"),
    }
}

fn judge(sent: bool, heard: &[u8], line: &str, echoed: &io::Result<usize>, any: bool) -> Outcome {
    if !sent {
        return Outcome::Unsent;
    }
    let whole = match heard.strip_prefix(b"Echo: ") {
        Some(rest) => rest == line.as_bytes(),
        None => any && heard.ends_with(b"\n") && contains(heard, line.trim_end().as_bytes()),
    };
    if whole {
        return Outcome::Answered;
    }
    Outcome::Lost(match echoed {
        _ if !heard.is_empty() => Loss::Truncated,
        Ok(_) => Loss::Closed,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Loss::TimedOut,
        Err(_) => Loss::Reset,
    })
}

fn contains(heard: &[u8], sent: &[u8]) -> bool {
    heard.windows(sent.len()).any(|window| window == sent)
}

async fn something_came(connection: &mut BufReader<Connection>) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *connection).poll_fill_buf(cx).is_ready())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_told_in_words() {
        let reset = Err(io::ErrorKind::ConnectionReset.into());
        assert_eq!(ending(true, &reset), "the echo: connection reset");
        assert_eq!(ending(true, &Ok(0)), "the echo: the connection was closed");
        let late = Err(io::ErrorKind::TimedOut.into());
        assert_eq!(ending(false, &late), "the line: not in time");
        assert_eq!(quoted(b""), "not a byte");
        assert_eq!(quoted(b"li\r\n"), "`li\\r\\n`");
    }
}
