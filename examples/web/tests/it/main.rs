//! Each kind of connection ends without loss and on time. Real processes where `example-web` has the route, a service in
//! this process where a test needs handlers of its own.

mod client;
mod h2;
mod live;
mod own;
mod web;
mod ws;

mod bounds;
mod browser;
mod crossing;
mod flood;
mod limits;
mod listener;
mod loris;
mod manners;
mod many_fields;
mod states;
mod streams;
mod terminal;
mod unread;
mod upgrades;
mod uploads;
