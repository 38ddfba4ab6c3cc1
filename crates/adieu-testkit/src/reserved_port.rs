//! A port for a program that must be told one, and for an address at which nothing listens.
//!
//! A port that the kernel chose for us and that is closed again is a port that the kernel may give to another process, or to
//! the client's end of a connection, before the program binds it. The ports here are outside of the range from which the
//! kernel chooses, and a lock keeps two tests from the same one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Below the ports that `adieu drill` takes for the programs it starts, which are below those that the kernel gives away.
const LOWEST: u16 = 10_000;
const COUNT: u16 = 2_000;

/// How many ports this process has tried: the next search begins behind them.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// A TCP port of the loopback address at which nothing listens, and which no other test gets until this is dropped.
#[derive(Debug)]
#[must_use = "another test may get the port once this is dropped"]
pub struct ReservedPort {
    number: u16,
    /// Tests know TCP only, so the UDP port of the same number is free to be the lock; the kernel gives it back when the
    /// process ends, however that is.
    _lock: UdpSocket,
}

impl ReservedPort {
    /// Finds one and reserves it.
    ///
    /// # Errors
    ///
    /// If all of them are taken.
    pub fn reserve() -> io::Result<Self> {
        // Processes with neighbouring ids begin in different places.
        let first = std::process::id().wrapping_mul(61);
        let mut refusal = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..COUNT {
            let offset = first.wrapping_add(TRIED.fetch_add(1, Relaxed).into()) % u32::from(COUNT);
            let number = u16::try_from(offset).map_or(LOWEST, |offset| LOWEST + offset);
            match reserve(number) {
                Ok(reserved) => return Ok(reserved),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// The number of the port.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// The port with the loopback address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

fn reserve(number: u16) -> io::Result<ReservedPort> {
    let lock = UdpSocket::bind((Ipv4Addr::LOCALHOST, number))?;
    // Another program may listen there.
    drop(TcpListener::bind((Ipv4Addr::UNSPECIFIED, number))?);
    Ok(ReservedPort {
        number,
        _lock: lock,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn a_port_is_free_and_reserved_once() {
        let port = ReservedPort::reserve().expect("a port");
        assert!(TcpStream::connect(port.address()).is_err());
        assert!(reserve(port.number()).is_err());
        drop(TcpListener::bind(port.address()).expect("it is free"));
        let number = port.number();
        drop(port);
        drop(reserve(number).expect("it was given back"));
    }

    #[test]
    fn one_at_which_something_listens_is_passed_over() {
        let reserved = ReservedPort::reserve().expect("a port");
        let number = reserved.number();
        let _listener = TcpListener::bind(reserved.address()).expect("it is free");
        drop(reserved);
        let error = reserve(number).expect_err("something listens");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
