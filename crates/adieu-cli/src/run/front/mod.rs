//! `--front`: the connections of the clients stay with us, and each request goes on to the process of the command that serves.
//!
//! A server of the library has the clients' connections. A restart changes where requests go, and no client's connection; the
//! old process is signalled when its requests are answered. A stop is the stop of that server, and after it the command's.
//!
//! | file | what it has |
//! |---|---|
//! | `routes` | which processes take requests, and what waits while there is none |
//! | `upstream`, `wire` | one process as a server of ours, and the connections to it |
//! | `forward`, `upload` | a request on its way there, and its response on the way back |
//! | `headers` | what is changed in their heads; pure |
//! | `directory`, `placeholder` | where a process is to listen, and how it learns that |

mod directory;
mod forward;
mod headers;
mod placeholder;
mod routes;
mod upload;
mod upstream;
mod wire;

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adieu::App;
use adieu::http::Limits;
use rustix::process::{Resource, Rlimit, getrlimit};
use tokio::sync::watch;
use tokio::time::timeout;

use self::directory::Directory;
use self::forward::{Failure, Gateway};
use self::placeholder::Placeholder;
use self::routes::Routes;
use super::address::{Address, SocketAddress};
use super::log;

pub(super) use self::upstream::Upstream;

/// File descriptors that are not for connections: of ours, and of the command's pipes.
const OTHER_FILES: u64 = 64;

/// What `--front` says.
#[derive(Clone, Debug)]
pub(super) struct FrontOptions {
    address: Address,
    placeholder: Placeholder,
    policy: HeaderPolicy,
}

/// How the command learns who the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderPolicy {
    /// `X-Forwarded-For`, `-Host` and `-Proto`; what the client sends of that kind is removed.
    XForwarded,
    /// `Forwarded`; what the client sends of that kind is removed.
    Forwarded,
    /// By what the client sends, which is a trusted proxy.
    Keep,
}

impl FrontOptions {
    /// What is said on the command line, for this command. `None` without `--front`.
    pub(super) fn parse(
        address: Option<&str>,
        headers: Option<&str>,
        command: &[std::ffi::OsString],
    ) -> Result<Option<Self>, String> {
        let Some(address) = address else {
            return match headers {
                Some(_) => {
                    Err("--front-headers has no effect without --front: give both".to_owned())
                }
                None => Ok(None),
            };
        };
        let policy = match headers {
            None | Some("x-forwarded") => HeaderPolicy::XForwarded,
            Some("forwarded") => HeaderPolicy::Forwarded,
            Some("keep") => HeaderPolicy::Keep,
            Some(other) => {
                return Err(format!(
                    "--front-headers {other}: give x-forwarded, forwarded or keep"
                ));
            }
        };
        let address = Address::parse("--front", address)?;
        if !address.name.is_empty() {
            return Err(format!(
                "--front {address}: leave out its name: no socket is passed to the command"
            ));
        }
        Ok(Some(Self {
            address,
            placeholder: Placeholder::find(command)?,
            policy,
        }))
    }

    pub(super) const fn address(&self) -> &Address {
        &self.address
    }
}

/// The server before one command.
pub(super) struct Front {
    options: FrontOptions,
    shared: Arc<Shared>,
    /// Removed with us, when the command has ended.
    directory: Option<Directory>,
    /// Whether our server is through with all connections.
    is_drained: watch::Receiver<bool>,
    /// Until it serves.
    users: Mutex<Option<Users>>,
    /// How many file descriptors the command may have: what we may have is raised.
    file_limit: Rlimit,
}

/// What the tasks of our server share.
struct Shared {
    routes: Routes,
    policy: HeaderPolicy,
    /// Which failures were logged since a process took over.
    noted: AtomicU8,
}

/// Our server and its connections, as long as there is one of these.
#[derive(Clone)]
struct Users(#[expect(dead_code, reason = "its drop is what counts")] Arc<DrainedOnDrop>);

struct DrainedOnDrop(watch::Sender<bool>);

impl Drop for DrainedOnDrop {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

impl Front {
    pub(super) fn new(options: FrontOptions) -> Result<Self, String> {
        let directory = match options.placeholder {
            Placeholder::Socket => Some(Directory::make()?),
            Placeholder::Port => None,
        };
        let (drained, is_drained) = watch::channel(false);
        Ok(Self {
            shared: Arc::new(Shared {
                routes: Routes::new(),
                policy: options.policy,
                noted: 0.into(),
            }),
            options,
            directory,
            is_drained,
            file_limit: getrlimit(Resource::Nofile),
            users: Mutex::new(Some(Users(Arc::new(DrainedOnDrop(drained))))),
        })
    }

    /// Binds the address, and serves once the service runs.
    pub(super) async fn serve(&self, app: &mut App, name: &str) -> Result<(), adieu::Error> {
        let users = self
            .users
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(users) = users else {
            return Ok(());
        };
        let address = match &self.options.address.at {
            SocketAddress::Tcp(address) => address.clone(),
            SocketAddress::Unix(path) => format!("unix:{}", path.display()),
        };
        let listener = app.listen(format!("{name} front"), address).await?;
        let command = name.to_owned();
        let listener = listener.on_listening(move |address| {
            let scheme = if address.starts_with("unix:") {
                ""
            } else {
                "tcp:"
            };
            log::info(format_args!(
                "front on {scheme}{address}: requests go to {command}"
            ));
        });
        let gateway = Gateway {
            shared: Arc::clone(&self.shared),
            _users: users,
        };
        app.http(listener, gateway).limits(limits());
        Ok(())
    }

    /// Where a new process of a worker is to listen.
    pub(super) fn upstream(&self, worker: usize, generation: u32) -> io::Result<Arc<Upstream>> {
        let directory = self.directory.as_ref();
        let made = Upstream::new(self.options.placeholder, directory, worker, generation);
        made.map(Arc::new)
    }

    /// What the command would have without us.
    pub(super) const fn file_limit(&self) -> Rlimit {
        self.file_limit
    }

    /// Whether a client that connects to this place reaches us.
    pub(super) fn is_at(&self, place: &str) -> bool {
        self.options.address.is_at(place)
    }

    /// From now on the requests of this worker go to this process.
    pub(super) fn direct_to(&self, upstream: &Arc<Upstream>) {
        self.shared.noted.store(0, Ordering::Relaxed);
        self.shared.routes.set(upstream);
    }

    /// No more requests go to this process.
    pub(super) fn withdraw(&self, upstream: &Arc<Upstream>) {
        self.shared.routes.remove(upstream);
    }

    /// The stop has begun: no process comes any more that a request could wait for.
    pub(super) fn stop_waiting(&self) {
        self.shared.routes.stop_waiting();
    }

    /// Completes when our server is through with all connections, or the time is up. Cancel-safe.
    pub(super) async fn drained(&self, time: Duration) {
        let mut is_drained = self.is_drained.clone();
        // An error: it was dropped, and with it all connections.
        let _ = timeout(time, is_drained.wait_for(|drained| *drained)).await;
    }
}

impl Shared {
    /// Logs the first failure of each kind; the clients have all of them as responses.
    fn note(&self, failure: Failure) {
        let kind = match failure {
            Failure::Unfit(_) => return,
            Failure::NoResponse => 1,
            Failure::Switched => 2,
            Failure::Unrouted(_) => 4,
            Failure::Own => return,
        };
        if self.noted.fetch_or(kind, Ordering::Relaxed) & kind == 0 {
            log::warn(format_args!("front: {}", failure.text().trim_end()));
        }
    }

    fn note_own(&self, error: &io::Error) {
        const OWN: u8 = 8;
        if self.noted.fetch_or(OWN, Ordering::Relaxed) & OWN == 0 {
            log::warn(format_args!(
                "front: no connection to the command can be made: {error}"
            ));
        }
    }
}

/// The library's, but for the number of connections: each may need a second file descriptor on the other side.
fn limits() -> Limits {
    let limits = Limits::default();
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let most = usize::try_from(files.saturating_sub(OTHER_FILES) / 2).unwrap_or(usize::MAX);
    let connections = limits.connections.min(most.max(1));
    limits.connections(connections)
}
