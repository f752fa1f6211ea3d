//! The embedded runtime: sandboxes and containers made here, with libcontainer in a shim process per container.
//!
//! ```text
//! <root>/lock                     held by the one process that has the runtime open
//! <root>/agent.json               names and network of this agent
//! <root>/sandboxes/<id>/          sandbox.json, netns, hosts, hostname, resolv.conf
//! <root>/containers/<id>/         see `bundle`
//! ```
//! All state is on disk; what is in memory is a copy. A process that opens the same root later adopts what runs.

mod container;
mod sandbox;
mod watch;

pub(crate) use sandbox::namespace_path;

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch as watch_channel};
use tokio_util::task::TaskTracker;

use crate::{
    ContainerEvent, ContainerResources, ContainerSpec, ContainerStatus, ImageInfo, RegistryAuth, Result, Runtime,
    RuntimeError, Sandbox, SandboxSpec,
    bundle::Bundle,
    files::{self, Context},
    images::ImageStore,
    net::{AgentNet, Ipv4Net, Network, claim_subnet},
    process::ProcessRef,
};

/// Events that a slow receiver may be behind before it must list.
const EVENT_BUFFER: usize = 1024;

/// The control group that the groups of all agents of this host are in.
pub(crate) const AGENTS_CGROUP: &str = "/km";

#[derive(Clone, Debug)]
pub struct OciConfig {
    /// State of this agent; one process at a time has it open.
    pub root: PathBuf,
    /// Images of the host, shared by all agents.
    pub image_root: PathBuf,
    /// Authorities of registries; see [`crate::images::ImageStore::trusting`].
    pub registry_certs: PathBuf,
    /// The agent's id or name: names of bridge, control groups and packet filter table follow from it.
    pub name: String,
    /// The network of this agent's pods; absent: a free /24 of 10.88.0.0/13.
    pub pod_cidr: Option<Ipv4Net>,
    /// The program that is the shim, and the arguments before the container's folder: `/proc/self/exe`, `["shim"]`.
    pub shim: PathBuf,
    pub shim_args: Vec<String>,
    /// Logs are `<log_dir>/<namespace>_<pod>_<uid>/<container>/<attempt>.log`.
    pub log_dir: PathBuf,
}

/// What stays the same over the life of an agent's state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AgentRecord {
    /// Parent of all control groups of the agent, e.g. `/km/agent0`.
    pub cgroup: String,
    pub net: AgentNet,
    pub log_dir: PathBuf,
}

impl AgentRecord {
    pub fn path(root: &Path) -> PathBuf {
        root.join("agent.json")
    }
}

/// The embedded runtime. See [`Runtime`].
pub struct OciRuntime {
    inner: Arc<Inner>,
    /// Ends with the runtime object; the containers do not.
    watchers: TaskTracker,
    stop: tokio_util::sync::CancellationToken,
}

struct Inner {
    config: OciConfig,
    agent: AgentRecord,
    images: ImageStore,
    network: Network,
    state: Mutex<State>,
    events: broadcast::Sender<ContainerEvent>,
    /// One at a time changes a sandbox and its containers.
    sandbox_locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    _lock: fs::File,
}

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<String, sandbox::Record>,
    containers: BTreeMap<String, Entry>,
}

struct Entry {
    bundle: Bundle,
    cgroup: String,
    status: ContainerStatus,
    process: Option<ProcessRef>,
    /// Becomes true when the container has ended.
    ended: watch_channel::Sender<bool>,
}

impl OciRuntime {
    /// Opens the state of an agent and adopts what runs.
    ///
    /// # Errors
    /// Not root, another process has the state open, or the machine lacks something; see [`crate::preflight`].
    pub async fn open(config: OciConfig) -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            return Err(RuntimeError::Unsupported(
                "the embedded container runtime needs root: run as root or use another runtime".to_owned(),
            ));
        }
        let mut config = config;
        let lock = prepare(&mut config)?;
        let agent = agent_record(&config).await?;
        let images = ImageStore::open(&config.image_root)?.trusting(&config.registry_certs);
        let network = Network::open(agent.net.clone()).await?;
        let inner = Arc::new(Inner {
            config,
            agent,
            images,
            network,
            state: Mutex::default(),
            events: broadcast::channel(EVENT_BUFFER).0,
            sandbox_locks: Mutex::default(),
            _lock: lock,
        });
        let runtime = Self { inner, watchers: TaskTracker::new(), stop: tokio_util::sync::CancellationToken::new() };
        runtime.adopt_sandboxes().await?;
        runtime.adopt_containers()?;
        Ok(runtime)
    }

    /// The network of this agent's pods.
    pub fn pod_cidr(&self) -> Ipv4Net {
        self.inner.agent.net.subnet
    }
}

impl Drop for OciRuntime {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held left whole values: each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sandbox_lock(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.sandbox_locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        locks.entry(id.to_owned()).or_default().clone()
    }

    fn send_event(&self, sandbox_id: &str, container_id: &str) {
        let event = ContainerEvent { sandbox_id: sandbox_id.to_owned(), container_id: container_id.to_owned() };
        let _nobody_listens = self.events.send(event);
    }
}

/// Folders as absolute paths, and the lock on the state.
fn prepare(config: &mut OciConfig) -> Result<fs::File> {
    for folder in [&mut config.root, &mut config.log_dir] {
        fs::create_dir_all(&*folder).context(|| format!("making {}", folder.display()))?;
        *folder = folder.canonicalize().context(|| format!("opening {}", folder.display()))?;
    }
    for name in ["sandboxes", "containers"] {
        let folder = config.root.join(name);
        fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    }
    let opening = || format!("opening the state {}", config.root.display());
    let lock = files::open_lock(&config.root.join("lock")).context(opening)?;
    if !files::try_lock(&lock).context(opening)? {
        return Err(RuntimeError::Other(format!("{}: another process has it open", opening())));
    }
    Ok(lock)
}

async fn agent_record(config: &OciConfig) -> Result<AgentRecord> {
    let path = AgentRecord::path(&config.root);
    let reading = || format!("reading {}", path.display());
    let known = files::read_json::<AgentRecord>(&path).context(reading)?;
    let wanted = config.pod_cidr.or(known.as_ref().map(|record| record.net.subnet));
    let short = short_name(&config.name);
    let bridge = format!("km-{short}");
    let subnet = claim_subnet(&config.root, &bridge, wanted).await?;
    let record = AgentRecord {
        cgroup: format!("{AGENTS_CGROUP}/{short}"),
        net: AgentNet { bridge, table: format!("km-rt-{short}"), subnet },
        log_dir: config.log_dir.clone(),
    };
    files::write_json(&path, &record).context(|| format!("writing {}", path.display()))?;
    Ok(record)
}

/// At most 12 characters that interfaces, control groups and tables all allow: the name itself, or a digest of it.
fn short_name(name: &str) -> String {
    use sha2::{Digest, Sha256};
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.len() <= 12 && name.chars().all(plain) {
        return name.to_owned();
    }
    Sha256::digest(name).iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

/// Ids become names of folders and control groups.
fn check_id(kind: &str, id: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if id.is_empty() || id.len() > 128 || id.starts_with('.') || !id.chars().all(plain) {
        return Err(RuntimeError::Other(format!(
            "{kind} id {id:?} is invalid: 1 to 128 letters, digits, '.', '_' and '-' are right, not '.' first"
        )));
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| RuntimeError::Other(error.to_string()))?
}

#[async_trait]
impl Runtime for OciRuntime {
    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox> {
        self.inner.run_sandbox(spec).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<()> {
        self.inner.remove_sandbox(id).await
    }

    async fn list_sandboxes(&self) -> Result<Vec<Sandbox>> {
        let state = self.inner.state();
        Ok(state.sandboxes.values().filter(|record| record.ready).map(sandbox::Record::sandbox).collect())
    }

    async fn start_container(&self, spec: &ContainerSpec) -> Result<ContainerStatus> {
        self.start(spec).await
    }

    async fn update_container(&self, id: &str, resources: ContainerResources) -> Result<()> {
        self.inner.update(id, resources).await
    }

    async fn signal_container(&self, id: &str, signal: i32) -> Result<()> {
        self.inner.signal(id, signal)
    }

    async fn remove_container(&self, id: &str) -> Result<()> {
        self.inner.remove_container(id).await
    }

    async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        let state = self.inner.state();
        let entry = state.containers.get(id);
        entry
            .map(|entry| entry.status.clone())
            .ok_or_else(|| RuntimeError::NotFound { kind: "container", id: id.to_owned() })
    }

    async fn list_containers(&self, sandbox_id: Option<&str>) -> Result<Vec<ContainerStatus>> {
        let state = self.inner.state();
        let wanted = |entry: &&Entry| sandbox_id.is_none_or(|id| entry.status.sandbox_id == id);
        Ok(state.containers.values().filter(wanted).map(|entry| entry.status.clone()).collect())
    }

    fn events(&self) -> broadcast::Receiver<ContainerEvent> {
        self.inner.events.subscribe()
    }

    async fn image(&self, reference: &str) -> Result<Option<ImageInfo>> {
        let (images, reference) = (self.inner.images.clone(), reference.to_owned());
        blocking(move || images.get(&reference)).await
    }

    async fn list_images(&self) -> Result<Vec<ImageInfo>> {
        let images = self.inner.images.clone();
        blocking(move || images.list()).await
    }

    async fn pull_image(&self, reference: &str, auth: Option<RegistryAuth>) -> Result<ImageInfo> {
        self.inner.images.pull(reference, auth).await
    }

    async fn remove_image(&self, reference: &str) -> Result<()> {
        let (images, reference) = (self.inner.images.clone(), reference.to_owned());
        blocking(move || images.remove(&reference).map(drop)).await
    }

    async fn load_image(&self, file: &Path) -> Result<Vec<String>> {
        let (images, file) = (self.inner.images.clone(), file.to_owned());
        blocking(move || images.load(&file)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_an_interface_name() {
        assert_eq!(short_name("agent0"), "agent0");
        for long in ["0f1c2d3e-aaaa-bbbb-cccc-000000000000-S0", "", "Agent", "a/b"] {
            let short = short_name(long);
            assert!(short.len() == 10 && format!("km-{short}").len() <= 15, "{long}: {short}");
        }
        assert_ne!(short_name("x-S0x-S0x-S0"), short_name("x-S0x-S0x-S1"));
    }

    #[test]
    fn ids_cannot_leave_their_folder() {
        check_id("container", "3b0e.a_b-C").unwrap();
        for bad in ["", ".", "..", "a/b", ".hidden", "a b"] {
            assert!(check_id("container", bad).unwrap_err().to_string().contains("is invalid"), "{bad}");
        }
    }
}
