//! The copy of the workspace that the mutants are written into.
//!
//! A file is written only if it changes, so that cargo builds again only what has to be.

use std::collections::BTreeSet;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use super::modules::SOURCES;
use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

pub(super) struct Tree {
    root: PathBuf,
    pub(super) files: Vec<String>,
}

impl Tree {
    /// Copies what git knows, and what it would know if it were added.
    pub(super) fn copy(checkout: &Checkout, root: PathBuf) -> Result<Self, Failure> {
        let trust = format!("safe.directory={}", checkout.root().display());
        let words = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];
        let names = command::ask(checkout.program("git").args(["-c", &trust]).args(words))?;
        let names = String::from_utf8_lossy(&names);
        let mut files: Vec<String> = names
            .split_terminator('\0')
            .filter(|name| {
                checkout
                    .root()
                    .join(name)
                    .symlink_metadata()
                    .is_ok_and(|it| !it.is_dir())
            })
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        fs::create_dir_all(&root)?;
        let tree = Self { root, files };
        tree.remove_others(&tree.root)?;
        for name in &tree.files {
            // Rendered afterwards: a plain copy first would change it twice.
            if super::modules::of(name).is_none() && !is_root(name) {
                tree.copy_one(&checkout.root().join(name), name)?;
            }
        }
        Ok(tree)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn copy_one(&self, from: &Path, name: &str) -> Result<(), Failure> {
        let to = self.root.join(name);
        if let Ok(target) = fs::read_link(from) {
            if fs::read_link(&to).is_ok_and(|it| it == target) {
                return Ok(());
            }
            make_room(&to)?;
            #[cfg(unix)]
            std::os::unix::fs::symlink(target, &to)?;
            return Ok(());
        }
        let bytes = fs::read(from)?;
        if fs::read(&to).is_ok_and(|it| it == bytes) {
            return Ok(());
        }
        make_room(&to)?;
        fs::copy(from, &to)?;
        Ok(())
    }

    /// Writes a file that is made, not copied.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let to = self.root.join(name);
        if fs::read(&to).is_ok_and(|it| it == text.as_bytes()) {
            return Ok(());
        }
        make_room(&to)?;
        fs::write(to, text)?;
        Ok(())
    }

    /// Removes what is not in the workspace any more.
    fn remove_others(&self, folder: &Path) -> Result<(), Failure> {
        let known: BTreeSet<&str> = self.files.iter().map(String::as_str).collect();
        for found in fs::read_dir(folder)? {
            let found = found?;
            let path = found.path();
            let name = path.strip_prefix(&self.root).unwrap_or(&path);
            let name = name.to_string_lossy().into_owned();
            if found.file_type()?.is_dir() {
                self.remove_others(&path)?;
            } else if !known.contains(&*name) && !is_runtime(&name) && name != "Cargo.lock" {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

/// The root of a crate with mutants, which gets the runtime as a module.
pub(super) fn root_of(sources: &str) -> String {
    format!("{sources}lib.rs")
}

pub(super) fn runtime_of(sources: &str) -> String {
    format!("{sources}mutants_runtime.rs")
}

fn is_root(name: &str) -> bool {
    SOURCES.iter().any(|sources| name == root_of(sources))
}

fn is_runtime(name: &str) -> bool {
    SOURCES.iter().any(|sources| name == runtime_of(sources))
}

fn make_room(to: &Path) -> Result<(), Failure> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if to.symlink_metadata().is_ok() {
        fs::remove_file(to)?;
    }
    Ok(())
}

/// A number for the content of a file, to see whether it is still the same.
pub(super) fn digest(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for part in parts {
        hasher.write(part.as_ref());
        hasher.write_u8(0xff);
    }
    hasher.finish()
}
