//! Everything that a command line, a file and a program can have wrong, before a check runs.

use crate::support::{HELLO, Test, URL};

#[test]
fn a_command_that_is_not_there_is_four() {
    let ran = Test::new().run(&["--http", URL, "--", "no-such-program", "{port}"]);
    ran.refuses(
        4,
        &["`no-such-program` cannot be started: there is no such command"],
    );
}

#[test]
fn a_program_that_ends_at_once_is_four_with_its_last_words() {
    let script = "echo port {port} is not mine; echo of all ports >&2; exit 3";
    let ran = Test::new().run(&["--http", URL, "--", "sh", "-c", script]);
    ran.refuses(
        4,
        &[
            "ended before it was ready: exit code 3",
            "of all ports",
            "is not mine",
        ],
    );
}

/// A program that goes to the background cannot be stopped by its parent.
#[test]
fn a_daemon_is_named_as_one_and_the_remedy_told() {
    // It listens once its parent process has ended: before that it would be a program that is ready.
    let daemon = format!(
        "import os, time\nparent = os.getpid()\nif os.fork(): os._exit(0)\n\
         while os.getppid() == parent: time.sleep(0.001)\nos.setsid()\n{HELLO}"
    );
    let test = Test::new().file("daemon.py", &daemon);
    let ran = test.run(&["--http", URL, "--", "python3", "daemon.py", "{port}"]);
    let words = [
        "ended before it was ready: exit code 0",
        "went to the background: python3",
        "daemon off",
    ];
    ran.refuses(4, &words);
}

/// It answers, but later than it was waited for: a message that it does not would contradict itself.
#[test]
fn an_answer_that_comes_too_late_is_told_as_that() {
    // The first question is never answered, and outlasts the time there is; the next one is.
    let late = HELLO.replace("while True:", "unanswered = listener.accept()\nwhile True:");
    assert_ne!(late, HELLO);
    let test = Test::new().file("late.py", &late);
    let words = ["--http", URL, "--ready-within", "3s"];
    let ran = test.run(&[&words[..], &["--", "python3", "late.py", "{port}"]].concat());
    ran.refuses(
        4,
        &[
            "answered 200 to one more request after that time",
            "--ready-within",
        ],
    );
    assert!(!ran.err().contains("nothing answered"), "{}", ran.err());
}

#[test]
fn a_port_that_never_opens_is_four() {
    let ran = Test::new().run(&[
        "--tcp",
        "127.0.0.1:{port}",
        "--ready-within",
        "300ms",
        "--",
        "sleep",
        "1{port}",
    ]);
    ran.refuses(
        4,
        &["was not ready after 300 ms: nothing listened at 127.0.0.1:"],
    );
}

#[test]
fn ready_that_never_comes_is_four() {
    let test = Test::new();
    for (ready, words) in [
        (
            &["--ready-line", "open sesame"][..],
            "it printed no line with `open sesame`",
        ),
        (&["--ready-notify"], "it sent no READY=1"),
        (
            &["--ready-url", "http://127.0.0.1:{port2}/"],
            "did not answer below 400",
        ),
        (&["--ready-tcp", "127.0.0.1:{port2}"], "nothing listened at"),
    ] {
        let words_before = [&["--http", URL, "--ready-within", "700ms"][..], ready].concat();
        let ran = test.run(&[&words_before[..], &["--", "python3", "hello.py", "{port}"]].concat());
        ran.refuses(4, &[words]);
    }
}

/// Another program may listen and speak something else, or answer that it is not well.
#[test]
fn what_came_in_the_place_of_ready_is_told() {
    let sick = HELLO.replace("200 OK", "503 Busy");
    let test = Test::new().file("sick.py", &sick);
    for (address, program, words) in [
        (&["--http", URL][..], "sick.py", "the last answer was 503"),
        (
            &["--tcp", "127.0.0.1:{port}", "--tls"],
            "hello.py",
            "no TLS connection came about at 127.0.0.1:",
        ),
        (
            &["--http", URL, "--ready-url", "http://127.0.0.1:{port2}/"],
            "hello.py",
            "did not answer below 400; the last request was refused",
        ),
    ] {
        let command = ["--ready-within", "2s", "--", "python3", program, "{port}"];
        let ran = test.run(&[address, &command].concat());
        ran.refuses(4, &["was not ready after 2.00 s", words]);
    }
}

#[test]
fn usage_is_two_before_anything_is_started() {
    let test = Test::new().file("not-a-folder", "");
    let started = [
        "--",
        "sh",
        "-c",
        "touch started; exec python3 hello.py {port}",
    ];
    for (words, said) in [
        (
            &["--http", URL, "--check", "exit-cod"][..],
            "`exit-cod` is not a check; did you mean `exit-code`?",
        ),
        (
            &["--http", URL, "--threshold", "exit-in-time=soon"],
            "`soon` is not a duration",
        ),
        (
            &["--http", URL, "--html", "not-a-folder/a.html"],
            "cannot write not-a-folder/a.html",
        ),
        (
            &["--http", URL, "--junit", "nowhere/a.xml"],
            "its directory does not exist",
        ),
        (&["--http", "127.0.0.1:{port}"], "is not a URL"),
        (
            &["--tcp", "127.0.0.1:1"],
            "the address `127.0.0.1:1` has none",
        ),
        (
            &["--http", URL, "--signal", "SIGFOO"],
            "is not a signal to stop with",
        ),
        (&["--http", URL, "--header", "no colon"], "there is no `:`"),
        (
            &["--http", URL, "--method", "B AD"],
            "invalid method `B AD`",
        ),
        (
            &["--http", URL, "--readiness", "gopher://x/"],
            "--readiness gopher://x/: `gopher://x/` is not a URL",
        ),
        (
            &["--http", URL, "--sse", "/a b"],
            "--sse: the path has characters that a URL cannot have",
        ),
        (&[], "--http URL or --tcp ADDRESS"),
    ] {
        test.run(&[words, &started].concat()).refuses(2, &[said]);
    }
    test.run(&["--http", URL, "--", "python3", "hello.py"])
        .refuses(2, &["its command has no `{port}`"]);
    test.run(&[
        "--http",
        "http://me:geheim@127.0.0.1:{port}/",
        "--",
        "x",
        "{port}",
    ])
    .refuses(2, &["--header"]);
    assert!(!test.path().join("started").exists());
}

#[test]
fn a_broken_file_is_two_with_line_and_column() {
    let test = Test::new()
        .file(
            "syntax.toml",
            "[[target]]\nname = \"a\"\ncommand = [\"x\"\n",
        )
        .file(
            "id.toml",
            "[[target]]\ncommand = [\"x\"]\n\nskip = [\"port-freee\"]\n",
        )
        .file("key.toml", "[[target]]\n  colour = 3\n")
        .file(
            "port.toml",
            "# one\n[[target]]\nname = \"shop\"\ncommand = [\"x\"]\nhttp = \"http://127.0.0.1:{port}/\"\n",
        );
    for (name, words) in [
        ("syntax.toml", "error: syntax.toml:"),
        (
            "id.toml",
            "error: id.toml:4:9: `port-freee` is not a check; did you mean `port-free`?",
        ),
        ("key.toml", "error: key.toml:2:3: unknown field `colour`"),
        (
            "port.toml",
            "error: port.toml:2:1: target shop: `http://127.0.0.1:{port}/` is where",
        ),
        ("nowhere.toml", "error: nowhere.toml: "),
    ] {
        test.run(&["--file", name]).refuses(2, &[words]);
    }
}

/// What stands in the way is named with what to change.
#[test]
fn a_temporary_directory_that_is_not_there_and_tls_that_is_not_spoken_are_told_with_the_remedy() {
    let test = Test::new();
    let words = ["--http", URL, "--", "python3", "hello.py", "{port}"];
    let mut command = test.command(&words);
    let output = command.env("TMPDIR", "/no/such/directory").output();
    let output = output.expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("/no/such/directory: No such file") && said.contains("set TMPDIR to"),
        "{said}"
    );
    let secure = URL.replace("http:", "https:");
    let words = ["--http", &secure, "--ready-within", "5s", "--"];
    let ran = test.run(&[&words[..], &["python3", "hello.py", "{port}"]].concat());
    ran.refuses(4, &["if the program speaks no TLS, write http://"]);
}
