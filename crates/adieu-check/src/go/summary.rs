//! One Go file: what it does about signals and servers, and what is wrong if the program is as it seems.

use std::sync::Arc;

use super::names::{GoCode, arguments, last_name, method};
use super::rules;
use crate::finding::{Finding, Place};
use crate::flat_tree::{FlatNode, FlatTree, Grammar};
use crate::rule::Code;
use crate::severity::Severity;
use crate::source::Lines;
use crate::suppress::{self, Ignore};

pub(crate) const HTTP: &str = "net/http";
pub(crate) const SIGNAL: &str = "os/signal";

/// Packages that wait for signals themselves, by a part of their path.
const SIGNAL_PACKAGES: &[&str] = &[
    "grace",
    "shutdown",
    "signal",
    "lifecycle",
    "oklog/run",
    "go.uber.org/fx",
    "cloudflare/tableflip",
    "sigs.k8s.io/controller-runtime",
    "go-kratos/kratos",
    "zeromicro/go-zero",
    "kardianos/service",
    "judwhite/go-svc",
    "prometheus/exporter-toolkit",
    "facebookgo/httpdown",
    "gofr.dev",
    "beego/beego",
    "k8s.io/component-base/cli",
    "k8s.io/apiserver",
    "samber/do",
    "micro/go-micro",
    "go-micro.dev",
    "thejerf/suture",
    "gobuffalo/buffalo",
    "caddyserver/caddy",
    "pocketbase/pocketbase",
    "hashicorp/go-plugin",
    "aws/aws-lambda-go",
    "gocloud.dev/server",
    "zenazn/goji",
];

/// What a finding is true under, which another file may tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// The program waits for no signal.
    NoSignals,
    /// No program of the module waits for a signal, and there is one.
    NoSignalsInModule,
    /// The program waits for no SIGTERM.
    NoSigterm,
    /// The program has a server or a worker's loop.
    Serves,
    /// A field of this name is an `http.Server`.
    ServerField(String),
    /// A server of this name is shut down.
    ShutDown(String),
    /// Nothing of this name is closed or shut down.
    NeverClosed(String),
    /// No program of the module is made of this package alone.
    Library,
}

/// What one Go file says.
#[derive(Debug, Default)]
pub(crate) struct GoFile {
    pub(crate) path: Arc<str>,
    pub(crate) is_main: bool,
    pub(crate) hears_signals: bool,
    pub(crate) hears_sigterm: bool,
    pub(crate) serves: bool,
    /// Fields that hold an `http.Server`.
    pub(crate) server_fields: Vec<String>,
    /// Names of what `Shutdown` is called on.
    pub(crate) shut_down: Vec<String>,
    /// Names of what `Close` or `Shutdown` is called on.
    pub(crate) closed: Vec<String>,
    pub(crate) found: Vec<(Finding, Vec<Need>)>,
    pub(crate) ignores: Vec<Ignore>,
}

/// Where the rules put what they find.
pub(crate) struct Sink<'a> {
    path: &'a Arc<str>,
    text: &'a str,
    lines: Lines,
    pub(crate) found: Vec<(Finding, Vec<Need>)>,
}

impl Sink<'_> {
    /// Reports at a node, if the rest of the program is so.
    pub(crate) fn report(
        &mut self,
        at: FlatNode<'_>,
        code: Code,
        message: String,
        needs: Vec<Need>,
    ) {
        let finding = Finding::new(self.path, self.place(at), code, message);
        self.found.push((finding, needs));
    }

    /// Gives what was reported last another severity.
    pub(crate) fn rate_last(&mut self, severity: Severity) {
        if let Some((finding, _)) = self.found.last_mut() {
            finding.severity = severity;
        }
    }

    fn place(&self, node: FlatNode<'_>) -> Place {
        self.lines.place(self.text, node.start())
    }
}

/// Whether a file can hold anything that is looked at: most do not, and are not parsed.
fn is_of_interest(text: &str) -> bool {
    let has = |word: &str| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    [
        "os/signal",
        "Serve(",
        "ListenAndServe",
        "Shutdown(",
        "Notify",
        "http.Server",
        "Fatal",
        "os.Exit",
        "SetupSignalHandler",
        "\npackage main",
        "gin-gonic/gin",
        "gofiber/fiber",
        "labstack/echo",
    ]
    .iter()
    .any(|word| has(word))
        || text.starts_with("package main")
        || SIGNAL_PACKAGES.iter().any(|part| has(part))
}

/// What `go generate` and others write, and what only `go run` builds.
fn is_generated(text: &str) -> bool {
    text.lines()
        .take_while(|line| !line.starts_with("package "))
        .take(80)
        .any(|line| {
            line.starts_with("// Code generated ") && line.ends_with("DO NOT EDIT.")
                || matches!(line.trim(), "//go:build ignore" | "// +build ignore")
        })
}

/// Reads a Go file; nothing where it says nothing that matters.
pub(crate) fn extract(text: &str, path: &Arc<str>) -> Option<GoFile> {
    if path.split('/').any(|part| part == "vendor") || !is_of_interest(text) || is_generated(text) {
        return None;
    }
    let tree = FlatTree::parse(text, Grammar::Go)?;
    let code = GoCode::new(tree.root());
    let package = code.root.below().find(|node| node.is("package_identifier"));
    let mut file = GoFile {
        path: Arc::clone(path),
        is_main: package.is_some_and(|name| name.text() == "main"),
        server_fields: code.fields_of_type(HTTP, "Server"),
        ..GoFile::default()
    };
    let own_signals = code.imports_any(&["os/signal"]);
    let of_others = SIGNAL_PACKAGES
        .iter()
        .any(|part| *part != "signal" && code.imports_any(&[part]))
        || code.imports_any(&["signals", "/signal"]) && !own_signals;
    file.hears_signals = own_signals || of_others;
    file.hears_sigterm = of_others;
    let mut sink = Sink {
        path,
        text,
        lines: Lines::new(text),
        found: Vec::new(),
    };
    for node in code.root.below().filter(|node| node.is("call_expression")) {
        file.note(&code, node);
    }
    rules::run(&code, file.is_main, &mut sink);
    file.found = sink.found;
    if suppress::may_have(text) {
        file.ignores = suppress::read_all(text, &sink.lines, code.root.comments());
    }
    (!tree.is_given_up()).then_some(file)
}

impl GoFile {
    /// Takes in what a call tells other files.
    fn note(&mut self, code: &GoCode<'_>, call: FlatNode<'_>) {
        if code.calls(call, SIGNAL, &["Notify", "NotifyContext"]) {
            let signals: Vec<FlatNode<'_>> = arguments(call).into_iter().skip(1).collect();
            self.hears_sigterm |=
                signals.is_empty() || signals.iter().any(|it| !is_known_other_signal(it.text()));
            return;
        }
        if let Some((package, name)) = code.called(call) {
            self.serves |= matches!(
                (package, name),
                (
                    HTTP,
                    "ListenAndServe" | "ListenAndServeTLS" | "Serve" | "ServeTLS"
                ) | ("net", "Listen" | "ListenTCP" | "ListenPacket")
                    | ("google.golang.org/grpc", "NewServer")
            );
            return;
        }
        let Some((operand, name)) = method(call) else {
            return;
        };
        self.serves |= name.starts_with("ListenAndServe");
        if !matches!(
            name,
            "Shutdown" | "Close" | "GracefulStop" | "Stop" | "ShutdownWithContext"
        ) {
            return;
        }
        if let Some(last) = last_name(operand) {
            self.closed.push(last.to_owned());
            if name == "Shutdown" {
                self.shut_down.push(last.to_owned());
            }
        }
    }
}

/// Signals that are not SIGTERM. What is not known may be it.
fn is_known_other_signal(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or(text);
    text.contains('.')
        && last != "SIGTERM"
        && (last.starts_with("SIG") || matches!(last, "Interrupt" | "Kill"))
}
