//! What is wrong in a program as a whole: the files of a package together, and the packages of the project below it.

use rustc_hash::FxHashMap;

use super::packages::{Package, Packages};
use super::summary::{Need, NodeFile};
use crate::finding::Finding;
use crate::rule;
use crate::severity::Severity;

/// The last version of Node whose `close` leaves idle connections open.
const LAST_WITHOUT_IDLE_CLOSE: u32 = 18;

/// What a package does, over its files.
#[derive(Debug, Default, Clone, Copy)]
struct Scope {
    hears_sigterm: bool,
    listens: bool,
    enables_hooks: bool,
    has_hooks: bool,
}

impl Scope {
    fn add(&mut self, other: Scope) {
        self.hears_sigterm |= other.hears_sigterm;
        self.listens |= other.listens;
        self.enables_hooks |= other.enables_hooks;
        self.has_hooks |= other.has_hooks;
    }
}

/// The findings that hold for the whole program.
pub(crate) fn findings(files: &mut [NodeFile], packages: &Packages) -> Vec<Finding> {
    // Files outside of every package are one.
    let mut own: FxHashMap<Option<usize>, Scope> = FxHashMap::default();
    for file in files.iter() {
        own.entry(packages.of(&file.path)).or_default().add(Scope {
            hears_sigterm: file.hears_sigterm,
            listens: file.listens,
            enables_hooks: file.enables_hooks,
            has_hooks: file.has_hooks,
        });
    }
    let mut kept = Vec::new();
    for file in files {
        let number = packages.of(&file.path);
        let package = number.and_then(|number| packages.get(number));
        if package.is_some_and(|package| package.is_guest) {
            continue;
        }
        let mut scope = own.get(&number).copied().unwrap_or_default();
        let listens = scope.listens;
        for reached in number
            .map(|number| packages.reached(number))
            .unwrap_or_default()
        {
            scope.add(own.get(&Some(reached)).copied().unwrap_or_default());
            let reached = packages.get(reached);
            scope.hears_sigterm |= reached.is_some_and(Package::waits_for_signals);
        }
        let holds = |need: &Need| match need {
            Need::NoSigterm => !scope.hears_sigterm,
            Need::Listens => listens,
            Need::Framework => package.is_some_and(Package::has_framework),
            Need::NoShutdownHooks => !scope.enables_hooks,
        };
        let mut found = std::mem::take(&mut file.found);
        found.retain(|(_, needs)| needs.iter().all(holds));
        // A handler of SIGINT alone is why nothing closes the server.
        if found
            .iter()
            .any(|(finding, _)| finding.code == rule::NODE_SIGINT_ALONE)
        {
            found.retain(|(finding, _)| finding.code != rule::NODE_NO_HANDLER);
        }
        // One handler closes all servers of a file.
        let mut is_reported = false;
        found.retain(|(finding, _)| {
            finding.code != rule::NODE_NO_HANDLER || !std::mem::replace(&mut is_reported, true)
        });
        for (mut finding, _) in found {
            match finding.code {
                rule::NODE_CLOSE_WITHOUT_LIMIT => {
                    let is_old = package
                        .and_then(|package| package.oldest_node)
                        .is_some_and(|version| version <= LAST_WITHOUT_IDLE_CLOSE);
                    if !is_old {
                        finding.severity = Severity::Note;
                    }
                }
                rule::NEST_WITHOUT_HOOKS
                    if scope.has_hooks && finding.severity == Severity::Warning =>
                {
                    finding.severity = Severity::Error;
                }
                _ => {}
            }
            kept.push(finding);
        }
    }
    kept
}
