//! The shell: sockets, files and time around the core. It decides nothing.

mod api;
mod artifacts;
mod driver;
mod http;
mod identity;
mod inspect;
mod kubeconfig;
mod leader;
mod lease;
mod master;
mod metrics;
mod profile;
mod refusals;
mod reload;
mod service;
mod status;
mod term;
mod watch;

use std::{net::SocketAddr, pin::pin, sync::Arc};

use anyhow::Context;
use km_observe::Started;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch as watch_channel},
};
use tokio_util::sync::CancellationToken;

use crate::Flags;
use term::{End, Office};

/// Starts the scheduler. Returns once its port is bound; it connects to API server and master by itself and keeps
/// trying. After `stop` it ends without touching pods or tasks: the next scheduler takes them over.
pub async fn start(flags: Flags, stop: CancellationToken) -> anyhow::Result<Started> {
    let (given, flags) = (flags.clone(), flags.resolve()?);
    let client = kubeconfig::client(flags.kubeconfig.as_deref(), flags.api_servers.first()).await?;
    let masters = flags.masters()?;
    let credentials = flags.credentials()?;
    let socket = SocketAddr::new(flags.address, flags.port);
    let listener = TcpListener::bind(socket).await.with_context(|| format!("can't listen on {socket}"))?;
    let address = listener.local_addr()?;
    let artifacts = artifacts::Artifacts::new(&flags, address)?;
    let handover = handover_requests()?;

    let status = Arc::new(status::Status::default());
    let metrics = metrics::Metrics::default();
    metrics::count_panics();
    let profile = profile::Profile::default();
    let settings = reload::Settings::new(given, flags.clone(), Arc::clone(&status), metrics.clone());
    settings.heed_hangups(stop.clone())?;
    let router = http::router(&flags, Arc::clone(&status), &metrics, &profile, &artifacts).merge(settings.router());
    let (executor, audience) = (artifacts.executor(), watch_channel::Sender::new(None));
    let office = Office {
        settings,
        client,
        masters,
        credentials,
        executor,
        status,
        metrics,
        profile,
        served: address,
        audience,
    };
    let task = tokio::spawn(async move {
        let ended = stop.child_token();
        let serving = {
            let ended = ended.clone();
            tokio::spawn(
                async move { axum::serve(listener, router).with_graceful_shutdown(ended.cancelled_owned()).await },
            )
        };
        let result = run(&office, handover, &ended).await;
        ended.cancel();
        serving.await.context("the HTTP server ended abnormally")?.context("the HTTP server failed")?;
        result
    });
    Ok(Started { name: "scheduler", address, task })
}

/// The watches run all the time, the rest in terms: one after the other, when elected or asked for.
async fn run(office: &Office, mut handover: mpsc::Receiver<()>, stop: &CancellationToken) -> anyhow::Result<()> {
    let watching = async {
        watch::run(office.client.clone(), office.audience.subscribe(), &office.status, stop).await;
        // It ends with the stop, when leading still has its last things to do.
        std::future::pending().await
    };
    let leading = async {
        let election = office.settings.now().election.clone();
        if election.leader_elect {
            leader::run(office, &election, &mut handover, stop).await
        } else {
            alone(office, &mut handover, stop).await
        }
    };
    tokio::select! {
        result = leading => result,
        result = watching => result,
    }
}

/// Leads without election. Asked to hand over it starts afresh, as there is nobody else.
async fn alone(office: &Office, handover: &mut mpsc::Receiver<()>, stop: &CancellationToken) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let term = stop.child_token();
        let mut serving = pin!(office.serve(&term));
        let end = tokio::select! {
            end = &mut serving => end?,
            Some(()) = handover.recv() => {
                tracing::info!("asked to start afresh");
                term.cancel();
                serving.await?
            }
        };
        if end == End::TakenOver {
            return Err(master::TakenOver.into());
        }
    }
    Ok(())
}

/// A message for each SIGUSR1.
fn handover_requests() -> anyhow::Result<mpsc::Receiver<()>> {
    let mut signals = signal(SignalKind::user_defined1()).context("can't listen for SIGUSR1")?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            // One that waits already says the same.
            let _waits = sender.try_send(());
            if sender.is_closed() {
                return;
            }
        }
    });
    Ok(receiver)
}
