//! The shell: sockets, files and time around the core. It decides nothing.

mod api;
mod artifacts;
mod driver;
mod http;
mod identity;
mod master;
mod metrics;
mod refusals;
mod watch;

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::Context;
use km_mesos_client::{Credentials, Masters};
use km_observe::Started;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    Flags,
    core::{Core, Event},
};

/// Starts the scheduler. Returns once its port is bound; it connects to API server and master by itself and keeps
/// trying. After `stop` it ends without touching pods or tasks: the next scheduler takes them over.
pub async fn start(flags: Flags, stop: CancellationToken) -> anyhow::Result<Started> {
    flags.check()?;
    let kubeconfig = flags.kubeconfig.clone().context("--kubeconfig is missing")?;
    let client = kube_client(&kubeconfig).await?;
    let masters = flags.masters()?;
    let credentials = flags.credentials()?;
    let socket = SocketAddr::new(flags.address, flags.port);
    let listener = TcpListener::bind(socket).await.with_context(|| format!("can't listen on {socket}"))?;
    let address = listener.local_addr()?;
    let artifacts = artifacts::Artifacts::new(&flags, address)?;

    let status = Arc::new(driver::Status::default());
    let metrics = metrics::Metrics::default();
    let (events, inbox) = mpsc::channel::<Event>(4096);
    let router = http::router(Arc::clone(&status), events.clone(), &metrics, &artifacts);
    let task = tokio::spawn(async move {
        let ended = stop.child_token();
        let serving = {
            let ended = ended.clone();
            tokio::spawn(
                async move { axum::serve(listener, router).with_graceful_shutdown(ended.cancelled_owned()).await },
            )
        };
        let result = run(&flags, client, (masters, credentials), artifacts, (status, metrics), (events, inbox), &ended);
        let result = result.await;
        ended.cancel();
        serving.await.context("the HTTP server ended abnormally")?.context("the HTTP server failed")?;
        result
    });
    Ok(Started { name: "scheduler", address, task })
}

async fn run(
    flags: &Flags,
    client: kube::Client,
    (masters, credentials): (Masters, Option<Credentials>),
    artifacts: artifacts::Artifacts,
    (status, metrics): (Arc<driver::Status>, metrics::Metrics),
    (events, inbox): (mpsc::Sender<Event>, mpsc::Receiver<Event>),
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let identity = tokio::select! {
        identity = identity::Identity::open(client.clone(), &flags.framework_name) => Arc::new(identity),
        () = stop.cancelled() => return Ok(()),
    };
    let core = Core::new(flags.config(artifacts.executor()), identity.generation());
    let link = master::Link::new(masters, credentials.as_ref())?;
    let api = api::Api::new(client.clone(), Arc::clone(&identity), events.clone());
    let driver = driver::Driver { core, status, metrics, api, link: link.clone(), events: events.clone() };

    let subscribing =
        master::subscribe_for_ever(link, flags.framework(), credentials, identity.clone(), events.clone(), stop);
    let watching = watch::run(client, identity, events, stop);
    tokio::select! {
        result = subscribing => result,
        () = watching => Ok(()),
        () = driver.run(inbox, stop) => Ok(()),
        () = stop.cancelled() => Ok(()),
    }
}

async fn kube_client(path: &Path) -> anyhow::Result<kube::Client> {
    let name = path.display();
    let file = Kubeconfig::read_from(path).with_context(|| format!("can't read kubeconfig {name}"))?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("kubeconfig {name} is unusable"))?;
    kube::Client::try_from(config).with_context(|| format!("kubeconfig {name} is unusable"))
}
