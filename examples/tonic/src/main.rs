//! A gRPC server: `Hello` answers once and knows who asks, `Ticks` counts the seconds until the program stops.
//!
//! Messages are plain text, so that no schema has to be compiled: see `greeter.rs` for what `tonic-build` makes
//! otherwise.

mod greeter;

use std::pin::Pin;
use std::time::Duration;

use adieu::Drained;
use adieu::http::Stopping;
use futures_util::stream::{self, Stream};
use greeter::GreeterServer;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

#[tokio::main]
async fn main() -> Result<Drained, adieu::BoxError> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:50051");
    let listener = tokio::net::TcpListener::bind(address).await?;
    Ok(adieu::serve(listener, Routes::new(GreeterServer)).await?)
}

async fn hello(request: Request<String>) -> Result<Response<String>, Status> {
    let from = request.remote_addr();
    let from = from.ok_or_else(|| Status::internal("a client without an address"))?;
    Ok(Response::new(format!(
        "hello {} at {}",
        request.get_ref(),
        from.ip()
    )))
}

type Ticks = Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;

/// Ends when the program stops, so that its client gets a status and not an error.
async fn ticks(request: Request<String>) -> Result<Response<Ticks>, Status> {
    let stop = Stopping::of(request.extensions());
    let stop = stop.ok_or_else(|| Status::internal("not served by adieu"))?;
    let ticks = stream::unfold(0, move |count| {
        let stop = stop.clone();
        async move {
            let goes_on = stop.sleep(Duration::from_secs(1)).await;
            goes_on.then(|| (Ok(format!("tick {count}")), count + 1))
        }
    });
    Ok(Response::new(Box::pin(ticks)))
}
