//! One file for Node.js: what it does about signals and servers, and what is wrong if the program is as it seems.

use std::sync::Arc;

use super::names::{NodeCode, callee, literal, method};
use super::packages::waits_for_signals;
use super::rules;
use crate::finding::Finding;
use crate::flat_tree::{FlatNode, FlatTree, Grammar};
use crate::rule::Code;
use crate::severity::Severity;
use crate::source::Lines;
use crate::suppress::{self, Ignore};

/// Longer files are bundles.
const LONGEST: usize = 1024 * 1024;

/// A line of a program that a person wrote is shorter on average.
const LONGEST_LINES: usize = 250;

/// What a finding is true under, which another file or the package may tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The program waits for no SIGTERM.
    NoSigterm,
    /// The program is a server.
    Listens,
    /// The package depends on a framework for servers.
    Framework,
    /// No file calls `enableShutdownHooks`.
    NoShutdownHooks,
}

/// What one file says.
#[derive(Debug, Default)]
pub(crate) struct NodeFile {
    pub(crate) path: Arc<str>,
    pub(crate) hears_sigterm: bool,
    pub(crate) listens: bool,
    pub(crate) enables_hooks: bool,
    /// Classes of Nest that want to be called when the program stops.
    pub(crate) has_hooks: bool,
    pub(crate) found: Vec<(Finding, Vec<Need>)>,
    pub(crate) ignores: Vec<Ignore>,
}

/// Where the rules put what they find.
pub(crate) struct Sink<'a> {
    path: &'a Arc<str>,
    text: &'a str,
    lines: Lines,
    is_tool: bool,
    found: Vec<(Finding, Vec<Need>)>,
}

impl Sink<'_> {
    /// Reports at a node, if the rest of the program is so.
    pub(crate) fn report(
        &mut self,
        at: FlatNode<'_>,
        code: Code,
        message: impl Into<String>,
        needs: Vec<Need>,
    ) {
        let place = self.lines.place(self.text, at.start());
        let mut finding = Finding::new(self.path, place, code, message);
        if self.is_tool {
            finding.severity = Severity::Note;
        }
        self.found.push((finding, needs));
    }
}

/// Whether a file can hold anything that is looked at: most do not, and are not parsed.
fn is_of_interest(text: &str) -> bool {
    let has = |word: &str| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    [
        "SIGTERM",
        "SIGINT",
        "SIGKILL",
        "SIGSTOP",
        ".listen(",
        "process.exit",
        "NestFactory",
        "enableShutdownHooks",
        "OnModuleDestroy",
        "ApplicationShutdown",
        "@hono/node-server",
        "raceful",
        "terminus",
        "hutdown",
        "exit-hook",
        "lightship",
        "close-with-grace",
        "moleculer",
    ]
    .iter()
    .any(|word| has(word))
}

/// Bundles and minified files.
fn is_generated(text: &str, path: &str) -> bool {
    let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
    text.len() > LONGEST
        || text.len() / lines > LONGEST_LINES
        || path.contains(".min.")
        || path.ends_with(".d.ts")
}

/// A tool for a terminal: started by a person, and ended by one.
fn is_tool(text: &str, code: &NodeCode<'_>) -> bool {
    let parsers = [
        "commander",
        "yargs",
        "cac",
        "meow",
        "minimist",
        "@oclif/core",
        "inquirer",
        "ora",
        "optimist",
        "arg",
    ];
    text.starts_with("#!") || code.modules().any(|module| parsers.contains(&module))
}

/// Reads a file; nothing where it says nothing that matters.
pub(crate) fn extract(text: &str, path: &Arc<str>) -> Option<NodeFile> {
    let is_of_others = path
        .split('/')
        .any(|part| matches!(part, "vendor" | "bower_components"));
    if is_of_others || !is_of_interest(text) || is_generated(text, path) {
        return None;
    }
    // The grammar with JSX reads all but the casts `<T>x`, which only files of these names may have.
    let grammar = match path.ends_with("ts") {
        true => Grammar::TypeScript,
        false => Grammar::Tsx,
    };
    let tree = FlatTree::parse(text, grammar)?;
    let code = NodeCode::new(tree.root());
    let mut file = NodeFile {
        path: Arc::clone(path),
        hears_sigterm: code.modules().any(waits_for_signals),
        ..NodeFile::default()
    };
    for node in code.root.below() {
        file.note(&code, node);
    }
    let mut sink = Sink {
        path,
        text,
        lines: Lines::new(text),
        is_tool: is_tool(text, &code),
        found: Vec::new(),
    };
    rules::run(&code, &mut sink);
    file.found = sink.found;
    if suppress::may_have(text) {
        file.ignores = suppress::read_all(text, &sink.lines, code.root.comments());
    }
    (!tree.is_given_up()).then_some(file)
}

impl NodeFile {
    /// Takes in what a node tells other files.
    fn note(&mut self, code: &NodeCode<'_>, node: FlatNode<'_>) {
        match node.kind() {
            "string" => self.hears_sigterm |= literal(node) == "SIGTERM" && !is_sent(node),
            "property_identifier" if node.text() == "SIGTERM" => self.hears_sigterm = true,
            "property_identifier" if node.text() == "enableShutdownHooks" => {
                self.enables_hooks = true
            }
            "type_identifier" | "identifier" => {
                self.has_hooks |= matches!(
                    node.text(),
                    "OnModuleDestroy" | "OnApplicationShutdown" | "BeforeApplicationShutdown"
                );
            }
            "call_expression" => {
                let is_listen = method(node).is_some_and(|(object, name)| {
                    name == "listen"
                        && (code.server(object).is_some()
                            || rules::is_imported_application(code, object))
                });
                self.listens |= is_listen || rules::is_serve(code, node);
            }
            _ => {}
        }
    }
}

/// Whether a signal is one that is sent: `child.kill('SIGTERM')`, `{ killSignal: 'SIGTERM' }`.
fn is_sent(signal: FlatNode<'_>) -> bool {
    let near: Vec<FlatNode<'_>> = signal.ancestors().take(3).collect();
    near.iter().any(|above| match above.kind() {
        "call_expression" => {
            callee(*above).is_some_and(|it| it.text().to_ascii_lowercase().contains("kill"))
        }
        "pair" => above
            .child("key")
            .is_some_and(|it| it.text().to_ascii_lowercase().contains("kill")),
        "binary_expression" => true,
        _ => false,
    })
}
