//! A compiler that has, or can build, a standard library for Windows.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::TARGET;
use crate::checkout::Checkout;
use crate::step::Failure;
use crate::{command, packages};

pub(crate) enum Toolchain {
    /// The one that everything else is built with has the target.
    Own,
    /// Debian's, unpacked here. It comes with the source of the standard library, not with the library.
    Debian(PathBuf),
}

/// Packages of Debian's second compiler, which is there to build browsers with; libraries with a version in their
/// name are looked up.
const PACKAGES: [&str; 3] = ["rustc-web", "libstd-rust-web-dev", "rust-web-src"];

impl Toolchain {
    /// The compiler's own target if it is installed, else Debian's compiler, fetched the first time.
    pub(crate) fn find(checkout: &Checkout) -> Result<Self, Failure> {
        let library = checkout
            .program("rustc")
            .args(["--print", "target-libdir", "--target", TARGET])
            .output();
        let has_target = library.is_ok_and(|answer| {
            let folder = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            answer.status.success() && Path::new(&folder).is_dir()
        });
        if has_target {
            return Ok(Self::Own);
        }
        let root = checkout.root().join("target/windows/toolchain");
        if !compiler(&root).is_file() {
            let advice = format!("or have `rustup target add {TARGET}` bring the ordinary one");
            fetch(checkout, &root).map_err(|failure| failure.advise(&advice))?;
        }
        Ok(Self::Debian(root))
    }

    /// A cargo that builds for Windows.
    pub(crate) fn cargo(&self, checkout: &Checkout, verb: &str) -> Command {
        let mut cargo = checkout.cargo([verb]);
        let target = TARGET.to_uppercase().replace('-', "_");
        cargo.env(
            format!("CARGO_TARGET_{target}_LINKER"),
            "x86_64-w64-mingw32-gcc",
        );
        if let Self::Debian(root) = self {
            cargo
                .arg("-Zbuild-std=std,panic_unwind,test")
                .env("RUSTC", compiler(root))
                .env("RUSTC_BOOTSTRAP", "1")
                .env("LD_LIBRARY_PATH", libraries(root));
        }
        cargo.args(["--target", TARGET]);
        cargo
    }
}

fn compiler(root: &Path) -> PathBuf {
    root.join("usr/bin/rustc")
}

/// Where the unpacked compiler has its libraries.
fn libraries(root: &Path) -> OsString {
    let mut folders = vec![root.join("usr/lib/x86_64-linux-gnu")];
    let llvm = fs::read_dir(root.join("usr/lib")).into_iter().flatten();
    folders.extend(
        llvm.flatten()
            .map(|entry| entry.path().join("lib"))
            .filter(|folder| folder.is_dir()),
    );
    std::env::join_paths(folders).unwrap_or_default()
}

/// Downloads and unpacks; nothing is installed, because these packages would take the place of others.
fn fetch(checkout: &Checkout, root: &Path) -> Result<(), Failure> {
    let ask = |program: &str, words: &[&str]| {
        let said = command::ask(checkout.program(program).args(words))?;
        Ok::<_, Failure>(String::from_utf8_lossy(&said).into_owned())
    };
    // An older compiler than ours is of no use.
    packages::refresh(checkout);
    let found = ask(
        "apt-cache",
        &["search", "--names-only", "^libstd-rust-web-[0-9]"],
    )?;
    let library = newest(&found).ok_or_else(|| {
        Failure::new(
            "apt-cache knows no libstd-rust-web: the package lists are missing (`apt-get update`, as root), or this \
             Debian does not have it",
        )
    })?;
    let needs = ask("apt-cache", &["depends", &library])?;
    let llvm = needs
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("libllvm"))
        .ok_or_else(|| Failure::new(format!("{library} names no libllvm that it needs")))?;
    let parcels = root.with_file_name("packages");
    fs::create_dir_all(&parcels)?;
    let mut download = checkout.program("apt-get");
    download
        .current_dir(&parcels)
        .arg("download")
        .args(PACKAGES)
        .args([&*library, llvm]);
    command::run(&mut download)?;
    // Complete or not there: the next run looks for the compiler in it.
    let unpacked = root.with_file_name("unpacking");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    for parcel in fs::read_dir(&parcels)?.flatten() {
        command::run(
            checkout
                .program("dpkg")
                .arg("-x")
                .arg(parcel.path())
                .arg(&unpacked),
        )?;
    }
    fs::rename(&unpacked, root)?;
    fs::remove_dir_all(&parcels)?;
    Ok(())
}

/// The name with the highest version in what `apt-cache search` says.
fn newest(found: &str) -> Option<String> {
    let version = |name: &str| {
        let version = name.rsplit('-').next()?;
        let numbers = version.split('.').map(|part| part.parse::<u32>().ok());
        numbers.collect::<Option<Vec<_>>>()
    };
    found
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter_map(|name| Some((version(name)?, name)))
        .max()
        .map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_library_is_taken_by_number() {
        let found = "\
libstd-rust-web-1.9 - Rust standard libraries
libstd-rust-web-1.96 - Rust standard libraries
libstd-rust-web-1.85 - Rust standard libraries
libstd-rust-web-dev-bpf - Rust standard libraries - development files
";
        assert_eq!(newest(found).as_deref(), Some("libstd-rust-web-1.96"));
        assert_eq!(newest(""), None);
    }
}
