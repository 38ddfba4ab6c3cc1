//! The servers whose stop `cargo xtask bench drain` measures.

use super::fetch;
use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

/// The arguments of the bench: the servers, ours first.
pub(crate) fn drained(checkout: &Checkout) -> Result<Vec<String>, Failure> {
    let words = ["build", "--release", "--package", "example-web"];
    command::run(&mut checkout.cargo(words))?;
    let web = checkout.root().join("target/release/example-web");
    let rust = fetch::rust(checkout, "release")?.join("release");
    let uvicorn = fetch::python(checkout)?.join("uvicorn");
    let app = checkout.root().join("fixtures/peers/python");
    let peer = |name: &str| format!("{} {{port}}", rust.join(name).display());
    let servers = [
        (
            "ours",
            format!("{} --listen 127.0.0.1:{{port}}", web.display()),
        ),
        ("axum", peer("peer-axum")),
        ("axum-server", peer("peer-axum-server")),
        ("actix-web", peer("peer-actix")),
        ("tokio-graceful-shutdown", peer("peer-subsystem")),
        (
            "uvicorn",
            format!(
                "{} asgi:app --app-dir {} --no-access-log --port {{port}}",
                uvicorn.display(),
                app.display()
            ),
        ),
    ];
    let words = servers.map(|(name, command)| ["--server".to_owned(), name.to_owned(), command]);
    Ok(words.into_iter().flatten().collect())
}
