//! Connections: TLS, HTTP/1.1 and HTTP/2, and an end that lets requests finish.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{client_auth::Verifier, server::Server};

/// A client that has not finished its handshake by then is cut off.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long running requests may take to finish when the server stops.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long to wait after a failed accept, which mostly means too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `stop`.
pub async fn run(
    listener: TcpListener,
    tls: TlsAcceptor,
    verifier: Arc<Verifier>,
    server: Arc<Server>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let connections = GracefulShutdown::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let (tls, verifier, server) = (tls.clone(), verifier.clone(), server.clone());
        let watcher = connections.watcher();
        tokio::spawn(async move {
            if let Err(error) = serve(stream, tls, verifier, server, watcher).await {
                tracing::debug!(%error, "a connection ended with an error");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(FAREWELL, connections.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time and were cut off");
    }
    Ok(())
}

async fn serve(
    stream: TcpStream,
    tls: TlsAcceptor,
    verifier: Arc<Verifier>,
    server: Arc<Server>,
    watcher: hyper_util::server::graceful::Watcher,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await??;
    let identity = verifier.identify(stream.get_ref().1.peer_certificates());
    let service = service_fn(move |request: Request<Incoming>| {
        let (server, identity) = (server.clone(), identity.clone());
        async move { Ok::<_, Infallible>(server.handle(identity, request.map(Body::new)).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .max_concurrent_streams(1000);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    watcher.watch(connection).await.map_err(|error| anyhow::anyhow!("{error}"))
}
