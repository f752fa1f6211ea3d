//! The embedded Mesos agent: sockets, processes and files around `km_mesos_core::agent`.
//!
//! Cancelling the stop token ends the agent for good, as SIGUSR1 does with Apache Mesos: executors are shut down,
//! nothing is left running, and the master forgets the agent. When the agent's process dies instead, executors of
//! checkpointing frameworks go on, and the next agent on the same `work_dir` takes them over.

mod actor;
mod checkpoints;
mod clock;
mod containers;
mod flags;
mod http;
mod leftovers;
pub mod link;
mod resources;
mod shared;
mod streams;
mod volumes;

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use anyhow::Context;
use km_mesos_core::agent::{Agent, Config, Event, Recovered};
use km_mesos_proto::v1;
use km_observe::Started;
use rand::Rng;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;

pub use flags::Flags;
pub use leftovers::kill_leftovers;

use actor::Actor;
use checkpoints::Checkpoints;
use containers::Containers;
use link::Link;
use shared::Shared;

/// The version of Apache Mesos whose agents this one is like: clients tell by it what they may ask for.
const MESOS_VERSION: &str = "1.11.0";

/// Starts an agent. Its task ends when `stop` is cancelled and all is cleaned up, or fails when the master refuses it.
pub async fn start(flags: Flags, stop: CancellationToken) -> anyhow::Result<Started> {
    fs::create_dir_all(&flags.work_dir)
        .with_context(|| format!("cannot create work_dir {}", flags.work_dir.display()))?;
    let work_dir = flags.work_dir.canonicalize().context("cannot resolve work_dir")?;
    let lock = lock(&work_dir)?;
    let listener = TcpListener::bind(SocketAddr::new(flags.ip, flags.port))
        .await
        .with_context(|| format!("cannot listen on {}:{} (is another agent running?)", flags.ip, flags.port))?;
    let address = listener.local_addr()?;
    let config = config(&flags, &work_dir, address)?;

    let checkpoints = Checkpoints::new(work_dir.join("meta/agent"));
    let files = checkpoints.read().context("cannot read the agent's checkpoints")?;
    let recovered = Recovered::read(&files)?
        .reconfigured(&config.info, flags.reconfiguration_policy)
        .map_err(|reason| anyhow::anyhow!("work_dir {}: {reason}", work_dir.display()))?;
    let expected = recovered.containers();

    let (events, received) = mpsc::unbounded_channel();
    let mut containers =
        Containers::new(work_dir.join("meta/containers"), flags.fetcher_cache_dir.clone(), events.clone());
    let core = Agent::new(config, recovered);
    for container in containers.recover(&expected).await? {
        events.send(Event::Exited { container, status: None })?;
    }
    events.send(Event::Start)?;
    let shared = Arc::new(Shared::new(core, events.clone(), &flags, work_dir, address));
    let link = Link::new(flags.master.clone(), link::client(), events);
    let actor = Actor::new(shared.clone(), received, link, containers, checkpoints);

    let task = tokio::spawn(async move {
        let served = CancellationToken::new();
        let server =
            axum::serve(listener, http::router(shared)).with_graceful_shutdown(served.clone().cancelled_owned());
        let server = server.into_future();
        tokio::pin!(server);
        let result = tokio::select! {
            result = actor.run(stop) => result,
            result = &mut server => result.context("the agent's HTTP server ended"),
        };
        drop(lock);
        result
    });
    Ok(Started { name: "mesos-agent", address, task })
}

/// Two agents on one directory would adopt each other's executors.
fn lock(work_dir: &Path) -> anyhow::Result<fs::File> {
    let meta = work_dir.join("meta");
    fs::create_dir_all(&meta).with_context(|| format!("cannot create {}", meta.display()))?;
    let path = meta.join("lock");
    let file = fs::File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    file.try_lock().with_context(|| format!("another agent uses work_dir {}", work_dir.display()))?;
    Ok(file)
}

fn config(flags: &Flags, work_dir: &Path, address: SocketAddr) -> anyhow::Result<Config> {
    let work_dir = work_dir.to_str().context("work_dir must be valid UTF-8")?.to_owned();
    let ip = flags.advertised_ip();
    let info = v1::AgentInfo {
        hostname: flags.hostname.clone().unwrap_or_else(|| resources::hostname().unwrap_or_else(|| ip.to_string())),
        port: Some(i32::from(address.port())),
        resources: resources::resources(flags, Path::new(&work_dir))?,
        attributes: resources::attributes(flags)?,
        ..Default::default()
    };
    Ok(Config {
        info,
        version: MESOS_VERSION.to_owned(),
        ip: ip.to_string(),
        work_dir,
        executor_registration_timeout: flags.executor_registration_timeout,
        executor_reregistration_timeout: flags.executor_reregistration_timeout,
        executor_shutdown_grace_period: flags.executor_shutdown_grace_period,
        recovery_timeout: flags.recovery_timeout,
        registration_backoff_factor: flags.registration_backoff_factor,
        seed: rand::rng().random(),
    })
}
