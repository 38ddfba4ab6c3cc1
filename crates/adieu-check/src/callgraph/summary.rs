//! One file as the call graph sees it. Syntax trees are dropped once this is made.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::modules::ModuleId;
use super::steps::StopStep;
use crate::finding::{Finding, Place};
use crate::fix::Fix;
use crate::suppress::Ignore;

/// A name or path of one file.
pub(crate) type NameId = u32;

/// The paths and names of one file, each stored once, one behind the other: a large project has
/// millions, and a box for each would be most of the memory.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: String,
    /// Where each name ends.
    ends: Vec<u32>,
    /// Names by their hash, while there are more to come.
    table: HashTable<NameId>,
}

impl Names {
    pub(crate) fn add(&mut self, name: &str) -> NameId {
        let hash = FxBuildHasher.hash_one(name);
        let Names { text, ends, table } = self;
        if let Some(known) = table.find(hash, |id| slice(text, ends, *id) == name) {
            return *known;
        }
        let id = ends.len() as NameId;
        text.push_str(name);
        ends.push(text.len() as u32);
        table.insert_unique(hash, id, |id| {
            FxBuildHasher.hash_one(slice(text, ends, *id))
        });
        id
    }

    pub(crate) fn get(&self, name: NameId) -> &str {
        slice(&self.text, &self.ends, name)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The file is read: no name will be added.
    pub(crate) fn seal(&mut self) {
        self.table = HashTable::new();
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

fn slice<'a>(text: &'a str, ends: &[u32], name: NameId) -> &'a str {
    let at = name as usize;
    let start = match at.checked_sub(1) {
        Some(before) => ends.get(before).copied().unwrap_or(0),
        None => 0,
    };
    let end = ends.get(at).copied().unwrap_or(start);
    text.get(start as usize..end as usize).unwrap_or("")
}

/// What a name at the top of a module stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbol {
    Function(u32),
    Class(u32),
    /// An import or a value: another path to follow.
    Path(NameId),
    /// Bound to several things, or to something unknown.
    Unknown,
}

/// How a call is made. A set of bits, because most calls have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CallFlags(u16);

impl CallFlags {
    /// `await call()`, or handed to something that awaits it.
    pub(crate) const AWAITED: CallFlags = CallFlags(1);
    /// A zero timeout, `block=False` and the like.
    pub(crate) const POLLS: CallFlags = CallFlags(2);
    /// The result is iterated on the spot, so a generator runs here.
    pub(crate) const ITERATED: CallFlags = CallFlags(4);
    /// Inside `finally`.
    pub(crate) const IN_FINALLY: CallFlags = CallFlags(8);
    /// Not called here: handed to a thread that will call it.
    pub(crate) const HANDED: CallFlags = CallFlags(32);
    /// In the program's main before its first await: nothing else runs yet.
    pub(crate) const AT_START: CallFlags = CallFlags(64);
    /// Opens a file to read it.
    pub(crate) const READS: CallFlags = CallFlags(256);
    /// Only where something is not there yet: behind `if self.client is None`.
    pub(crate) const GUARDED: CallFlags = CallFlags(128);
    /// Its coroutine becomes a task of its own or runs under a timeout.
    pub(crate) const SPAWNED: CallFlags = CallFlags(16);

    pub(crate) fn has(self, other: CallFlags) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn set(&mut self, other: CallFlags) {
        self.0 |= other.0;
    }
}

/// One call in a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) target: NameId,
    pub(crate) place: Place,
    pub(crate) flags: CallFlags,
}

/// What kind of function it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FnFlags(u16);

impl FnFlags {
    /// Its body runs on the event loop.
    pub(crate) const ASYNC: FnFlags = FnFlags(1);
    /// Calls do not run its body here: a decorator took it over, or it is abstract.
    pub(crate) const OPAQUE: FnFlags = FnFlags(2);
    /// Calling it makes a generator; its body runs when that is iterated.
    pub(crate) const GENERATOR: FnFlags = FnFlags(4);
    /// Reading the attribute calls it.
    pub(crate) const PROPERTY: FnFlags = FnFlags(8);
    /// Test code.
    pub(crate) const TEST: FnFlags = FnFlags(16);
    /// An ordinary function that the event loop calls.
    pub(crate) const CALLBACK: FnFlags = FnFlags(32);
    /// Awaits in a loop that only a cancellation ends.
    pub(crate) const FOREVER: FnFlags = FnFlags(64);
    /// Starts the program.
    pub(crate) const ENTRY: FnFlags = FnFlags(128);
    /// Runs in a thread of its own: a thread's `run`, a request handler that is not a coroutine.
    pub(crate) const IN_THREAD: FnFlags = FnFlags(256);
    /// Keeps its result: its body runs once.
    pub(crate) const CACHED: FnFlags = FnFlags(512);
    /// A framework calls it for a request, a message or a command.
    pub(crate) const HANDLER: FnFlags = FnFlags(1024);

    pub(crate) fn has(self, other: FnFlags) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn set(&mut self, other: FnFlags) {
        self.0 |= other.0;
    }
}

/// One function, method or nested function.
#[derive(Debug)]
pub(crate) struct Function {
    /// As a person would write it: `Class.method`, `outer.inner`.
    pub(crate) name: Box<str>,
    pub(crate) flags: FnFlags,
    /// The class a call gives an instance of, from the annotation.
    pub(crate) returns: Option<NameId>,
    pub(crate) calls: Vec<Call>,
    /// Where each awaited clean-up without a shield stands in a `finally`.
    pub(crate) bare_cleanups: Vec<Place>,
    /// Where it writes the program's state over the old one.
    pub(crate) in_place_save: Option<Place>,
}

/// One class, with what its instances hold.
#[derive(Debug, Default)]
pub(crate) struct Class {
    pub(crate) bases: Vec<NameId>,
    pub(crate) members: FxHashMap<Box<str>, Symbol>,
}

/// An `impl` block for a type of another module.
#[derive(Debug)]
pub(crate) struct Extension {
    /// The path of the type.
    pub(crate) of: NameId,
    /// Its functions, by name.
    pub(crate) members: Vec<(Box<str>, u32)>,
    /// The trait that it implements, whose default methods the type has as well.
    pub(crate) base: Option<NameId>,
}

/// One file.
#[derive(Debug)]
pub(crate) struct FileSummary {
    pub(crate) path: Arc<str>,
    pub(crate) module: ModuleId,
    pub(crate) names: Names,
    pub(crate) functions: Vec<Function>,
    pub(crate) classes: Vec<Class>,
    pub(crate) symbols: FxHashMap<Box<str>, Symbol>,
    /// Methods for types that stand in other modules, and traits that these implement.
    pub(crate) extensions: Vec<Extension>,
    /// Modules whose names are all imported.
    pub(crate) stars: Vec<NameId>,
    /// Findings that needed no other file.
    pub(crate) findings: Vec<Finding>,
    /// Where ordinary functions make a runtime.
    pub(crate) runtimes: Vec<Place>,
    /// Repairs for findings that the call graph may make, by place.
    pub(crate) fixes: FxHashMap<Place, Fix>,
    pub(crate) ignores: Vec<Ignore>,
    pub(crate) facts: Facts,
    /// What its functions do that takes time, by their index; empty where no budget is asked for.
    pub(crate) timed: FxHashMap<u32, Timed>,
}

/// What a file says about the program it is part of.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Something here handles SIGTERM, or hands the process to a server that does.
    pub(crate) handles_signals: bool,
    /// Has a loop outside of coroutines that nothing ends.
    pub(crate) is_endless: bool,
    /// What it sets of a queue of jobs.
    pub(crate) jobs: JobSettings,
    /// Where `tokio::signal::ctrl_c` is waited for.
    pub(crate) ctrl_c: Option<Place>,
    /// Coroutine functions run from the `__main__` block.
    pub(crate) mains: Vec<(NameId, Place)>,
    /// Uses a library that serves clients or works through a queue.
    pub(crate) is_service: bool,
    /// A command-line tool, an example, or a script of the developers.
    pub(crate) is_aside: bool,
    /// Starts a runtime of its own: `#[tokio::main]`.
    pub(crate) serves: bool,
    /// Where the code says how long its stop may take.
    pub(crate) graces: Vec<CodeGrace>,
    /// Servers that its code starts.
    pub(crate) servers: Vec<CodeServer>,
    /// What its code has a framework call while it stops.
    pub(crate) hooks: Vec<Hook>,
    /// Asks whether it runs on Windows.
    pub(crate) is_for_windows: bool,
    /// Calls of `add_signal_handler` in a file that does not look where it runs.
    pub(crate) unguarded_handlers: Vec<Place>,
}

/// What a file sets of Celery and its broker.
#[derive(Debug, Default)]
pub(crate) struct JobSettings {
    /// Where tasks are acknowledged when they have ended.
    pub(crate) acks_late: Option<Place>,
    /// A task whose worker is lost goes back to the queue.
    pub(crate) rejects_lost: bool,
    /// How long the broker waits for an acknowledgement, in seconds, and where that stands.
    pub(crate) visibility: Option<(u64, Place)>,
}

/// How long a program gives itself to stop, as its code says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeGrace {
    /// None when the code says it in a way that only running it would tell.
    pub(crate) seconds: Option<u64>,
    pub(crate) place: Place,
    /// Who takes it.
    pub(crate) server: &'static str,
    /// The setting, as it is called there.
    pub(crate) setting: &'static str,
}

/// What a function does that takes time, and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Timed {
    pub(crate) place: Place,
    pub(crate) steps: Vec<StopStep>,
}

/// A server that code starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeServer {
    pub(crate) server: &'static str,
    pub(crate) place: Place,
}

/// When a framework calls a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Moment {
    /// The part of a lifespan behind its `yield`, or a shutdown event, once the requests have ended.
    Lifespan,
    /// Before the requests have ended.
    OnShutdown,
    /// Once they have.
    OnCleanup,
    /// When the interpreter ends.
    AtExit,
}

/// A function that a framework calls while it stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(crate) moment: Moment,
    /// The path of the function.
    pub(crate) path: Box<str>,
    /// The function also runs at the start: only what stands behind its `yield` counts.
    pub(crate) yields: bool,
    pub(crate) place: Place,
}

impl FileSummary {
    pub(crate) fn new(path: Arc<str>, module: ModuleId) -> FileSummary {
        FileSummary {
            path,
            module,
            names: Names::default(),
            functions: Vec::new(),
            classes: Vec::new(),
            symbols: FxHashMap::default(),
            extensions: Vec::new(),
            stars: Vec::new(),
            findings: Vec::new(),
            runtimes: Vec::new(),
            fixes: FxHashMap::default(),
            ignores: Vec::new(),
            facts: Facts::default(),
            timed: FxHashMap::default(),
        }
    }
}
