//! One text through everything that reads it, without a disk.

use std::path::PathBuf;
use std::sync::OnceLock;

use rayon::ThreadPool;

use crate::check::{Outcome, Request, run};
use crate::depth;
use crate::source::Texts;
use crate::walk::Walk;

/// Checks bytes as the file of this name would be checked: `app.py`, `lib.rs`, `Cargo.toml`,
/// `main.go`, `server.ts`, `package.json`, `Dockerfile`, `compose.yaml`, `app.service`, `start.sh`, `Procfile`. A template below
/// `templates/` has a chart around it. A Dockerfile that starts `start.sh` is there with a script, because a script is checked only
/// where an image starts it.
/// The findings hold nothing for a name that no rule reads.
#[doc(hidden)]
pub fn check_text(name: &str, bytes: &[u8]) -> Outcome {
    let mut texts = Texts::default();
    let mut walked = Walk::default();
    let mut add = |name: &str, bytes: &[u8]| {
        if let Some(file) = Walk::file(PathBuf::from(name)) {
            texts.hold(&file.shown, bytes.to_vec());
            walked.files.push(file);
        }
    };
    add(name, bytes);
    if name.starts_with("templates/") {
        add("Chart.yaml", b"name: shop\nversion: 1.0.0\n");
        add(
            "values.yaml",
            b"grace: 30\nweb: {args: [a, b], labels: {}}\n",
        );
    }
    if name.ends_with(".sh") {
        let starts = format!("FROM scratch\nENTRYPOINT [\"{name}\"]\n");
        add("Dockerfile", starts.as_bytes());
    }
    let request = Request::default();
    let run = || run(&request, walked, &texts, &|_, _| {});
    match pool() {
        Some(pool) => pool.install(run),
        None => run(),
    }
}

/// One thread with a stack as deep as the check has it, kept from text to text.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let build = || {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
        builder.stack_size(depth::STACK).build().ok()
    };
    POOL.get_or_init(build).as_ref()
}
