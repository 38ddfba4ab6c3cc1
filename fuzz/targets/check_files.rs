//! `adieu check` on a file of any kind: the first byte chooses the kind, the rest is its text.
#![no_main]

use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 22] = [
    "app.py",
    "main.rs",
    "Dockerfile",
    "compose.yaml",
    "kubernetes.yaml",
    "shop.service",
    "Procfile",
    "entrypoint.sh",
    "adieu.toml",
    "Cargo.toml",
    "pyproject.toml",
    "main.go",
    "server.ts",
    "server.jsx",
    "package.json",
    "fly.toml",
    "shop.nomad",
    "task-definition.json",
    "supervisord.conf",
    "nginx.conf",
    "haproxy.cfg",
    "templates/web.yaml",
];

fuzz_target!(|bytes: &[u8]| {
    if let Some((kind, text)) = bytes.split_first() {
        let name = NAMES[usize::from(*kind) % NAMES.len()];
        let _ = adieu_check::check_text(name, text);
    }
});
