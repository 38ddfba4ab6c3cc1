//! The modules on which the promises rest.

/// A name for `--module`, and what is in it: files, or directories that end in a slash, under the `src` of its crate.
pub(super) struct Module {
    pub(super) name: &'static str,
    /// The sources of its crate.
    pub(super) sources: &'static str,
    pub(super) paths: &'static [&'static str],
    pub(super) promise: &'static str,
}

const LIFECYCLE: &str = "crates/adieu-lifecycle/src/";
const CORE: &str = "crates/adieu-core/src/";
const LIBRARY: &str = "crates/adieu/src/";

/// The sources of the crates with mutants: each gets the runtime as a module of its root.
pub(super) const SOURCES: &[&str] = &[LIFECYCLE, CORE, LIBRARY];

pub(super) const MODULES: &[Module] = &[
    Module {
        name: "lifecycle",
        sources: LIFECYCLE,
        paths: &[
            "budget.rs",
            "event.rs",
            "machine.rs",
            "machine/",
            "part.rs",
            "state.rs",
            "terms.rs",
        ],
        promise: "the order of a stop and its budget",
    },
    Module {
        name: "close-policy",
        sources: LIBRARY,
        paths: &["http/close_policy.rs"],
        promise: "how each HTTP connection is closed",
    },
    Module {
        name: "lease",
        sources: LIBRARY,
        paths: &["schedule/lease.rs"],
        promise: "one replica runs a schedule",
    },
    Module {
        name: "roster",
        sources: LIBRARY,
        paths: &[
            "tracking/task_registry.rs",
            "tracking/shard.rs",
            "tracking/active_count.rs",
        ],
        promise: "every task is counted and named",
    },
    Module {
        name: "store-traits",
        sources: CORE,
        paths: &["store.rs", "store_error.rs"],
        promise: "a save that expects another version is a conflict",
    },
    Module {
        name: "store",
        sources: LIBRARY,
        paths: &["state/file/", "state/handle.rs"],
        promise: "no state lost or torn",
    },
    Module {
        name: "signal",
        sources: LIBRARY,
        paths: &["signal/"],
        promise: "every signal arrives",
    },
    Module {
        name: "sentinel",
        sources: LIBRARY,
        paths: &["runtime/hard_exit.rs", "runtime/watchdog.rs"],
        promise: "the process ends by its deadline",
    },
    Module {
        name: "conductor",
        sources: LIBRARY,
        paths: &["runtime/driver.rs"],
        promise: "what the life cycle says is done",
    },
    Module {
        name: "handoff",
        sources: LIBRARY,
        paths: &["handoff/"],
        promise: "the next process takes over, or this one goes on",
    },
];

/// The module that a tracked file belongs to.
pub(super) fn of(file: &str) -> Option<&'static Module> {
    if !file.ends_with(".rs") {
        return None;
    }
    MODULES.iter().find(|module| {
        file.strip_prefix(module.sources).is_some_and(|file| {
            module
                .paths
                .iter()
                .any(|path| *path == file || (path.ends_with('/') && file.starts_with(path)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_its_module_or_in_none() {
        let name = |file: &str| of(file).map(|module| module.name);
        assert_eq!(
            name("crates/adieu-lifecycle/src/machine/deadline.rs"),
            Some("lifecycle")
        );
        assert_eq!(name("crates/adieu/src/signal/registry.rs"), Some("signal"));
        assert_eq!(name("crates/adieu/src/util/sys.rs"), None);
        assert_eq!(name("crates/adieu-redis/src/store.rs"), None);
        assert_eq!(name("crates/adieu-cli/src/signal.rs"), None);
    }
}
