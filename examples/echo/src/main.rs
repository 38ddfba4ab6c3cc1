//! A line echo server that says goodbye to everybody when it stops.
//!
//! The handler knows nothing of the stop: when it comes, what the client has sent is read to its end, and then
//! reading ends as if the client had hung up.

use std::io::{self, IsTerminal};
use std::time::Duration;

use adieu::Conn;
use clap::Parser;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// Echoes lines, and says goodbye when it stops.
#[derive(Parser)]
struct Options {
    /// Where to listen, as in 127.0.0.1:7007 or unix:/tmp/echo.sock
    #[arg(long, default_value = "127.0.0.1:7007")]
    listen: String,
    /// How long a stop may take, as in 200ms or 2s
    #[arg(long, value_parser = adieu::parse_duration)]
    grace: Option<Duration>,
}

fn main() -> adieu::Report {
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    let mut service = adieu::service("echo");
    if let Some(grace) = options.grace {
        service = service.grace(grace);
    }
    service.run(async move |app: &mut adieu::App| {
        let listener = app.listen("echo", options.listen).await?;
        let listener = listener.on_listening(|address| println!("listening on {address}"));
        app.tcp(listener, echo)
            .goodbye("Server is shutting down. Goodbye!\r\n");
        Ok(())
    })
}

/// Answers each whole line; half a line at the end is none.
async fn echo(conn: Conn) -> io::Result<()> {
    let mut conn = BufReader::new(conn);
    let mut line = Vec::new();
    while conn.read_until(b'\n', &mut line).await? > 0 && line.ends_with(b"\n") {
        let text = line.trim_ascii_end();
        let mut answer = Vec::with_capacity(text.len() + 8);
        answer.extend_from_slice(b"Echo: ");
        answer.extend_from_slice(text);
        answer.extend_from_slice(b"\r\n");
        conn.get_mut().write_all(&answer).await?;
        line.clear();
    }
    Ok(())
}
