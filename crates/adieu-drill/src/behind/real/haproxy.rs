//! The configuration of HAProxy: a master with a worker, health checks, and a log that names the instance.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{Config, NUMBER};

pub(super) const FILE: &str = "haproxy.cfg";
pub(super) const LOG: &str = "requests.log";
const ADMIN: &str = "admin.sock";
const ADMIN_TIMEOUT: Duration = Duration::from_secs(1);

/// It writes no files: its standard output is one. A master that stays in the foreground starts a new worker at SIGUSR2.
pub(super) fn command(program: &Path, dir: &Path) -> Vec<String> {
    let script = "exec \"$0\" -W -db -f \"$1\" >\"$2\"";
    let mut words = vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()];
    let files = [program, &dir.join(FILE), &dir.join(LOG)];
    words.extend(files.map(|file| file.display().to_string()));
    words
}

pub(super) fn config(config: &Config, dir: &Path) -> String {
    let profile = &config.profile;
    let check = match (&profile.health, &config.probe_path) {
        (Some(_), Some(path)) => {
            format!("  option httpchk GET {path}\n  http-check expect status 200-399\n")
        }
        _ => String::new(),
    };
    let servers: String = config
        .routes
        .iter()
        .map(|route| {
            let check = profile.health.as_ref().map_or_else(String::new, |health| {
                format!(
                    " check inter {}ms fall {}",
                    health.every.as_millis(),
                    health.failures
                )
            });
            let probe = route.probe.map_or_else(String::new, |probe| {
                format!(" addr {} port {}", probe.ip(), probe.port())
            });
            format!(
                "  server i{} {}{check} pool-max-conn {} pool-purge-delay {}ms{probe}\n",
                route.id,
                route.address,
                profile.pool.connections,
                profile.pool.idle_timeout.as_millis()
            )
        })
        .collect();
    format!(
        "global
  maxconn 4096
  log stdout format raw local0 info
  stats socket {dir}/{ADMIN} mode 600 level admin expose-fd listeners
defaults
  mode http
  log global
  log-format \"%[capture.req.hdr(0)]|%ST|%si:%sp|%tsc|%rc\"
  timeout connect 5s
  timeout client {timeout}ms
  timeout server {timeout}ms
  retries {retries}
  option redispatch
frontend load
  bind {listen}
  http-request capture req.hdr(x-request-id) len 64
  http-request set-log-level silent if {{ path {NUMBER} }}
  http-request return status 200 hdr x-adieu-drill-configuration {number} if {{ path {NUMBER} }}
  default_backend instances
backend instances
  balance roundrobin
{check}{servers}",
        dir = dir.display(),
        timeout = config.timeout.as_millis(),
        retries = profile.retries(),
        listen = config.listen,
        number = config.number,
    )
}

/// Whether the health check has taken this instance out, by the statistics that HAProxy gives on its own socket.
pub(super) async fn is_down(dir: &Path, id: u32) -> bool {
    let talk = async {
        let mut socket = UnixStream::connect(dir.join(ADMIN)).await.ok()?;
        socket.write_all(b"show stat -1 4 -1\n").await.ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).await.ok()?;
        Some(text)
    };
    let text = timeout(ADMIN_TIMEOUT, talk)
        .await
        .ok()
        .flatten()
        .unwrap_or_default();
    status(&text, id).is_some_and(|status| status.starts_with("DOWN"))
}

/// The status of a server in the table of the statistics, whose first line names the columns.
fn status(table: &str, id: u32) -> Option<&str> {
    let mut lines = table.lines();
    let names = lines.next()?.trim_start_matches("# ");
    let column = |wanted| names.split(',').position(|name| name == wanted);
    let (server, status) = (column("svname")?, column("status")?);
    let name = format!("i{id}");
    lines
        .map(|line| line.split(',').collect::<Vec<_>>())
        .find(|fields| fields.get(server) == Some(&name.as_str()))
        .and_then(|fields| fields.get(status).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_server_is_found_by_the_names_of_the_columns() {
        let table = "# pxname,svname,qcur,status,weight\ninstances,i1,0,UP,1\ninstances,i12,0,DOWN 2/3,1\n\n";
        assert_eq!(status(table, 1), Some("UP"));
        assert_eq!(status(table, 12), Some("DOWN 2/3"));
        assert_eq!(status(table, 2), None);
        assert_eq!(status("", 1), None);
    }
}
