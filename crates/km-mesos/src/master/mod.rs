//! The embedded Mesos master over HTTP: sockets, streams, timers and the registry file around the core.

mod agent_api;
mod auth;
mod flags;
mod forms;
mod operator_api;
mod pages;
mod registry_file;
mod routes;
mod scheduler_api;
mod shell;
mod streams;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use flags::Flags;
use shell::Shell;

/// How long open requests may take after the stop.
const GRACE: Duration = Duration::from_secs(2);

/// Starts a master. It is ready when this returns, and ends after `stop` is cancelled.
///
/// # Errors
/// A flag is malformed, the socket is taken, or the registry or credentials file can't be read.
pub async fn start(flags: Flags, stop: CancellationToken) -> anyhow::Result<km_observe::Started> {
    let listener = TcpListener::bind((flags.ip.as_str(), flags.port))
        .await
        .with_context(|| format!("--ip={} --port={} can't be listened on", flags.ip, flags.port))?;
    let address = listener.local_addr().context("the master's socket has no address")?;
    let shell = Arc::new(Shell::open(&flags, address)?);
    let task = tokio::spawn(run(shell, listener, stop));
    tracing::info!(%address, "Mesos master is up");
    Ok(km_observe::Started { name: "mesos-master", address, task })
}

async fn run(shell: Arc<Shell>, listener: TcpListener, stop: CancellationToken) -> anyhow::Result<()> {
    let timers = tokio::spawn(Arc::clone(&shell).run_timers(stop.clone()));
    let service = routes::service(Arc::clone(&shell)).into_make_service_with_connect_info::<SocketAddr>();
    let closing = stop.clone();
    let server = axum::serve(listener, service).with_graceful_shutdown(async move { closing.cancelled().await });
    let mut server = tokio::spawn(server.into_future());
    let ended = tokio::select! {
        ended = &mut server => Some(ended),
        () = stop.cancelled() => None,
    };
    shell.streams.close_all();
    let ended = match ended {
        Some(ended) => ended.context("the HTTP server panicked")?,
        None => match tokio::time::timeout(GRACE, &mut server).await {
            Ok(ended) => ended.context("the HTTP server panicked")?,
            // Connections that are still open are cut.
            Err(_) => {
                server.abort();
                Ok(())
            }
        },
    };
    timers.abort();
    ended.context("the HTTP server failed")
}
