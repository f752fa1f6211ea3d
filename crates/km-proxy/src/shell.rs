//! Watches Services and EndpointSlices and keeps the rules of this host up to date.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use futures::{Stream, StreamExt};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use km_observe::{Admin, Started};
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher,
    },
};
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};
use tokio::{net::TcpListener, sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    Flags, Mode, lock, nft,
    rules::{Ruleset, rules},
    userspace::Userspace,
};

/// Changes that come together are applied together.
const COALESCE: Duration = Duration::from_millis(50);
/// Everything is applied again this often: repairs what others changed.
const RESYNC: Duration = Duration::from_secs(300);
/// After rules that could not be applied.
const RETRY: Duration = Duration::from_secs(5);

/// Connects, serves health and metrics, and keeps the rules until `stop`; then takes them back.
///
/// # Errors
/// The kubeconfig cannot be read, the address cannot be bound, or the wanted mode does not work here.
pub async fn start(flags: Flags, stop: CancellationToken) -> anyhow::Result<Started> {
    let client = client(&flags).await?;
    let mode = choose(flags.proxy_mode).await?;
    let listener = bind(&flags).await?;
    let address = listener.local_addr().context("the listening socket has no address")?;
    let node = if flags.hostname_override.is_empty() { host_name()? } else { flags.hostname_override.clone() };
    let status = Status::default();
    let mut registry = Registry::default();
    status.register(&mut registry);
    let (serving, standing_by) = (status.serving.clone(), status.standing_by.clone());
    let admin = Admin::new(registry)
        .check("rules-applied", move || {
            // Standing by is what a second proxy of a host is for.
            if serving.load(Ordering::Relaxed) || standing_by.load(Ordering::Relaxed) {
                Ok(())
            } else {
                Err("no rules applied yet".to_owned())
            }
        })
        .router();
    let task = tokio::spawn(async move {
        let server = axum::serve(listener, admin).with_graceful_shutdown(stop.clone().cancelled_owned());
        let (served, proxied) = tokio::join!(server.into_future(), run(client, mode, &node, status, stop.clone()));
        served.context("serving health and metrics failed")?;
        proxied
    });
    tracing::info!(%address, ?mode, "proxy started");
    Ok(Started { name: "proxy", address, task })
}

async fn client(flags: &Flags) -> anyhow::Result<Client> {
    let file = flags.kubeconfig.display();
    let kubeconfig = Kubeconfig::read_from(&flags.kubeconfig).with_context(|| format!("reading {file}"))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.with_context(|| format!("using {file}"))?).context("making a client")
}

/// The wanted port, or a free one where another proxy of the host has it.
async fn bind(flags: &Flags) -> anyhow::Result<TcpListener> {
    let wanted = SocketAddr::from((flags.bind_address, flags.healthz_port));
    match TcpListener::bind(wanted).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let listener = TcpListener::bind((flags.bind_address, 0)).await.context("binding a free port")?;
            tracing::info!(%wanted, "the port is taken; serving health on a free one");
            Ok(listener)
        }
        result => result.with_context(|| format!("cannot listen on {wanted}")),
    }
}

async fn choose(mode: Mode) -> anyhow::Result<Mode> {
    match (mode, nft::check().await) {
        (Mode::Userspace, _) => Ok(Mode::Userspace),
        (_, Ok(())) => Ok(Mode::Nftables),
        (Mode::Nftables, Err(error)) => Err(error.context("nftables does not work here; userspace does")),
        (Mode::Auto, Err(error)) => {
            tracing::warn!(%error, "nftables does not work here: services are forwarded by this process");
            Ok(Mode::Userspace)
        }
    }
}

fn host_name() -> anyhow::Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").context("reading the host's name")?;
    Ok(name.trim().to_ascii_lowercase())
}

/// What health and metrics tell.
#[derive(Clone, Default)]
struct Status {
    serving: Arc<AtomicBool>,
    standing_by: Arc<AtomicBool>,
    applied: Counter,
    failed: Counter,
    ports: Gauge,
}

impl Status {
    fn register(&self, registry: &mut Registry) {
        registry.register("km_proxy_sync", "Rule sets applied", self.applied.clone());
        registry.register("km_proxy_sync_failures", "Rule sets that could not be applied", self.failed.clone());
        registry.register("km_proxy_service_ports", "Service ports in the rules", self.ports.clone());
    }
}

async fn run(client: Client, mode: Mode, node: &str, status: Status, stop: CancellationToken) -> anyhow::Result<()> {
    status.standing_by.store(true, Ordering::Relaxed);
    let _right = tokio::select! {
        right = lock::acquire(Path::new(lock::OWN_NAMESPACE)) => right?,
        () = stop.cancelled() => return Ok(()),
    };
    status.standing_by.store(false, Ordering::Relaxed);
    let changed = Arc::new(Notify::new());
    let (services, service_watch) = watch::<Service>(Api::all(client.clone()), changed.clone());
    let (slices, slice_watch) = watch::<EndpointSlice>(Api::all(client), changed.clone());
    let mut backend = Backend::open(mode)?;
    let keeping = keep(&services, &slices, node, &changed, &mut backend, &status);
    tokio::select! {
        () = service_watch => {}
        () = slice_watch => {}
        () = keeping => {}
        () = stop.cancelled() => {}
    }
    status.serving.store(false, Ordering::Relaxed);
    backend.remove().await
}

/// A store and the task that fills it. Errors are retried with growing pauses.
fn watch<K>(api: Api<K>, changed: Arc<Notify>) -> (Store<K>, impl Future<Output = ()>)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    (store, drive(reflector::reflector(writer, events), changed))
}

async fn drive<K>(events: impl Stream<Item = watcher::Result<watcher::Event<K>>>, changed: Arc<Notify>)
where
    K: kube::Resource<DynamicType = ()>,
{
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(_) => changed.notify_one(),
            Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "watching"),
        }
    }
}

async fn keep(
    services: &Store<Service>,
    slices: &Store<EndpointSlice>,
    node: &str,
    changed: &Notify,
    backend: &mut Backend,
    status: &Status,
) {
    // Half a picture would cut services off: nothing is applied before both lists are complete. The writers live as
    // long as this function, so waiting cannot fail.
    if services.wait_until_ready().await.is_err() || slices.wait_until_ready().await.is_err() {
        return;
    }
    let mut last: Option<Ruleset> = None;
    let mut due = Instant::now();
    loop {
        let (service_list, slice_list) = (services.state(), slices.state());
        let wanted = rules(service_list.iter().map(AsRef::as_ref), slice_list.iter().map(AsRef::as_ref), node);
        if Instant::now() >= due || last.as_ref() != Some(&wanted) {
            match backend.apply(&wanted).await {
                Ok(()) => {
                    status.applied.inc();
                    status.ports.set(i64::try_from(wanted.ports.len()).unwrap_or(i64::MAX));
                    status.serving.store(true, Ordering::Relaxed);
                    tracing::debug!(ports = wanted.ports.len(), "rules applied");
                    last = Some(wanted);
                    due = Instant::now() + RESYNC;
                }
                Err(error) => {
                    status.failed.inc();
                    tracing::error!(error = format!("{error:#}"), "the rules could not be applied");
                    last = None;
                    due = Instant::now() + RETRY;
                    tokio::time::sleep_until(due).await;
                    continue;
                }
            }
        }
        tokio::select! {
            () = changed.notified() => tokio::time::sleep(COALESCE).await,
            () = tokio::time::sleep_until(due) => {}
        }
    }
}

enum Backend {
    Nftables,
    Userspace(Userspace),
}

impl Backend {
    fn open(mode: Mode) -> anyhow::Result<Self> {
        if mode == Mode::Userspace { Ok(Self::Userspace(Userspace::open()?)) } else { Ok(Self::Nftables) }
    }

    async fn apply(&mut self, rules: &Ruleset) -> anyhow::Result<()> {
        match self {
            Self::Nftables => nft::apply(rules).await,
            Self::Userspace(userspace) => userspace.apply(rules).await,
        }
    }

    async fn remove(self) -> anyhow::Result<()> {
        match self {
            Self::Nftables => nft::remove().await,
            Self::Userspace(userspace) => userspace.remove().await,
        }
    }
}
