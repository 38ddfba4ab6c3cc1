//! Sockets and TCP servers: [`App::listen`](crate::App::listen) binds, [`App::tcp`](crate::App::tcp) serves.
//!
//! A socket is bound in `setup`, accepts while the service runs, and is closed after its accept queue was drained.

// What differs between systems is in `os`: one file for each.

mod acceptor;
#[cfg(unix)]
mod activation;
mod bound;
mod carried;
mod close_listener;
mod close_stats;
mod connection_snapshot;
mod connections;
mod descriptor_budget;
mod drain_counts;
mod handshake;
#[cfg(target_os = "linux")]
mod handshakes;
#[cfg_attr(
    not(unix),
    expect(dead_code, reason = "no listener comes with the process there")
)]
mod inherited;
mod listen;
#[cfg_attr(
    not(unix),
    expect(dead_code, reason = "nothing is handed over between processes there")
)]
mod listeners;
mod network;
#[cfg_attr(unix, path = "os/unix.rs")]
#[cfg_attr(windows, path = "os/windows.rs")]
mod os;
mod port_owner;
mod proxy_header;
mod proxy_protocol;
mod refusal;
#[cfg(feature = "admin")]
mod reserved_fd;
mod server;
mod socket;
#[cfg(unix)]
mod socket_file;
mod stall;
mod stream;
mod tcp;
#[cfg(feature = "tls-no-provider")]
mod tls;
#[cfg(feature = "tls-no-provider")]
mod tls_config;
#[cfg(all(feature = "http", feature = "tls-no-provider"))]
mod tls_info;
mod transfer;

#[cfg(feature = "admin")]
pub(crate) use acceptor::DescriptorReserve;
#[cfg(all(fuzzing, unix))]
pub(crate) use activation::check_announced;
pub use bound::BoundListener;
pub use carried::Carried;
#[cfg(feature = "http")]
pub(crate) use connection_snapshot::CarriedCounters;
pub(crate) use connection_snapshot::ConnectionSnapshot;
#[cfg(feature = "axum")]
pub(crate) use connection_snapshot::{CarriedRequest, RawState};
#[cfg(feature = "admin")]
pub(crate) use connections::DESCRIPTOR_WAIT;
#[cfg(feature = "admin")]
pub(crate) use connections::ServerStats;
pub(crate) use connections::{Activity, ManagedConnection, WakerCell};
#[cfg(feature = "http")]
pub(crate) use drain_counts::DrainCounts;
pub(crate) use handshake::Handshake;
pub(crate) use inherited::InheritedFd;
#[cfg(unix)]
pub(crate) use inherited::Origin;
#[cfg(feature = "admin")]
pub(crate) use listen::Listening;
#[cfg(feature = "http")]
pub(crate) use listen::OnListening;
pub use listen::{Listen, Listener};
#[cfg(unix)]
pub(crate) use listeners::ListenerFd;
#[cfg(feature = "admin")]
pub(crate) use listeners::SocketOwner;
pub(crate) use os::inherited_fds_from_environment;
pub use proxy_protocol::ProxyProtocol;
#[cfg(feature = "admin")]
pub(crate) use reserved_fd::ReservedFds;
#[cfg(feature = "admin")]
pub(crate) use server::ServerProbe;
pub(crate) use server::{DrainStage, Server};
pub(crate) use socket::SharedSocket;
#[cfg(unix)]
pub(crate) use socket_file::SocketFile;
pub(crate) use stream::Stream;
pub use tcp::{Conn, TcpBuilder};
#[cfg(feature = "tls-no-provider")]
pub(crate) use tls::Tls;
#[cfg(feature = "tls-no-provider")]
pub use tls_config::TlsConfig;
#[cfg(all(feature = "http", feature = "tls", feature = "tonic"))]
pub(crate) use tls_info::GrpcTls;
#[cfg(all(feature = "http", feature = "tls-no-provider"))]
pub use tls_info::TlsInfo;
pub(crate) use transfer::Kind;
#[cfg(fuzzing)]
pub(crate) use transfer::check_any as check_moved_connection;
#[cfg(target_os = "linux")]
pub(crate) use transfer::pair as transfer_channel;
#[cfg(feature = "http")]
pub(crate) use transfer::{Successor, Turn};

/// The TLS library, in the version whose types [`TlsConfig`] takes.
#[cfg(feature = "tls-no-provider")]
pub use tokio_rustls::rustls;
