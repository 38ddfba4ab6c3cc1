//! The project's own chores, as `cargo xtask <chore>`.

mod corpus;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((&"check-corpus", rest)) => corpus::run(rest),
        _ => {
            eprintln!("usage: cargo xtask check-corpus");
            ExitCode::from(2)
        }
    }
}
