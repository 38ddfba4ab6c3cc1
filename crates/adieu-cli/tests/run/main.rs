//! `adieu run` as it is run: the real binary around real programs.
#![cfg(target_os = "linux")]

mod bad_input;
mod cloak;
mod faults;
mod first_and_last;
mod front;
mod handovers;
mod health;
mod held;
mod idle;
mod left_behind;
mod lent;
mod life;
mod masks;
mod numbers;
mod peers;
mod pid1;
mod reports;
mod restart;
mod restarts_under_load;
mod seccomp;
mod several_commands;
mod several_sockets;
mod spellings;
mod support;
mod systemd;
mod terminal;
mod times;
mod unready;
mod workers;
