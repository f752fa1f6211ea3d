//! The IO around the state machine: watches in, API calls out, health and metrics beside.

mod connect;
mod discovery;
mod metrics;
mod perform;
mod watch;

use crate::Flags;
use crate::core::{Config, Event, Manager, Outcome, Task, Work};
use anyhow::Context;
use jiff::Timestamp;
use km_observe::{Admin, Started};
use metrics::Metrics;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Pieces of work under way at one time.
const MAX_RUNNING: usize = 64;
/// How long running calls may take to end after a stop.
const GRACE: Duration = Duration::from_secs(5);
/// Events between the watches and the state machine.
const EVENTS: usize = 4096;

/// What `/readyz` looks at: the resources whose first list is missing.
type Missing = Arc<Mutex<Vec<String>>>;

/// Connects, serves health and metrics, and runs the controllers until `stop`.
///
/// # Errors
/// When the kubeconfig cannot be read or the address cannot be bound.
pub async fn start(flags: Flags, stop: CancellationToken) -> anyhow::Result<Started> {
    let (client, root_ca) = connect::client(&flags.kubeconfig).await?;
    let listener = TcpListener::bind((flags.address, flags.port))
        .await
        .with_context(|| format!("cannot listen on {}:{}", flags.address, flags.port))?;
    let address = listener.local_addr().context("the listening socket has no address")?;
    let missing = Missing::new(Mutex::new(vec!["everything".to_owned()]));
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = Metrics::register(&mut registry);
    let admin = Admin::new(registry).check("caches-synced", check(&missing)).router();
    let config = Config { host_port_endpoints: flags.host_port_endpoints, root_ca, seed: rand::random() };
    let task = tokio::spawn(async move {
        let server = axum::serve(listener, admin).with_graceful_shutdown(stop.clone().cancelled_owned());
        let controllers = run(client, Manager::new(config), missing, metrics, stop.clone());
        let (served, ()) = tokio::join!(server.into_future(), controllers);
        served.context("serving health and metrics failed")
    });
    tracing::info!(%address, "controller manager started");
    Ok(Started { name: "controller-manager", address, task })
}

fn check(missing: &Missing) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let missing = missing.clone();
    move || {
        // A poisoned lock still holds the last list.
        let missing = missing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if missing.is_empty() { Ok(()) } else { Err(format!("not listed yet: {}", missing.join(", "))) }
    }
}

async fn run(client: kube::Client, mut manager: Manager, missing: Missing, metrics: Metrics, stop: CancellationToken) {
    let (events, mut arriving) = mpsc::channel::<Event>(EVENTS);
    let mut running: JoinSet<(Task, Vec<Outcome>)> = JoinSet::new();
    let watching = tokio::spawn(discovery::keep_watching(client.clone(), events, stop.clone()));
    loop {
        let now = Timestamp::now();
        while running.len() < MAX_RUNNING
            && let Some(work) = manager.work(now)
        {
            let (client, metrics) = (client.clone(), metrics.clone());
            running.spawn(carry_out(client, metrics, work));
        }
        let idle = manager.wakes_at().map_or(Duration::from_secs(60), |at| wait(now, at));
        // While everything is busy only an end wakes us.
        let idle = if running.len() < MAX_RUNNING { idle } else { Duration::from_secs(60) };
        tokio::select! {
            () = stop.cancelled() => break,
            Some(event) = arriving.recv() => {
                manager.observe(Timestamp::now(), event);
                while let Ok(event) = arriving.try_recv() {
                    manager.observe(Timestamp::now(), event);
                }
                *missing.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = manager.missing_lists();
            }
            Some(ended) = running.join_next() => match ended {
                Ok((task, outcomes)) => manager.finish(Timestamp::now(), &task, outcomes),
                Err(error) => tracing::error!(%error, "a call to the API server ended abnormally"),
            },
            () = tokio::time::sleep(idle) => {}
        }
    }
    let ended = tokio::time::timeout(GRACE, async { while running.join_next().await.is_some() {} });
    if ended.await.is_err() {
        tracing::warn!("calls to the API server were cut off at the end");
    }
    watching.abort();
}

async fn carry_out(client: kube::Client, metrics: Metrics, work: Work) -> (Task, Vec<Outcome>) {
    let outcomes = perform::all(&client, &work.actions).await;
    for (action, outcome) in work.actions.iter().zip(&outcomes) {
        metrics.count(action, outcome);
        let (verb, resource) = (action.verb(), &action.resource().plural);
        match outcome {
            Ok(_) => tracing::debug!(task = ?work.task, verb, resource, "done"),
            Err(failure) => tracing::info!(task = ?work.task, verb, resource, %failure, "not done"),
        }
    }
    (work.task, outcomes)
}

fn wait(now: Timestamp, at: Timestamp) -> Duration {
    let milliseconds = at.as_millisecond().saturating_sub(now.as_millisecond());
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0).max(1))
}
