//! Clients of a server that is measured: each sends its next request when it has the answer to the last.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::percentile;

/// What is asked, again and again. Every answer has the same length.
#[derive(Clone, Copy, Debug)]
pub struct Question(pub &'static [u8]);

/// What a crowd has seen.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Nanoseconds of the whole for each answer.
    pub each: f64,
    /// The time that 99 of 100 answers took at most, in nanoseconds.
    pub p99: f64,
}

/// So many clients ask for so many answers each.
///
/// # Errors
/// A connection failed.
pub async fn ask(
    server: SocketAddr,
    question: Question,
    clients: usize,
    answers: usize,
) -> io::Result<Served> {
    let mut sockets = Vec::new();
    let mut length = 0;
    for _ in 0..clients {
        let mut socket = tokio::net::TcpStream::connect(server).await?;
        socket.set_nodelay(true)?;
        socket.write_all(question.0).await?;
        // The first answer tells how long they are.
        let mut answer = vec![0; 64 * 1_024];
        length = socket.read(&mut answer).await?;
        sockets.push(socket);
    }
    // No client sends before all are connected: what is done before the clock runs would count for the server that accepts slowly.
    let mut crowd = JoinSet::new();
    let began = Instant::now();
    for mut socket in sockets {
        crowd.spawn(async move {
            let mut answer = vec![0; length];
            let mut times = Vec::with_capacity(answers);
            for _ in 0..answers {
                let began = Instant::now();
                socket.write_all(question.0).await?;
                socket.read_exact(&mut answer).await?;
                times.push(began.elapsed());
            }
            io::Result::Ok(times)
        });
    }
    let mut times = Vec::with_capacity(clients * answers);
    while let Some(client) = crowd.join_next().await {
        let client = client.map_err(io::Error::other)??;
        times.extend(client.iter().map(|time| time.as_secs_f64() * 1e9));
    }
    Ok(Served {
        each: began.elapsed().as_secs_f64() * 1e9 / times.len() as f64,
        p99: percentile(&mut times, 99),
    })
}

/// Connects so often, asks once on each connection and keeps it.
///
/// # Errors
/// A connection failed.
pub fn linger(
    server: SocketAddr,
    question: Question,
    connections: usize,
) -> io::Result<Vec<TcpStream>> {
    let mut answer = [0; 4_096];
    (0..connections)
        .map(|_| {
            let mut socket = TcpStream::connect(server)?;
            socket.set_read_timeout(Some(Duration::from_secs(10)))?;
            socket.write_all(question.0)?;
            let _ = socket.read(&mut answer)?;
            Ok(socket)
        })
        .collect()
}
