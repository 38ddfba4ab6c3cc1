//! The entry for fuzzing: every language by its name, without a disk.

use adieu_check::{Baseline, Config, check_text};

fn codes(name: &str, text: &str) -> Vec<&'static str> {
    let outcome = check_text(name, text.as_bytes());
    outcome.findings.iter().map(|it| it.code.as_str()).collect()
}

#[test]
fn every_language_is_reached() {
    for (name, text, code) in [
        (
            "app.py",
            "import time\nasync def f():\n    time.sleep(1)\n",
            "ADP101",
        ),
        (
            "src/lib.rs",
            "async fn f() { std::thread::sleep(d); }\n",
            "ADR101",
        ),
        ("Dockerfile", "FROM python\nCMD python app.py\n", "ADD101"),
        ("start.sh", "#!/bin/sh\npython app.py\n", "ADD102"),
        ("compose.yaml", "services: [\n", "ADX001"),
        (
            "pdb.yaml",
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nspec: {minAvailable: 0}\n",
            "ADD304",
        ),
        ("app.service", "[Service]\nKillMode=none\n", "ADD401"),
        (
            "Procfile",
            "web: gunicorn app --graceful-timeout 60\n",
            "ADD501",
        ),
        (
            "fly.toml",
            "[processes]\nweb = 'app --grace 60'\n",
            "ADD701",
        ),
        ("shop.nomad", "job \"a\" {\n", "ADX001"),
        (
            "task-definition.json",
            "{\"containerDefinitions\": [1",
            "ADX001",
        ),
        (
            "supervisord.conf",
            "[program:web]\ncommand=app --grace 60\n",
            "ADD701",
        ),
        ("nginx.conf", "http {\n}\n", "ADD702"),
        ("haproxy.cfg", "global\n", "ADD702"),
        (
            "templates/pdb.yaml",
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nspec: {maxUnavailable: {{ .Values.away | default 0 }}}\n",
            "ADD305",
        ),
        ("app.py", "x = 1  # adieu: ignore[ADP101] gone\n", "ADX101"),
        (
            "lib.rs",
            concat!("//", " adieu: ignore(NOPE) gone\n"),
            "ADX103",
        ),
    ] {
        assert_eq!(codes(name, text), [code], "{name}");
    }
    assert!(codes("notes.md", "anything").is_empty());
    let bytes = check_text("app.py", b"x = '\xff'\n");
    assert_eq!(bytes.findings[0].code.as_str(), "ADX002");
    assert_eq!(check_text("Cargo.toml", b"[package]\nname = 1\n").files, 1);
}

#[test]
fn settings_and_baselines_are_read_from_bytes() {
    assert!(
        Config::parse(b"tests = true\n", false)
            .expect("settings")
            .tests
    );
    let shared = Config::parse(b"[tool.adieu]\ntests = true\n", true);
    assert!(shared.expect("settings").tests);
    assert!(Config::parse(b"\xff", false).is_err());
    let known = Baseline::parse(b"{\"version\": 1, \"findings\": []}");
    assert!(known.expect("a baseline").is_empty());
    assert!(Baseline::parse(b"{").is_err());
}
