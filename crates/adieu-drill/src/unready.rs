//! Why a program that was waited for is not ready.

use std::io;
use std::time::Duration;

use tokio::time::timeout;

use crate::drill::Drill;
use crate::place::{Place, without_query};
use crate::process::Ready;
use crate::stage::Run;
use crate::threshold::show;
use crate::wire::Wire;

/// The waiting is over; the last question need not be patient.
const LAST: Duration = Duration::from_secs(1);

/// A sentence on what did not come, and on what came in its place.
pub(crate) async fn why(drill: &Drill, run: &Run) -> String {
    let blanks = &run.subject.blanks;
    let what = match &drill.ready {
        Ready::Answers if run.place.is_http() => {
            let address = run.place.address;
            let instead = instead_of_answer(&run.place).await;
            format!("nothing answered at {address} below 500; {instead}")
        }
        Ready::Answers => instead_of_connection(&run.place).await,
        Ready::Url(url) => {
            let url = blanks.fill(url);
            let instead = match Place::parse_url(&url) {
                Ok(place) => instead_of_answer(&place).await,
                Err(sentence) => sentence,
            };
            let url = without_query(&url);
            format!("{url} did not answer below 400; {instead}")
        }
        Ready::Tcp(address) => format!("nothing listened at {}", blanks.fill(address)),
        Ready::Line(line) => format!("it printed no line with `{line}`"),
        Ready::Notify => "it sent no READY=1 to NOTIFY_SOCKET".to_owned(),
    };
    format!(
        "`{}` was not ready after {}: {what}",
        drill.launch.command.join(" "),
        show(drill.ready_within)
    )
}

async fn instead_of_answer(place: &Place) -> String {
    match Wire::ask_within(place, &place.request(), LAST).await {
        Ok(answer) => format!("the last answer was {}", answer.head.status),
        Err(broken) => format!("the last request was {broken}"),
    }
}

/// Whoever listens and does not speak TLS is there all the same.
async fn instead_of_connection(place: &Place) -> String {
    let address = place.address;
    match timeout(LAST, place.target().connect()).await {
        Ok(Err(error)) if place.tls && error.kind() != io::ErrorKind::ConnectionRefused => {
            format!("no TLS connection came about at {address}: {error}")
        }
        Err(_) if place.tls => {
            format!("no TLS connection came about at {address}: nobody answered the client's hello")
        }
        Ok(_) | Err(_) => format!("nothing listened at {address}"),
    }
}
