//! The tests of the shop on PostgreSQL, where there is one to start.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use adieu_testkit::ReservedPort;
use tempfile::TempDir;

use crate::database;

/// A server of the test's own, stopped when dropped.
struct Server {
    bin: PathBuf,
    data: TempDir,
    port: ReservedPort,
}

/// Where the server's programs are: `initdb` on the path often is a link or a script for another version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path));
    found.into_iter().find(|bin| {
        ["initdb", "pg_ctl", "postgres"]
            .iter()
            .all(|name| bin.join(name).is_file())
    })
}

/// PostgreSQL refuses to run as root, so root becomes another user for it.
fn command(program: impl AsRef<OsStr>) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
            "--",
        ])
        .arg(program);
    command
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

impl Server {
    /// A fresh server, or why there is none.
    fn start() -> Result<Self, &'static str> {
        let bin = programs().ok_or("no initdb, pg_ctl and postgres are installed")?;
        let data = TempDir::new().expect("a directory for the database");
        if rustix::process::geteuid().is_root() {
            if !succeeds(&mut command("true")) {
                return Err("we are root, and there is no user `postgres` to become");
            }
            let owned = succeeds(Command::new("chown").arg("postgres").arg(data.path()));
            assert!(owned, "root can give a directory away");
        }
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(data.path(), private).expect("our own directory");
        let made = succeeds(
            command(bin.join("initdb"))
                .args(["--auth=trust", "--username=orders", "--no-sync", "--pgdata"])
                .arg(data.path())
                .current_dir("/"),
        );
        assert!(made, "initdb makes a database");
        let port = ReservedPort::reserve().expect("a port");
        let server = Self { bin, data, port };
        let options = format!(
            "-F -c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories={}",
            server.port.number(),
            server.data.path().display()
        );
        let started = server.control(&["start", "-w", "-o", &options]);
        assert!(started, "the server starts");
        Ok(server)
    }

    fn control(&self, words: &[&str]) -> bool {
        let data: &Path = self.data.path();
        succeeds(
            command(self.bin.join("pg_ctl"))
                .args(words)
                .arg("--pgdata")
                .arg(data)
                .arg("--log")
                .arg(data.join("log"))
                .current_dir("/"),
        )
    }

    fn url(&self) -> String {
        format!("postgres://orders@{}/postgres", self.port.address())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.control(&["stop", "-m", "immediate"]);
    }
}

/// One server for all: starting it is what takes the time.
#[test]
fn the_same_promises_on_postgresql() {
    let server = match Server::start() {
        Ok(server) => server,
        Err(why) => return fixture_skip::missing(why),
    };
    database::a_transaction_in_flight_commits_before_the_pool_closes(&server.url());
    database::a_connection_held_for_ever_does_not_hold_the_exit(&server.url());
}
