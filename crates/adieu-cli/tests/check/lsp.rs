//! An editor's session with `adieu check --lsp`, over pipes as an editor holds it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{BLOCKS, Test};

/// An editor with a project open.
struct Editor {
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    root: String,
}

impl Editor {
    fn open(test: &Test) -> Editor {
        let mut server = Command::new(env!("CARGO_BIN_EXE_adieu"))
            .args(["check", "--lsp"])
            .current_dir(test.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let output = BufReader::new(server.stdout.take().expect("an output"));
        let mut editor = Editor {
            input: server.stdin.take(),
            server,
            output,
            root: format!("file://{}", test.path().display()),
        };
        let root = editor.root.clone();
        let answer = editor.ask("initialize", json!({ "rootUri": root, "capabilities": {} }));
        assert_eq!(
            answer["result"]["capabilities"]["textDocumentSync"]["change"],
            1
        );
        editor.tell("initialized", json!({}));
        editor
    }

    fn uri(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    fn send(&mut self, message: &str) {
        let input = self.input.as_mut().expect("an open pipe");
        write!(input, "Content-Length: {}\r\n\r\n{message}", message.len()).expect("it listens");
    }

    fn tell(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send(&message.to_string());
    }

    /// Sends a request and takes its answer, which nothing comes before.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.send(&message.to_string());
        let answer = self.receive();
        assert_eq!(answer["id"], 7, "{answer}");
        answer
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("a header");
            assert_ne!(read, 0, "the server ended");
            match line.trim_end().split_once(": ") {
                Some((_, value)) => length = value.parse().expect("a length"),
                None => break,
            }
        }
        let mut message = vec![0; length];
        self.output.read_exact(&mut message).expect("a message");
        serde_json::from_slice(&message).expect("JSON")
    }

    /// The findings that are sent next.
    fn findings(&mut self) -> Vec<Value> {
        let message = self.receive();
        assert_eq!(message["method"], "textDocument/publishDiagnostics");
        let findings = message["params"]["diagnostics"].as_array();
        findings.expect("a list").clone()
    }

    fn show(&mut self, name: &str, text: &str) -> Vec<Value> {
        let uri = self.uri(name);
        let document = json!({ "uri": uri, "languageId": "python", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
        self.findings()
    }

    fn edit(&mut self, name: &str, text: &str) -> Vec<Value> {
        let uri = self.uri(name);
        let params = json!({ "textDocument": { "uri": uri, "version": 2 }, "contentChanges": [{ "text": text }] });
        self.tell("textDocument/didChange", params);
        self.findings()
    }

    /// The exit code after what an editor says at its end.
    fn close(mut self) -> Option<i32> {
        assert_eq!(self.ask("shutdown", Value::Null)["result"], Value::Null);
        self.tell("exit", Value::Null);
        self.server.wait().expect("it ends").code()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // Both fail where it has ended, as it should have.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn findings_follow_what_is_typed() {
    let test = Test::new().file("app.py", "x = 1\n");
    let mut editor = Editor::open(&test);
    let found = editor.show("app.py", BLOCKS);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0]["code"], "ADP101");
    assert_eq!(found[0]["severity"], 2);
    assert_eq!(
        found[0]["range"]["start"],
        json!({ "line": 7, "character": 4 })
    );
    let way = &found[0]["relatedInformation"][0];
    assert_eq!(way["message"], "time.sleep");
    assert_eq!(way["location"]["uri"], editor.uri("app.py"));
    assert_eq!(way["location"]["range"]["start"]["line"], 4);
    assert_eq!(editor.edit("app.py", "x = 2\n"), [""; 0]);
    assert_eq!(editor.edit("app.py", BLOCKS).len(), 2);
    let uri = editor.uri("app.py");
    editor.tell(
        "textDocument/didClose",
        json!({ "textDocument": { "uri": uri } }),
    );
    assert_eq!(editor.findings(), [""; 0]);
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn a_way_down_through_files_on_the_disk_is_followed() {
    let test = Test::new().file(
        "store.py",
        "import time\n\ndef load():\n    time.sleep(1)\n",
    );
    let mut editor = Editor::open(&test);
    let found = editor.show(
        "app.py",
        "from store import load\n\nasync def f():\n    load()\n",
    );
    assert_eq!(found.len(), 1, "{found:?}");
    let uri = &found[0]["relatedInformation"][0]["location"]["uri"];
    assert_eq!(*uri, editor.uri("store.py"));
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn a_safe_repair_is_offered_where_it_is_asked_for() {
    let test = Test::new().file("app.py", "");
    let mut editor = Editor::open(&test);
    let found = editor.show(
        "app.py",
        "y = 'é'\nx = 1  # adieu: ignore[ADP101] it was slow\n",
    );
    assert_eq!(found[0]["code"], "ADX101");
    let uri = editor.uri("app.py");
    let asked = |line: u32| {
        let place = json!({ "line": line, "character": 0 });
        json!({ "textDocument": { "uri": uri }, "range": { "start": place, "end": place }, "context": {} })
    };
    let actions = editor.ask("textDocument/codeAction", asked(1));
    let edit = &actions["result"][0]["edit"]["changes"][&uri][0];
    assert_eq!(edit["newText"], "");
    assert_eq!(edit["range"]["start"], json!({ "line": 1, "character": 5 }));
    let none = editor.ask("textDocument/codeAction", asked(0));
    assert_eq!(none["result"], json!([]));
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn what_is_not_understood_is_answered_and_the_session_goes_on() {
    let test = Test::new().file("app.py", "");
    let mut editor = Editor::open(&test);
    let unknown = editor.ask("workspace/symbol", json!({}));
    assert_eq!(unknown["error"]["code"], -32_601);
    editor.send("{broken");
    assert_eq!(editor.receive()["error"]["code"], -32_700);
    editor.tell("$/setTrace", json!({ "value": "off" }));
    assert_eq!(editor.show("app.py", BLOCKS).len(), 2);
    // A name that is not a file has no findings.
    let document =
        json!({ "uri": "untitled:1", "languageId": "python", "version": 1, "text": BLOCKS });
    editor.tell("textDocument/didOpen", json!({ "textDocument": document }));
    assert_eq!(editor.findings(), [""; 0]);
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn a_pipe_that_closes_or_breaks_ends_the_server() {
    let test = Test::new().file("app.py", "");
    let mut editor = Editor::open(&test);
    drop(editor.input.take());
    assert_eq!(editor.server.wait().expect("it ends").code(), Some(1));
    let mut editor = Editor::open(&test);
    let input = editor.input.as_mut().expect("an open pipe");
    input.write_all(b"hello\r\n\r\n").expect("it listens");
    assert_eq!(editor.server.wait().expect("it ends").code(), Some(2));
}

/// A client that others wrote understands the session: pygls, the library of many editors' plugins in Python.
#[test]
fn a_client_of_others_is_served() {
    let named = std::env::var("ADIEU_PYTHON").ok();
    let mut pythons = named.into_iter().chain(["python3".to_owned()]);
    let python = pythons.find(|python| {
        let tried = Command::new(python)
            .args(["-c", "import pygls.lsp.client"])
            .output();
        tried.is_ok_and(|it| it.status.success())
    });
    let Some(python) = python else {
        fixture_skip::missing("a Python with pygls, named in ADIEU_PYTHON");
        return;
    };
    let test = Test::new().file(
        "app.py",
        &format!("{BLOCKS}x = 1  # adieu: ignore[ADP101] it was slow\n"),
    );
    let output = Command::new(python)
        .args([
            "-c",
            include_str!("clients/editor.py"),
            env!("CARGO_BIN_EXE_adieu"),
        ])
        .arg(test.path())
        .output()
        .expect("the client runs");
    let session: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(session["codes"], json!(["ADP101", "ADP101", "ADX101"]));
    assert_eq!(session["ways"], json!([1, 0, 0]));
    assert_eq!(
        session["actions"].as_array().map(Vec::len),
        Some(1),
        "{session}"
    );
    assert_eq!(session["exit"], 0);
}
