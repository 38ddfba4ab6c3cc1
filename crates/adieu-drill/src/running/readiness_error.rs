//! Why a program that was waited for is not ready.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::conntrack;
use crate::drill::Drill;
use crate::endpoint::{Endpoint, without_query};
use crate::process::{ProcInfo, Ready};
use crate::raw::RawConn;
use crate::running::RunningTarget;
use crate::threshold::show;

/// The waiting is over; the last question need not be patient.
const LAST_PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A sentence on what did not come, and on what came in its place.
pub(crate) async fn why(drill: &Drill, run: &RunningTarget) -> String {
    let placeholders = &run.process.placeholders;
    let what = match &drill.ready {
        Ready::Answers if run.endpoint.is_http() => {
            let address = run.endpoint.address;
            let instead = instead_of_answer(&run.endpoint).await;
            match instead {
                Ok(status) if status < 500 => too_late(status, &format!("{address}")),
                other => format!("nothing answered at {address} below 500; {}", said(other)),
            }
        }
        Ready::Answers => instead_of_connection(&run.endpoint).await,
        Ready::Url(url) => {
            let url = placeholders.fill(url);
            let instead = match Endpoint::parse_url(&url) {
                Ok(endpoint) => instead_of_answer(&endpoint).await,
                Err(sentence) => Err(sentence),
            };
            let url = without_query(&url);
            match instead {
                Ok(status) if status < 400 => too_late(status, url),
                other => format!("{url} did not answer below 400; {}", said(other)),
            }
        }
        Ready::Tcp(address) => format!("nothing listened at {}", placeholders.fill(address)),
        Ready::Line(line) => format!("it printed no line with `{line}`"),
        Ready::Notify => "it sent no READY=1 to NOTIFY_SOCKET".to_owned(),
        Ready::Started => "it was not started".to_owned(),
    };
    let full = conntrack::full(&drill.conntrack);
    let full = full.map_or_else(String::new, |full| format!("; {full}"));
    format!(
        "`{}` was not ready after {}: {what}{full}",
        drill.launch.command.join(" "),
        show(drill.ready_within)
    )
}

/// The status of one more answer, or a sentence on what came in its place.
async fn instead_of_answer(endpoint: &Endpoint) -> Result<u16, String> {
    match RawConn::ask_within(endpoint, &endpoint.request(), LAST_PROBE_TIMEOUT).await {
        Ok(answer) => Ok(answer.head.status),
        Err(broken) => Err(format!(
            "the last request was {broken}{}",
            without_tls(endpoint).await
        )),
    }
}

/// What to write instead, where a connection comes about only without TLS.
async fn without_tls(endpoint: &Endpoint) -> &'static str {
    if endpoint.tls
        && matches!(
            timeout(LAST_PROBE_TIMEOUT, TcpStream::connect(endpoint.address)).await,
            Ok(Ok(_))
        )
    {
        return "; connections are accepted there: if the program speaks no TLS, write http:// or leave --tls out";
    }
    ""
}

fn said(instead: Result<u16, String>) -> String {
    instead.map_or_else(
        |said| said,
        |status| format!("the last answer was {status}"),
    )
}

/// What to say of a program that has ended and left others behind.
pub(crate) fn in_background(left: &[ProcInfo]) -> String {
    let Some(first) = left.first() else {
        return String::new();
    };
    format!(
        ". It went to the background: {} (process {}) is left. The drill must be its parent to stop it, so start it in the \
         foreground: `nginx -g 'daemon off;'`, `redis-server --daemonize no`, gunicorn without `--daemon`",
        first.name, first.pid
    )
}

/// It answers now, when it is asked once more.
fn too_late(status: u16, endpoint: &str) -> String {
    format!(
        "{endpoint} answered {status} to one more request after that time, and to none before; give it longer with \
         --ready-within, and look whether packets are dropped (`dmesg`)"
    )
}

/// A server that does not speak TLS listens all the same.
async fn instead_of_connection(endpoint: &Endpoint) -> String {
    let address = endpoint.address;
    match timeout(LAST_PROBE_TIMEOUT, endpoint.target().connect()).await {
        Ok(Err(error)) if endpoint.tls && error.kind() != io::ErrorKind::ConnectionRefused => {
            let instead = without_tls(endpoint).await;
            format!("no TLS connection came about at {address}: {error}{instead}")
        }
        Err(_) if endpoint.tls => {
            format!("no TLS connection came about at {address}: no answer to the client's hello")
        }
        Ok(_) | Err(_) => format!("nothing listened at {address}"),
    }
}
