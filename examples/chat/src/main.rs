//! A chat whose rooms survive a deploy: SIGUSR2 starts the new version, and the WebSockets of the old one move to it.
//!
//! A room is a file with a line for each message. Every process appends to it and reads from it, so during a hand-off the
//! clients of both see the same lines in the same order. All that a connection takes along is how far it has read.

#[cfg(target_os = "linux")]
mod chat;
#[cfg(target_os = "linux")]
mod rooms;

#[cfg(target_os = "linux")]
fn main() -> adieu::Report {
    chat::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    // Neither inotify nor connections that move.
    println!("this example is for Linux");
}
