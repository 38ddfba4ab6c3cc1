//! `adieu check --lsp`: findings in an editor while one types, by the Language Server Protocol over standard input and output.
//!
//! Each text that the editor holds is checked within its project as it is on the disk, so that a way down through other files is
//! followed. A reader thread takes messages in; before a check all that have come are read, so that fast typing costs one check.

mod message;
mod position;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use adieu_check::{Applicability, Config, Finding, Given, Request, Selection, Severity};
use serde_json::{Value, json};

use crate::output::{self, ExitKind};

/// No such method, as JSON-RPC numbers it.
const UNKNOWN_METHOD: i64 = -32_601;
/// The message cannot be read.
const NOT_JSON: i64 = -32_700;

/// Serves one editor until it says `exit` or closes the pipe.
pub(crate) fn serve(config: Option<&Path>) -> ExitKind {
    let (send, messages) = mpsc::sync_channel(64);
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(read) = message::read(&mut input).transpose() {
            let is_last = read.is_err();
            // The server has ended, or the pipe holds no message any more.
            if send.send(read).is_err() || is_last {
                return;
            }
        }
    });
    let mut server = Server {
        settings: config.map(Path::to_owned),
        root: None,
        texts: BTreeMap::new(),
        was_shut_down: false,
        out: io::stdout().lock(),
    };
    match server.run(&messages) {
        Ok(true) => ExitKind::Clean,
        Ok(false) => ExitKind::Findings,
        Err(error) => {
            output::error(format!("the editor cannot be served any more: {error}"));
            ExitKind::Usage
        }
    }
}

struct Server<W> {
    settings: Option<PathBuf>,
    root: Option<PathBuf>,
    /// What the editor holds, by the URI that it calls it by.
    texts: BTreeMap<String, String>,
    was_shut_down: bool,
    out: W,
}

/// What is left to do when all messages are read.
enum Next {
    Nothing,
    /// The text of this URI is to be checked.
    Check(String),
    Exit,
}

impl<W: Write> Server<W> {
    /// Whether the editor shut it down before it ended it.
    fn run(&mut self, messages: &Receiver<io::Result<Vec<u8>>>) -> io::Result<bool> {
        let mut changed: Vec<String> = Vec::new();
        loop {
            let message = match messages.try_recv() {
                Ok(message) => message,
                Err(_) if !changed.is_empty() => {
                    for uri in std::mem::take(&mut changed) {
                        self.publish(&uri)?;
                    }
                    continue;
                }
                Err(_) => match messages.recv() {
                    Ok(message) => message,
                    // The pipe is closed.
                    Err(_) => return Ok(self.was_shut_down),
                },
            };
            match self.take(&message?)? {
                Next::Nothing => {}
                Next::Check(uri) => {
                    if !changed.contains(&uri) {
                        changed.push(uri);
                    }
                }
                Next::Exit => return Ok(self.was_shut_down),
            }
        }
    }

    fn take(&mut self, message: &[u8]) -> io::Result<Next> {
        let message: Value = match serde_json::from_slice(message) {
            Ok(message) => message,
            Err(error) => {
                let answer = failure(&Value::Null, NOT_JSON, &error.to_string());
                message::write(&mut self.out, &answer)?;
                return Ok(Next::Nothing);
            }
        };
        let params = &message["params"];
        let document = &params["textDocument"];
        let uri = || document["uri"].as_str().unwrap_or_default().to_owned();
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                self.root = root(params);
                self.answer(&message["id"], &capabilities())?;
            }
            "shutdown" => {
                self.was_shut_down = true;
                self.answer(&message["id"], &Value::Null)?;
            }
            "exit" => return Ok(Next::Exit),
            "textDocument/didOpen" => {
                let text = document["text"].as_str().unwrap_or_default();
                self.texts.insert(uri(), text.to_owned());
                return Ok(Next::Check(uri()));
            }
            "textDocument/didChange" => {
                let changes = params["contentChanges"].as_array();
                let last = changes.and_then(|changes| changes.last());
                if let Some(text) = last.and_then(|change| change["text"].as_str()) {
                    self.texts.insert(uri(), text.to_owned());
                }
                return Ok(Next::Check(uri()));
            }
            "textDocument/didSave" => return Ok(Next::Check(uri())),
            "textDocument/didClose" => {
                self.texts.remove(&uri());
                return Ok(Next::Check(uri()));
            }
            "textDocument/codeAction" => {
                let actions = self.actions(&uri(), params);
                self.answer(&message["id"], &actions)?;
            }
            method => {
                // A notification wants no answer, and neither does an answer.
                if !message["id"].is_null() && !method.is_empty() {
                    let why = format!("`{method}` is not served");
                    let answer = failure(&message["id"], UNKNOWN_METHOD, &why);
                    message::write(&mut self.out, &answer)?;
                }
            }
        }
        Ok(Next::Nothing)
    }

    fn answer(&mut self, id: &Value, result: &Value) -> io::Result<()> {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        message::write(&mut self.out, &answer)
    }

    /// Sends what is found in a text; nothing is found in one that the editor has closed.
    fn publish(&mut self, uri: &str) -> io::Result<()> {
        let diagnostics: Vec<Value> = match self.texts.get(uri) {
            Some(text) => {
                let findings = self.findings(uri, text);
                findings.iter().map(|it| diagnostic(it, text)).collect()
            }
            None => Vec::new(),
        };
        let message = json!({
            "jsonrpc": "2.0",
            "method": "textDocument/publishDiagnostics",
            "params": { "uri": uri, "diagnostics": diagnostics },
        });
        message::write(&mut self.out, &message)
    }

    fn findings(&self, uri: &str, text: &str) -> Vec<Finding> {
        let Some(path) = position::path(uri) else {
            return Vec::new();
        };
        let config = match &self.settings {
            Some(settings) => Config::read(settings),
            None => Config::find(&path),
        };
        // What is wrong with the settings is said by the command line; the editor checks with none.
        let config = config.unwrap_or_default();
        let (selection, _) = Selection::new(&config.select, &config.ignore, config.preview);
        let root = self.root.clone().filter(|root| path.starts_with(root));
        let request = Request {
            paths: root.into_iter().collect(),
            config,
            selection,
            given: Some(Given {
                name: Some(path.clone()),
                bytes: text.as_bytes().to_vec(),
            }),
            ..Request::default()
        };
        let mut outcome = adieu_check::check(&request, &|_, _| {});
        outcome.leave_out_below(Severity::Warning);
        let shown = path.to_string_lossy().replace('\\', "/");
        outcome.findings.retain(|finding| *finding.path == *shown);
        outcome.findings
    }

    /// The safe repairs of the lines that are asked about.
    fn actions(&self, uri: &str, params: &Value) -> Value {
        let Some(text) = self.texts.get(uri) else {
            return json!([]);
        };
        let line = |end: &str| params["range"][end]["line"].as_u64().unwrap_or(0);
        let asked = line("start")..=line("end");
        let actions = self.findings(uri, text).into_iter().filter_map(|finding| {
            let fix = finding.fix.as_ref()?;
            let is_safe = fix.applicability == Applicability::Safe && fix.import.is_none();
            if !is_safe || !asked.contains(&u64::from(finding.place.line - 1)) {
                return None;
            }
            let edit = json!({
                "range": {
                    "start": position::of_offset(text, fix.start),
                    "end": position::of_offset(text, fix.end),
                },
                "newText": fix.text,
            });
            Some(json!({
                "title": format!("{}: repair", finding.code),
                "kind": "quickfix",
                "diagnostics": [diagnostic(&finding, text)],
                "edit": { "changes": { uri: [edit] } },
            }))
        });
        Value::Array(actions.collect())
    }
}

fn failure(id: &Value, code: i64, why: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": why } })
}

fn root(params: &Value) -> Option<PathBuf> {
    let folders = &params["workspaceFolders"][0]["uri"];
    let uri = folders.as_str().or_else(|| params["rootUri"].as_str())?;
    position::path(uri)
}

fn capabilities() -> Value {
    json!({
        "capabilities": {
            // The whole text comes with each change.
            "textDocumentSync": { "openClose": true, "change": 1, "save": true },
            "codeActionProvider": { "codeActionKinds": ["quickfix"] },
        },
        "serverInfo": { "name": "adieu check", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn diagnostic(finding: &Finding, text: &str) -> Value {
    let way: Vec<Value> = finding
        .trace
        .iter()
        .skip(1)
        .map(|step| {
            // The text of another file is not at hand: its line is enough to go there.
            let start = json!({ "line": step.place.line - 1, "character": 0 });
            json!({
                "location": {
                    "uri": position::uri(&step.path),
                    "range": { "start": start, "end": start },
                },
                "message": step.call,
            })
        })
        .collect();
    json!({
        "range": position::to_end_of_line(text, finding.place),
        "severity": match finding.severity {
            Severity::Error => 1,
            Severity::Warning => 2,
            _ => 3,
        },
        "code": finding.code,
        "source": "adieu",
        "message": finding.message,
        "relatedInformation": way,
    })
}
