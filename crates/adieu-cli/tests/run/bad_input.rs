//! What cannot be is said, with a code of its own.

use std::net::TcpListener;

use crate::support::run;

#[test]
fn commands_that_cannot_be_run() {
    let folder = tempfile::TempDir::new().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let plain = plain.to_str().unwrap();
    for (command, code, words) in [
        (
            "no-such-command",
            127,
            "cannot start no-such-command: there is no such command on PATH",
        ),
        (
            "/no/such/file",
            127,
            "cannot start /no/such/file: there is no such file",
        ),
        (plain, 126, "it is not executable: chmod +x it"),
        ("/tmp", 126, "cannot start /tmp: it is not executable"),
    ] {
        let (found, out, said) = run(&[], &[command]);
        assert_eq!((found, out.as_str()), (code, ""), "{said}");
        assert!(said.contains(words), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", taken.local_addr().unwrap());
    let (code, _, said) = run(&["--listen", &address], &["true"]);
    assert_eq!(code, 125);
    assert!(
        said.contains(&format!(
            "cannot listen on {address}: somebody else does already"
        )),
        "{said}"
    );
    let health = taken.local_addr().unwrap().to_string();
    let (code, _, said) = run(&["--health", &health], &["sleep", "1000"]);
    assert_eq!(code, 125, "{said}");
    assert!(said.contains(&health), "{said}");
}

#[test]
fn options_that_make_no_sense() {
    for (options, words) in [
        (&["--signal", "soon=quit"][..], "`soon` is no signal"),
        (&["--signal", "term"], "give what comes and what goes"),
        (&["--signal", "kill=term"], "SIGKILL cannot be passed on"),
        (&["--signal", "term=none"], "would not hear of the stop"),
        (&["--grace", "0s"], "--grace 0s leaves the command no time"),
        (&["--grace", "soon"], "--grace"),
        (
            &["--pre-stop", "5s", "--grace", "5s"],
            "leaves nothing of --grace",
        ),
        (&["--watchdog", "0s"], "--watchdog 0s"),
        (
            &["--ready", "accept"],
            "--ready accept looks at the sockets of --listen",
        ),
        (&["--ready", "probe"], "--ready probe asks"),
        (
            &["--ready", "soon"],
            "give start, accept, notify, probe or a time",
        ),
        (
            &["--probe-tcp", "127.0.0.1:1", "--ready", "start"],
            "nobody would ask the probe",
        ),
        (&["--probe-http", "https://a/"], "https is not spoken"),
        (&["--probe-tcp", "nowhere"], "--probe-tcp"),
        (&["--watch", "/tmp"], "needs the socket of --listen"),
        (&["--listen", "8000"], "give tcp:host:port or unix:/path"),
        (
            &["--listen", "tcp:127.0.0.1:0", "--signal", "hup=usr1"],
            "SIGHUP restarts the command",
        ),
        (&["--restart", "sometimes"], "--restart"),
        (&["--nonsense"], "--nonsense"),
    ] {
        let (code, _, said) = run(options, &["true"]);
        assert_eq!(code, 2, "{options:?}: {said}");
        assert!(
            said.starts_with("error: ") && said.contains(words),
            "{options:?}: {said}"
        );
    }
    let (code, _, said) = run(&[], &[]);
    assert_eq!(code, 2, "{said}");
}

/// Whoever forgets the `--` is understood: the first word that is no option is the command, and the rest its own.
#[test]
fn the_two_hyphens_may_be_left_out() {
    let output = std::process::Command::new(crate::support::ADIEU)
        .args(["run", "--quiet", "echo", "--grace", "-q"])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(0), &b"--grace -q\n"[..])
    );
}

#[test]
fn what_is_watched_must_be_there() {
    let options = ["--listen", "tcp:127.0.0.1:0", "--watch", "/no/such/folder"];
    let (code, _, said) = run(&options, &["sleep", "1000"]);
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("/no/such/folder"), "{said}");
}

/// The command lives on, is not ready, and one line says what to do.
#[test]
fn a_socket_that_is_never_taken() {
    let options = ["--listen", "tcp:127.0.0.1:0", "--ready-timeout", "200ms"];
    let (code, _, said) = run(&options, &["sleep", "0.6"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("sleep is not ready after 200ms: it does not wait for connections"),
        "{said}"
    );
    assert!(said.contains("LISTEN_FDS"), "{said}");
}
