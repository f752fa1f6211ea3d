//! What a kubelet asks of a container runtime, in the shape of the CRI: one sandbox per pod, containers in it.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// A pod's shared part: its network namespace, cgroup, host name and resolv.conf.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Unique per pod incarnation; the pod's UID.
    pub id: String,
    pub namespace: String,
    pub name: String,
    pub hostname: String,
    /// Share the host's network; then `ports` are not mapped and the pod's IP is the node's.
    pub host_network: bool,
    pub ports: Vec<PortMapping>,
    /// Lines of `/etc/resolv.conf`; empty: copy of the host's.
    pub resolv_conf: Vec<String>,
    /// Lines at the end of `/etc/hosts`.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Opaque data of the kubelet, returned by `list`: from it a restarted kubelet adopts the pod.
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortMapping {
    pub container_port: u16,
    pub host_port: u16,
    pub protocol: Protocol,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sandbox {
    pub spec: SandboxSpec,
    /// Absent with `host_network`.
    pub ip: Option<IpAddr>,
}

/// One container of a sandbox. Everything is resolved: no Kubernetes reference is left in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Unique for ever: a restart is a new container with a new id.
    pub id: String,
    pub sandbox_id: String,
    /// The container's name in the pod.
    pub name: String,
    /// Restart count; the log file is `<log_dir>/<name>/<attempt>.log`, as in the CRI.
    pub attempt: u32,
    /// An image reference that `image` answered for.
    pub image: String,
    /// Replaces the image's entrypoint when not empty.
    pub command: Vec<String>,
    /// Replaces the image's cmd when not empty (or when `command` is set).
    pub args: Vec<String>,
    /// Added over the image's environment, in order, later ones win.
    pub env: Vec<(String, String)>,
    pub working_dir: Option<String>,
    pub mounts: Vec<Mount>,
    /// CPU shares (cgroup v1 units, 1024 = one CPU); 0: the minimum.
    pub cpu_shares: u64,
    /// CPU limit in thousandths of a CPU; 0: none.
    pub cpu_limit_milli: u64,
    /// Memory limit in bytes; 0: none.
    pub memory_limit_bytes: u64,
    pub run_as_user: Option<u32>,
    pub run_as_group: Option<u32>,
    /// Groups of the process besides its own and those of the image (`supplementalGroups`, `fsGroup`).
    #[serde(default)]
    pub supplemental_groups: Vec<u32>,
    /// `allowPrivilegeEscalation: false`; without effect on privileged containers.
    #[serde(default)]
    pub no_new_privileges: bool,
    pub privileged: bool,
    pub read_only_root: bool,
    pub add_capabilities: Vec<String>,
    pub drop_capabilities: Vec<String>,
    pub annotations: BTreeMap<String, String>,
}

/// What of a running container can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerResources {
    /// As in [`ContainerSpec`], each.
    pub cpu_shares: u64,
    pub cpu_limit_milli: u64,
    pub memory_limit_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    pub host_path: PathBuf,
    pub container_path: PathBuf,
    pub read_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    Created,
    Running,
    Exited,
}

/// What is known of one container. Times are Unix nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerStatus {
    pub id: String,
    pub sandbox_id: String,
    pub name: String,
    pub attempt: u32,
    pub image: String,
    /// `sha256:…` of the image's configuration.
    pub image_id: String,
    pub state: ContainerState,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub finished_at: Option<i64>,
    /// 128 + signal for a killed process.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun` (then `message` says why).
    pub reason: String,
    pub message: String,
    pub log_path: PathBuf,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageInfo {
    /// `sha256:…` of the image's configuration.
    pub id: String,
    /// Normalised references, e.g. `docker.io/library/busybox:1.35`.
    pub references: Vec<String>,
    /// Bytes of the unpacked layers.
    pub size: u64,
    /// The image's `USER`, empty: root.
    pub user: String,
}

/// Something happened to a container; the receiver asks for its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEvent {
    pub sandbox_id: String,
    pub container_id: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The image is not in the local store.
    #[error("image {0:?} is not present")]
    ImageNotPresent(String),
    /// The registry could not be asked or refused; the text says which registry and why.
    #[error("pulling image {reference:?}: {message}")]
    Pull { reference: String, message: String },
    #[error("invalid image reference {reference:?}: {message}")]
    InvalidReference { reference: String, message: String },
    #[error("no such {kind} {id:?}")]
    NotFound { kind: &'static str, id: String },
    /// Somebody else on the machine listens on a host port of the pod.
    #[error("host port {port}/{protocol} is taken")]
    HostPortTaken { port: u16, protocol: &'static str },
    /// The machine lacks something: the text says what, and what would help.
    #[error("{0}")]
    Unsupported(String),
    #[error("{context}: {source}")]
    Io { context: String, source: std::io::Error },
    #[error("{0}")]
    Other(String),
}

pub type Result<T> = std::result::Result<T, RuntimeError>;

/// A container runtime. All calls are idempotent: running what runs, stopping what is stopped and removing what is
/// gone succeed.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// Creates the sandbox, or returns the existing one of the same id.
    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox>;
    /// Kills what still runs in the sandbox and removes it with its containers, network, cgroup and mounts.
    async fn remove_sandbox(&self, id: &str) -> Result<()>;
    async fn list_sandboxes(&self) -> Result<Vec<Sandbox>>;

    /// Creates and starts a container. An error after creation leaves a container `Exited` with reason
    /// `ContainerCannotRun`.
    async fn start_container(&self, spec: &ContainerSpec) -> Result<ContainerStatus>;
    /// Gives a running container other resources, without a restart. Less memory than it uses is refused.
    async fn update_container(&self, id: &str, resources: ContainerResources) -> Result<()>;
    /// Sends a signal to the container's first process.
    async fn signal_container(&self, id: &str, signal: i32) -> Result<()>;
    /// Removes an exited container with its log and writable layer.
    async fn remove_container(&self, id: &str) -> Result<()>;
    async fn container_status(&self, id: &str) -> Result<ContainerStatus>;
    /// All containers, also exited ones, of one sandbox or of all.
    async fn list_containers(&self, sandbox_id: Option<&str>) -> Result<Vec<ContainerStatus>>;
    /// Start and exit events. A lagging receiver must list.
    fn events(&self) -> broadcast::Receiver<ContainerEvent>;

    /// The image of a reference, when present.
    async fn image(&self, reference: &str) -> Result<Option<ImageInfo>>;
    async fn list_images(&self) -> Result<Vec<ImageInfo>>;
    /// Fetches the image from its registry.
    async fn pull_image(&self, reference: &str, auth: Option<RegistryAuth>) -> Result<ImageInfo>;
    async fn remove_image(&self, reference: &str) -> Result<()>;
    /// Loads an OCI layout (folder or tar) or a docker archive; returns the references it brought.
    async fn load_image(&self, file: &std::path::Path) -> Result<Vec<String>>;
}

#[derive(Clone, PartialEq, Eq)]
pub struct RegistryAuth {
    pub username: String,
    pub password: String,
}
