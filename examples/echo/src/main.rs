//! A line echo server that says goodbye to every client when it stops.
//!
//! The handler knows nothing of the stop: when it comes, what the client has sent is read to its end, and then
//! reading ends as if the client had hung up.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use adieu::net::Conn;
use clap::Parser;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// The longest line, without its end: a client that never ends one must not fill the memory.
const LONGEST: usize = 64 * 1_024;
/// How long a client that was refused may go on sending.
const PARTING: Duration = Duration::from_secs(1);

/// Echoes lines, and says goodbye when it stops.
#[derive(Parser)]
struct Options {
    /// Where to listen, as in 127.0.0.1:7007 or unix:/tmp/echo.sock
    #[arg(long, default_value = "127.0.0.1:7007")]
    listen: String,
    /// How long a stop may take, as in 200ms or 2s
    #[arg(long, value_parser = adieu::parse_duration)]
    grace: Option<Duration>,
    /// The certificate chain, PEM
    #[arg(long, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key, PEM
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// How many clients at a time; others wait for a place
    #[arg(long)]
    max_connections: Option<usize>,
    /// Whether to leave the limit of open files as it is
    #[arg(long)]
    keep_file_limit: bool,
}

fn main() -> adieu::Report {
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // tracing would report it with eprintln!, which panics if standard error is closed.
        .log_internal_errors(false)
        .init();
    let mut service = adieu::service("echo");
    if let Some(grace) = options.grace {
        service = service.grace(grace);
    }
    #[cfg(unix)]
    if options.keep_file_limit {
        service = service.keep_file_limit();
    }
    service.run(async move |app: &mut adieu::App| {
        let mut listen = app.listen("echo", options.listen);
        if let (Some(certificate), Some(key)) = (options.tls_cert, options.tls_key) {
            listen = listen.tls(certificate, key);
        }
        let listener = listen.await?.on_listening(|address| {
            // Not println!, which panics if standard output is closed.
            let _ = writeln!(io::stdout(), "listening on {address}");
        });
        let server = app
            .tcp(listener, echo)
            .goodbye("Server is shutting down. Goodbye!\r\n");
        if let Some(most) = options.max_connections {
            server.max_connections(most);
        }
        Ok(())
    })
}

/// Answers each whole line; half a line at the end is none.
async fn echo(conn: Conn) -> io::Result<()> {
    let mut conn = BufReader::new(conn);
    let mut line = Vec::new();
    loop {
        // A byte more than the longest line and its end: a client that fills it sends a line that is too long.
        let mut bounded = (&mut conn).take(LONGEST as u64 + 2);
        bounded.read_until(b'\n', &mut line).await?;
        let Some(text) = line.strip_suffix(b"\n") else {
            break;
        };
        // The blanks before it are the client's own.
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.len() > LONGEST {
            break;
        }
        let mut answer = Vec::with_capacity(text.len() + 8);
        answer.extend_from_slice(b"Echo: ");
        answer.extend_from_slice(text);
        answer.extend_from_slice(b"\r\n");
        conn.get_mut().write_all(&answer).await?;
        line.clear();
    }
    if line.len() > LONGEST {
        refuse(conn).await?;
    }
    Ok(())
}

/// Says so, and closes.
async fn refuse(mut conn: BufReader<Conn>) -> io::Result<()> {
    let refusal = format!("Line too long: at most {LONGEST} bytes.\r\n");
    conn.write_all(refusal.as_bytes()).await?;
    conn.shutdown().await?;
    // A close with something unread resets the connection, and takes what was said with it.
    let rest = async { tokio::io::copy_buf(&mut conn, &mut tokio::io::sink()).await };
    let _ = timeout(PARTING, rest).await;
    Ok(())
}
