//! A network with delay, for a process in a network namespace of its own: whatever is sent to the far address
//! comes back, a while later, as if the far end had sent it to us.
//!
//! A relay of connections would accept and refuse in the place of the server. This one relays packets: both
//! ends, the handshakes and the queue are the kernel's. And because only source and destination are swapped,
//! every checksum stays right.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The delayed network of a process.
#[derive(Clone, Copy, Debug)]
pub struct DelayNetwork;

impl DelayNetwork {
    /// Where a server listens.
    pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    /// Where a client finds it.
    pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

    /// A command that runs a program with a network of its own, where the system lets us.
    #[must_use]
    pub fn alone() -> Command {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net"]);
        command
    }

    /// Sets the network up, with this delay each way. It lasts as long as the process, whose network it must
    /// be alone: see [`DelayNetwork::alone`].
    ///
    /// # Errors
    ///
    /// If the system does not let us make a device, or has no `ip` to set it up with.
    pub fn start(delay: Duration) -> io::Result<()> {
        let device = open()?;
        let near = format!("{}/24", Self::NEAR);
        for words in [
            &["link", "set", "lo", "up"][..],
            &["addr", "add", &near, "dev", "mirror"],
            &["link", "set", "mirror", "up"],
        ] {
            if !Command::new("ip").args(words).status()?.success() {
                return Err(io::Error::other(format!("ip {} failed", words.join(" "))));
            }
        }
        let mut back = device.try_clone()?;
        let mut device = device;
        let (later, due) = mpsc::channel::<(Instant, Vec<u8>)>();
        thread::spawn(move || {
            let mut packet = vec![0; 65_536];
            while let Ok(length) = device.read(&mut packet) {
                let packet = packet[..length].to_vec();
                if later.send((Instant::now() + delay, packet)).is_err() {
                    return;
                }
            }
        });
        thread::spawn(move || {
            for (at, mut packet) in due {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                if reflect(&mut packet) {
                    // A packet that finds no room is lost, as on any network.
                    let _ = back.write(&packet);
                }
            }
        });
        Ok(())
    }
}

/// Swaps the two addresses of an IPv4 packet; anything else stays out.
fn reflect(packet: &mut [u8]) -> bool {
    match packet {
        [first, ..] if *first >> 4 == 4 && packet.len() >= 20 => {
            let (front, behind) = packet.split_at_mut(16);
            front[12..].swap_with_slice(&mut behind[..4]);
            true
        }
        _ => false,
    }
}

/// A device for whole packets.
fn open() -> io::Result<File> {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca_u32 as libc::Ioctl;
    const PACKETS_ALONE: libc::c_short = 0x0001 | 0x1000;
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"mirror") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = PACKETS_ALONE;
    // SAFETY: the descriptor is open, and the request is a live ifreq, which is what this call reads and writes.
    match unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF, &raw mut request) } {
        0 => Ok(device),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::reflect;

    #[test]
    fn only_the_addresses_are_swapped() {
        let mut packet: Vec<u8> = (0..24).collect();
        packet[0] = 0x45;
        assert!(reflect(&mut packet));
        assert_eq!(packet[12..20], [16, 17, 18, 19, 12, 13, 14, 15]);
        assert_eq!((packet[11], packet[20]), (11, 20));
        packet[0] = 0x60;
        assert!(!reflect(&mut packet));
    }
}
