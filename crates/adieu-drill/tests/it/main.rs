//! What a report looks like: to a person, to a build server, to a browser.

mod behind;
#[cfg(unix)]
mod browser;
mod compare;
mod html;
mod jobs;
mod junit;
mod markdown;
mod rollout;
mod sample;
mod schema;
mod text;
