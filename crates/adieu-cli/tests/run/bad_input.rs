//! What cannot be is said, with a code of its own.

use std::net::TcpListener;

use crate::support::{Wrapper, run};

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
        ("/tmp", 126, "cannot start /tmp: it is a directory"),
    ] {
        let (found, out, said) = run(&[], &[command]);
        assert_eq!((found, out.as_str()), (code, ""), "{said}");
        assert!(said.contains(words), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// A file that is there and cannot be run says what it lacks: the kernel only says that something is not found.
#[test]
fn files_that_lack_something() {
    let folder = tempfile::TempDir::new().unwrap();
    let executable = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, all).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (name, content, words) in [
        (
            "interpreter",
            &b"#!/no/such/python -u\n"[..],
            "its interpreter /no/such/python is not there",
        ),
        (
            "windows",
            b"#!/bin/sh\r\nexit 0\r\n",
            "save it with Unix line ends",
        ),
        // Never the shell's: it would take the bytes for words.
        (
            "processor",
            b"\x7fELF for another",
            "was it built for another processor?",
        ),
        (
            "bytes",
            b"no text\0",
            "of no kind that this system can execute",
        ),
    ] {
        let path = executable(name, content);
        let (code, out, said) = run(&[], &[&path]);
        assert_eq!((code, out.as_str()), (126, ""), "{said}");
        assert!(
            said.contains(words) && said.lines().count() == 1,
            "{words}: {said}"
        );
    }
    let script = executable("script", b"echo \"$1\"; exit 4");
    let (code, out, said) = run(&[], &[&script, "of words"]);
    assert_eq!((code, out.as_str()), (4, "of words\n"), "{said}");
}

/// Only a socket without a listener is left over; any other file belongs to a user.
#[test]
fn a_file_is_not_taken_for_a_socket() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("notes");
    std::fs::write(&file, "dear").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link, &folder.path().to_owned()] {
        let listen = format!("unix:{}", path.display());
        let (code, _, said) = run(&["--listen", &listen], &["true"]);
        assert_eq!(code, 125, "{said}");
        assert!(
            said.contains("a file exists that is not a socket"),
            "{said}"
        );
    }
    assert_eq!(std::fs::read_to_string(&link).unwrap(), "dear");
    let left = folder.path().join("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    let listen = format!("unix:{}", left.display());
    let (code, _, said) = run(&["--listen", &listen], &["true"]);
    assert_eq!(code, 0, "{said}");
    for (listen, words) in [
        ("unix:/no/such/a.sock", "its directory does not exist"),
        (
            &format!("unix:/tmp/{}", "x".repeat(108)),
            "at most 107 bytes",
        ),
    ] {
        let (code, _, said) = run(&["--listen", listen], &["true"]);
        assert_eq!(code, 125, "{said}");
        assert!(said.contains(words), "{said}");
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
            "cannot listen on {address}: the address is already in use"
        )),
        "{said}"
    );
    let health = taken.local_addr().unwrap().to_string();
    let (code, out, said) = run(&["--health", &health], &["echo", "begun"]);
    assert_eq!((code, out.as_str()), (125, ""), "{said}");
    assert!(said.contains(&health), "{said}");
}

#[test]
fn options_that_make_no_sense() {
    for (options, words) in [
        (&["--signal", "soon=quit"][..], "unknown signal `soon`"),
        (&["--signal", "term"], "expected FROM=TO"),
        (&["--signal", "kill=term"], "SIGKILL cannot be passed on"),
        (&["--signal", "term=none"], "would never be asked to stop"),
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
            "has no effect without --health",
        ),
        (&["--probe-http", "https://a/"], "https is not supported"),
        (&["--probe-tcp", "nowhere"], "--probe-tcp"),
        (&["--watch", "/tmp"], "needs --listen or --front"),
        (&["--health", "nowhere"], "--health nowhere: give host"),
        (&["--health", "127.0.0.1:99999"], "give host and port"),
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

/// The `--` may be left out: the first word that is not an option is the command, and the rest its own.
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
    let options = [
        "--listen",
        "tcp:127.0.0.1:0",
        "--watch",
        "/no/such/directory",
    ];
    let (code, out, said) = run(&options, &["echo", "begun"]);
    assert_eq!((code, out.as_str()), (125, ""), "{said}");
    assert!(
        said.contains("/no/such/directory cannot be watched"),
        "{said}"
    );
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

#[test]
fn options_that_would_do_nothing() {
    for (options, words) in [
        (
            &["--restart-limit", "3"][..],
            "--restart-limit has no effect without --restart on-failure or --restart always",
        ),
        (&["--restart-delay", "1s"], "--restart-delay has no effect"),
        (
            &["--restart-window", "1s"],
            "--restart-window has no effect",
        ),
        (
            &["--restart", "never", "--restart-limit", "3"],
            "--restart-limit has no effect",
        ),
        (
            &["--ready-timeout", "0s"],
            "--ready-timeout 0s leaves the command no time to get ready: give it some",
        ),
        (&["--grace=-1s"], "it cannot be negative"),
    ] {
        let (code, _, said) = run(options, &["true"]);
        assert_eq!(code, 2, "{options:?}: {said}");
        assert!(said.contains(words), "{said}");
    }
    let options = [
        "--restart",
        "on-failure",
        "--restart-limit",
        "1",
        "--restart-delay",
        "1ms",
    ];
    let (code, _, said) = run(&options, &["false"]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("the restart limit is reached, 1 within 60s"),
        "{said}"
    );
}

/// A process listens there that does not accept from its full queue.
#[tokio::test]
async fn a_unix_socket_that_another_process_is_too_busy_on() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("web.sock");
    let socket = || socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None);
    let address = socket2::SockAddr::unix(&path).unwrap();
    let listener = socket().unwrap();
    listener.bind(&address).unwrap();
    listener.listen(0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let stream = socket().unwrap();
        stream.set_nonblocking(true).unwrap();
        if stream.connect(&address).is_err() {
            break;
        }
        waiting.push(stream);
    }
    let listen = format!("unix:{}", path.display());
    let (code, said) = Wrapper::start(&["--listen", &listen], &["true"])
        .code()
        .await;
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("the address is already in use"), "{said}");
    assert!(path.exists());
}
