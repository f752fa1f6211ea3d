//! Puts the executor together from its flags and its environment.

use std::{
    collections::HashMap,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use km_mesos_client::ExecutorClient;
use km_mesos_proto::v1::executor::event::Subscribed;
use km_observe::Started;
use km_pod::downward::NodeFacts;
use km_runtime::{
    Runtime,
    oci::{OciConfig, OciRuntime},
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    Flags, RuntimeKind,
    agent::{Agent, Link, News},
    api::Api,
    clock::Clock,
    dns::ClusterDns,
    events::Recorder,
    executor::Executor,
    kube_api::KubeApi,
    kubelet, metrics, network,
    node::{self, Description},
    pod::Shared,
    static_pods,
    table::PodTable,
    tasks::{Settings, Tasks},
};

/// Volumes look for changed content this often.
const REFRESH: Duration = Duration::from_secs(60);
/// Of the time that Mesos gives for a shutdown, what is kept for the last messages.
const FAREWELL: Duration = Duration::from_millis(2500);

/// Starts the executor. The environment is the one that a Mesos agent gives.
///
/// # Errors
/// The environment, the kubeconfig or the machine lacks something; the text says what.
pub async fn start(flags: Flags, stop: CancellationToken) -> anyhow::Result<Started> {
    let variables: HashMap<String, String> = std::env::vars().collect();
    let client = ExecutorClient::from_env(&variables)?;
    let agent_id = client.environment().agent_id.clone().context("MESOS_SLAVE_ID is not set")?.value;
    let period = client.environment().shutdown_grace_period;
    let kubeconfig = Kubeconfig::read_from(&flags.kubeconfig)
        .with_context(|| format!("reading the kubeconfig {}", flags.kubeconfig.display()))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let authorities = kubelet::authorities(&config).context("reading the cluster's certificate authority")?;
    let api: Arc<dyn Api> = Arc::new(KubeApi::new(kube::Client::try_from(config)?));
    let ip = flags.node_ip.or_else(network::default_source);
    let tls = kubelet::acceptor(&flags.hostname_override, ip, authorities)?;
    let listener = network::listen(flags.address, flags.port).await.context("binding the kubelet's port")?;
    let dirs = Dirs::new(&flags.root_dir, &agent_id);
    dirs.purge().await;
    fs::create_dir_all(&dirs.pods).with_context(|| format!("making {}", dirs.pods.display()))?;
    let runtime = open_runtime(&flags, &dirs, &agent_id).await?;
    // The minion sets it: by it, orphans of a container can be told.
    let uuid = variables.get_key_value("MESOS_EXECUTOR_CONTAINER_UUID");
    let parts = Parts {
        flags,
        api,
        link: Arc::new(client),
        runtime,
        listener,
        tls,
        ip,
        pods_dir: dirs.pods.clone(),
        static_pods_dir: dirs.static_pods.clone(),
        variables: uuid.map(|(name, value)| (name.clone(), value.clone())).into_iter().collect(),
        period,
    };
    let address = parts.listener.local_addr()?;
    let task = tokio::spawn(async move {
        let result = run(parts, stop).await;
        // The runtime is dropped: whatever it left goes now.
        dirs.purge().await;
        result
    });
    Ok(Started { name: "executor", address, task })
}

/// The folders of one agent's executor.
struct Dirs {
    root: PathBuf,
    pods: PathBuf,
    static_pods: PathBuf,
    runtime: PathBuf,
}

impl Dirs {
    fn new(root: &Path, agent_id: &str) -> Self {
        let root = root.join(agent_id);
        Self { pods: root.join("pods"), static_pods: root.join("static-pods"), runtime: root.join("runtime"), root }
    }

    /// Removes what an executor of this agent left: Mesos has reported its tasks as ended.
    async fn purge(&self) {
        if let Err(error) = km_runtime::purge(&self.runtime).await {
            tracing::error!(%error, "something of an earlier executor is left");
        }
        let (pods, static_pods, root) = (self.pods.clone(), self.static_pods.clone(), self.root.clone());
        let purged = tokio::task::spawn_blocking(move || {
            crate::volumes::purge(&pods)?;
            for folder in [pods, static_pods] {
                match fs::remove_dir_all(&folder) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            // The root is ours alone only when nothing else is in it.
            match fs::remove_dir(&root) {
                Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                other => other,
            }
        });
        match purged.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(pods = %self.pods.display(), %error, "pod folders are left"),
            Err(error) => tracing::error!(%error, "pod folders are left"),
        }
    }
}

async fn open_runtime(flags: &Flags, dirs: &Dirs, agent_id: &str) -> anyhow::Result<Arc<dyn Runtime>> {
    match flags.runtime {
        RuntimeKind::Cri => bail!("--runtime=cri is not there yet; use --runtime=oci"),
        RuntimeKind::Auto | RuntimeKind::Oci => {}
    }
    let image_root = flags.image_root.clone();
    tokio::task::spawn_blocking(move || km_runtime::builtin::ensure(&image_root))
        .await?
        .context("storing the built-in images")?;
    let runtime = OciRuntime::open(OciConfig {
        root: dirs.runtime.clone(),
        image_root: flags.image_root.clone(),
        registry_certs: flags.registry_certs.clone(),
        name: agent_id.to_owned(),
        pod_cidr: None,
        shim: PathBuf::from("/proc/self/exe"),
        shim_args: vec!["shim".into()],
        log_dir: dirs.runtime.join("logs"),
    });
    Ok(Arc::new(runtime.await.context("opening the container runtime")?))
}

/// Everything that was opened before the first word with the agent.
pub(crate) struct Parts {
    pub flags: Flags,
    pub api: Arc<dyn Api>,
    pub link: Arc<dyn Link>,
    pub runtime: Arc<dyn Runtime>,
    pub listener: TcpListener,
    pub tls: TlsAcceptor,
    pub ip: Option<IpAddr>,
    pub pods_dir: PathBuf,
    /// Where the static pods are written; not there yet.
    pub static_pods_dir: PathBuf,
    /// What the containers of static pods learn of Mesos.
    pub variables: Vec<(String, String)>,
    /// How long a shutdown may take.
    pub period: Duration,
}

/// The executor from its subscription to its end.
pub(crate) async fn run(parts: Parts, stop: CancellationToken) -> anyhow::Result<()> {
    let (agent, mut news) = Agent::spawn(parts.link.clone());
    let subscribed = tokio::select! {
        subscribed = first(&mut news) => subscribed?,
        () = stop.cancelled() => return Ok(()),
    };
    let flags = &parts.flags;
    let node_name = flags.hostname_override.clone();
    let port = parts.listener.local_addr()?.port();
    let (agent_info, executor_info) = (&subscribed.agent_info, &subscribed.executor_info);
    let description = Description::new(&node_name, agent_info, executor_info, parts.ip, port, flags.max_pods)?;
    let facts = NodeFacts {
        node_name: node_name.clone(),
        host_ip: parts.ip,
        pod_ip: None,
        allocatable: description.allocatable,
    };
    let description = Arc::new(description);
    let static_pods = static_pods::of_executor(executor_info.data(), &node_name, &parts.variables);
    static_pods::write(&parts.static_pods_dir, &static_pods)
        .with_context(|| format!("writing the static pods into {}", parts.static_pods_dir.display()))?;
    let table = PodTable::default();
    let helpers = CancellationToken::new();
    let served = kubelet::Served { table: table.clone(), runtime: parts.runtime.clone() };
    let router = kubelet::router(served, metrics::admin(table.clone()));
    let background = [
        tokio::spawn(kubelet::serve(parts.listener, parts.tls, router, flags.anonymous_auth, helpers.clone())),
        tokio::spawn(node::keep(parts.api.clone(), description.clone(), Default::default(), helpers.clone())),
    ];
    let shared = Shared {
        recorder: Recorder::spawn(parts.api.clone(), &node_name),
        runtime: parts.runtime.clone(),
        api: parts.api.clone(),
        clock: Clock::new(),
        facts,
        host_ip: parts.ip,
        pods_dir: parts.pods_dir,
        dns: ClusterDns {
            servers: flags.cluster_dns.clone(),
            domain: flags.cluster_domain.clone(),
            host: host_resolv_conf(),
        },
        dockercfg: flags.dockercfg.clone(),
        http: probe_client()?,
        refresh: REFRESH,
    };
    let shutdown_grace = parts.period.saturating_sub(FAREWELL);
    let settings = Settings { suicide_timeout: flags.suicide_timeout, shutdown_grace };
    let executor = Executor {
        shared: Arc::new(shared),
        tasks: Tasks::new(settings),
        agent,
        table,
        description,
        static_pods,
        shutdown_grace,
        launch_grace: flags.launch_grace_period,
        shutdown_period: parts.period,
    };
    executor.run(news, stop).await;
    helpers.cancel();
    for task in background {
        task.await?;
    }
    remove_sandboxes(&*parts.runtime).await;
    Ok(())
}

/// The answer to the first subscription.
async fn first(news: &mut mpsc::Receiver<News>) -> anyhow::Result<Subscribed> {
    while let Some(item) = news.recv().await {
        match item {
            News::Subscribed(subscribed) => return Ok(*subscribed),
            News::GaveUp(reason) => bail!("the agent does not take our subscription: {reason}"),
            News::Event(event) => tracing::warn!(kind = event.r#type().as_str_name(), "an event before SUBSCRIBED"),
        }
    }
    bail!("the connection to the agent ended")
}

/// What pods that were cut off left behind.
async fn remove_sandboxes(runtime: &dyn Runtime) {
    match runtime.list_sandboxes().await {
        Ok(sandboxes) => {
            for sandbox in sandboxes {
                if let Err(error) = runtime.remove_sandbox(&sandbox.spec.id).await {
                    tracing::error!(sandbox = sandbox.spec.id, %error, "a sandbox is left");
                }
            }
        }
        Err(error) => tracing::error!(%error, "sandboxes not listed; some may be left"),
    }
}

/// Probes go to the pods themselves, whatever proxy the environment names, and trust any certificate as the kubelet's
/// do.
fn probe_client() -> anyhow::Result<reqwest::Client> {
    let builder = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    Ok(builder.redirect(reqwest::redirect::Policy::none()).pool_max_idle_per_host(0).build()?)
}

fn host_resolv_conf() -> Vec<String> {
    let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
