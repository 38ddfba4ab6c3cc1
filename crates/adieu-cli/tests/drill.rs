//! `adieu drill` as it is run: the real binary, and programs that are wrong in every way that a command line can be.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A program that answers every request with `hello`, closes, and ends at SIGTERM with 0.
const HELLO: &str = r#"
import signal, socket, sys
def stop(*_):
    print("bye", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    peer, _ = listener.accept()
    with peer:
        if peer.recv(65536):
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
"#;

/// A folder and a command in it.
struct Test {
    folder: TempDir,
}

impl Test {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("hello.py"), HELLO).expect("a file");
        Self { folder }
    }

    fn file(self, name: &str, text: &str) -> Self {
        fs::write(self.folder.path().join(name), text).expect("a file");
        self
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adieu"));
        command.arg("drill").args(words).current_dir(self.path());
        // Whoever is left behind is found by this.
        command.env("ADIEU_DRILL_TEST", self.mark());
        command
    }

    fn mark(&self) -> String {
        self.path().display().to_string()
    }

    fn run(&self, words: &[&str]) -> Ran {
        let output = self.command(words).output().expect("the command runs");
        assert_eq!(
            self.left(),
            Vec::<String>::new(),
            "somebody was left behind"
        );
        Ran(output)
    }

    /// The processes that carry our mark.
    fn left(&self) -> Vec<String> {
        let wanted = format!("ADIEU_DRILL_TEST={}", self.mark());
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter(|entry| {
                let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
                environ
                    .split(|byte| *byte == 0)
                    .any(|pair| pair == wanted.as_bytes())
            })
            .map(|entry| fs::read_to_string(entry.path().join("comm")).unwrap_or_default())
            .collect()
    }
}

struct Ran(Output);

impl Ran {
    fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    fn out(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    fn err(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// The code, no word on standard output, and these words on standard error.
    #[track_caller]
    fn refuses(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code(), Some(code), "{}", self.err());
        assert_eq!(self.out(), "");
        for words in words {
            assert!(self.err().contains(words), "{}", self.err());
        }
    }
}

const URL: &str = "http://127.0.0.1:{port}/";

#[test]
fn a_program_that_stops_well_passes_and_json_is_all_there_is() {
    let test = Test::new();
    let words = [
        "--http",
        URL,
        "--check",
        "exit-code,port-free,keepalive-race",
        "--json",
        "--seed",
        "7",
        "--clients",
        "2",
    ];
    let ran = test.run(
        &[
            &words[..],
            &[
                "--threshold",
                "keepalive-race=1000",
                "--",
                "python3",
                "hello.py",
                "{port}",
            ],
        ]
        .concat(),
    );
    assert_eq!(ran.code(), Some(0), "{} {}", ran.out(), ran.err());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(report["version"], 1);
    assert_eq!(report["verdict"], "passed");
    assert_eq!(report["seed"], 7);
    let checks = report["checks"].as_array().expect("checks");
    let ids: Vec<_> = checks
        .iter()
        .map(|check| check["id"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(ids, ["keepalive-race", "exit-code", "port-free"]);
    for check in checks {
        assert!(
            check["reason"].is_string() && check["evidence"].is_array(),
            "{check}"
        );
    }
}

#[test]
fn a_check_that_fails_is_one_and_the_reports_are_written() {
    let test = Test::new().file("wrong.py", &HELLO.replace("sys.exit(0)", "sys.exit(9)"));
    let words = [
        "--tcp",
        "127.0.0.1:{port}",
        "--check",
        "exit-code",
        "--html",
        "a.html",
        "--junit",
        "a.xml",
    ];
    let ran = test.run(&[&words[..], &["--", "python3", "wrong.py", "{port}"]].concat());
    assert_eq!(ran.code(), Some(1), "{}", ran.err());
    assert!(
        ran.out().contains("exit code 9 after SIGTERM"),
        "{}",
        ran.out()
    );
    for (name, words) in [("a.html", "exit code 9"), ("a.xml", "<failure")] {
        let text = fs::read_to_string(test.path().join(name)).expect("a report");
        assert!(text.contains(words), "{name}");
    }
}

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

#[test]
fn ready_by_a_line_and_by_a_notice() {
    let test = Test::new();
    let notify = "import os, socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); \
                  s.sendto(b'READY=1\\n', os.environ['NOTIFY_SOCKET']); ";
    let test = test.file(
        "notify.py",
        &HELLO.replace("print(\"listening\", flush=True)", notify),
    );
    for (ready, program) in [
        (&["--ready-line", "listening"][..], "hello.py"),
        (&["--ready-notify"], "notify.py"),
    ] {
        let before = [&["--http", URL, "--check", "exit-code"][..], ready].concat();
        let ran = test.run(&[&before[..], &["--", "python3", program, "{port}"]].concat());
        assert_eq!(ran.code(), Some(0), "{}", ran.err());
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
            "`exit-cod` is no check; did you mean `exit-code`?",
        ),
        (
            &["--http", URL, "--threshold", "exit-in-time=soon"],
            "`soon` is no time",
        ),
        (
            &["--http", URL, "--html", "not-a-folder/a.html"],
            "cannot write not-a-folder/a.html",
        ),
        (
            &["--http", URL, "--junit", "nowhere/a.xml"],
            "its directory does not exist",
        ),
        (&["--http", "127.0.0.1:{port}"], "is no URL"),
        (
            &["--tcp", "127.0.0.1:1"],
            "the address `127.0.0.1:1` has none",
        ),
        (
            &["--http", URL, "--signal", "SIGFOO"],
            "is no signal to stop with",
        ),
        (&["--http", URL, "--header", "no colon"], "there is no `:`"),
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
        .file("key.toml", "[[target]]\n  colour = 3\n");
    for (name, words) in [
        ("syntax.toml", "error: syntax.toml:"),
        (
            "id.toml",
            "error: id.toml:4:9: `port-freee` is no check; did you mean `port-free`?",
        ),
        ("key.toml", "error: key.toml:2:3: unknown field `colour`"),
        ("nowhere.toml", "error: nowhere.toml: "),
    ] {
        test.run(&["--file", name]).refuses(2, &[words]);
    }
}

#[test]
fn a_file_holds_several_targets() {
    let test = Test::new().file(
        "drill.toml",
        "[defaults]\ncheck = [\"exit-code\"]\n\
         [[target]]\nname = \"one\"\ncommand = [\"python3\", \"hello.py\", \"{port}\"]\nhttp = \"http://127.0.0.1:{port}/\"\n\
         [[target]]\nname = \"two\"\ncommand = [\"sh\", \"-c\", \"exec python3 hello.py $PORT\"]\ntcp = \"127.0.0.1:{port}\"\n\
         env = { PORT = \"{port}\" }\n",
    );
    let ran = test.run(&["--file", "drill.toml", "--json"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.err());
    let all: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(
        (&all["version"], &all["verdict"]),
        (&Value::from(1), &Value::from("passed"))
    );
    assert_eq!(all["reports"][1]["target"]["name"], "two");
    assert_eq!(all["checks"].as_array().map(Vec::len), Some(2));
    test.run(&["--file", "drill.toml", "--target", "three"])
        .refuses(2, &["no target is named `three`"]);
}

#[test]
fn checks_are_listed_and_explained() {
    let test = Test::new();
    let list = test.run(&["--list"]);
    assert_eq!(list.code(), Some(0));
    assert!(
        list.out().contains("  keepalive-race       quick  "),
        "{}",
        list.out()
    );
    let page = test.run(&["--explain", "h2-goaway"]);
    for part in [
        "# h2-goaway",
        "## What is done",
        "## When it applies",
        "--threshold h2-goaway=VALUE",
        "**Go**",
    ] {
        assert!(page.out().contains(part), "{}", page.out());
    }
    test.run(&["--explain", "h2-gone"])
        .refuses(2, &["is no check"]);
}

/// Interrupted in the middle of it, the drill leaves neither the program nor what the program started.
#[test]
fn interrupted_it_leaves_nobody_behind() {
    let forks = "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.execvp('sleep', ['sleep', '300'])\n    os._exit(0)\nos.wait()\n";
    let test = Test::new().file("forks.py", &format!("{forks}{HELLO}"));
    for signal in ["INT", "TERM"] {
        // The program says when it runs; by then its daemon runs too.
        let script =
            "python3 forks.py {port} | while read -r line; do echo \"$line\" > running; done";
        assert!(
            Command::new("mkfifo")
                .arg(test.path().join("running"))
                .status()
                .expect("mkfifo")
                .success()
        );
        let mut child = test
            .command(&[
                "--http",
                URL,
                "--check",
                "hung-handler,exit-in-time",
                "--slow",
                "/x?{ms}",
                "--",
                "sh",
                "-c",
                script,
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command runs");
        let mut line = String::new();
        let running = fs::File::open(test.path().join("running")).expect("a pipe");
        BufReader::new(running)
            .read_line(&mut line)
            .expect("a line");
        assert_eq!(line, "listening\n");
        let killed = Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status();
        assert!(killed.expect("kill").success());
        let status = child.wait().expect("it ends");
        let expected = if signal == "INT" { 130 } else { 143 };
        assert_eq!(status.code(), Some(expected));
        assert_eq!(test.left(), Vec::<String>::new());
        fs::remove_file(test.path().join("running")).expect("a pipe");
    }
}
