//! Windows, as far as wine is one.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::TARGET;
use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

/// Where Debian puts it; the script on PATH asks for a 32-bit one too.
pub(super) const PROGRAM: &str = "/usr/lib/wine/wine64";

/// Rust's standard library asks Windows for random numbers through a library that wine 8 lacks. One function, the
/// one that is used, is enough.
const RANDOM: &str = "\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) {
    return SystemFunction036(buffer, (ULONG)length);
}
";

pub(crate) struct Wine {
    /// Its drive and its registry: of this working copy alone.
    prefix: PathBuf,
    /// What it lacks.
    libraries: PathBuf,
}

impl Wine {
    pub(crate) fn prepare(checkout: &Checkout) -> Result<Self, Failure> {
        let folder = checkout.root().join("target/windows");
        let wine = Self {
            prefix: folder.join("wine"),
            libraries: folder.join("lib"),
        };
        fs::create_dir_all(&wine.libraries)?;
        let library = wine.libraries.join("bcryptprimitives.dll");
        if !library.is_file() {
            let source = wine.libraries.join("bcryptprimitives.c");
            fs::write(&source, RANDOM)?;
            let mut compile = checkout.program("x86_64-w64-mingw32-gcc");
            compile.args(["-shared", "-o"]).arg(&library).arg(&source);
            command::run(compile.arg("-ladvapi32"))?;
        }
        if !wine.prefix.join("system.reg").is_file() {
            // The first start makes the prefix; the trials should not wait for it.
            let mut first = checkout.program(PROGRAM);
            command::run(wine.around(&mut first).args(["cmd", "/c", "ver"]))?;
        }
        Ok(wine)
    }

    /// Lets cargo run what it has built.
    pub(crate) fn runs<'command>(
        &self,
        checkout: &Checkout,
        cargo: &'command mut Command,
    ) -> &'command mut Command {
        let target = TARGET.to_uppercase().replace('-', "_");
        cargo
            .env(format!("CARGO_TARGET_{target}_RUNNER"), PROGRAM)
            // Snapshots are looked for from here; there is no cargo in there to ask.
            .env("INSTA_WORKSPACE_ROOT", checkout.root());
        self.around(cargo)
    }

    /// A program that was built.
    pub(crate) fn program(&self, checkout: &Checkout, name: &str) -> Command {
        let built = format!("target/{TARGET}/debug/{name}.exe");
        let mut command = checkout.program(PROGRAM);
        self.around(&mut command).arg(checkout.root().join(built));
        command
    }

    fn around<'command>(&self, command: &'command mut Command) -> &'command mut Command {
        command
            .env("WINEPREFIX", &self.prefix)
            .env("WINEPATH", &self.libraries)
            .env("WINEDEBUG", "-all")
            // To find the lines of a panic takes it longer than some tests wait.
            .env("RUST_BACKTRACE", "0")
            // No window is ever opened.
            .env_remove("DISPLAY")
    }
}
