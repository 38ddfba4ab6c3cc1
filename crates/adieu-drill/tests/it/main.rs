//! What a report looks like: to a person, to a build server, to a browser.

#[cfg(unix)]
mod browser;
mod compare;
mod html;
mod junit;
mod sample;
mod text;
