//! The network of pods: a bridge per agent, a /24 of its own, one network namespace per pod, host ports.
//!
//! Pods have /32 addresses and reach everything, each other too, through the host's routing. So every connection
//! passes the host's connection tracking, and services work between pods of one bridge without kernel options.

mod address;
mod claim;
mod forward;
mod links;
mod namespace;
mod nft;

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

pub use address::Ipv4Net;
use address::lowest_free;
pub(crate) use claim::{claim_subnet, release_subnet};
use forward::Forwarder;
pub(crate) use nft::check as check_nft;

use crate::{PortMapping, Result, RuntimeError, files::Context};

/// All pod networks of a host lie in here: packets between them are not masqueraded.
pub const CLUSTER_NET: Ipv4Net = Ipv4Net::new(Ipv4Addr::new(10, 88, 0, 0), 13);

/// Names and addresses of one agent's network; all else follows from it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct AgentNet {
    pub bridge: String,
    pub table: String,
    pub subnet: Ipv4Net,
}

impl AgentNet {
    pub fn gateway(&self) -> Ipv4Addr {
        self.subnet.nth(1)
    }
}

/// One pod's attachment.
struct Attachment {
    ip: Ipv4Addr,
    ports: Vec<PortMapping>,
    /// Keep the host ports taken, and serve them where the packet filter does not.
    _forwarders: Vec<Forwarder>,
}

pub(crate) struct Network {
    agent: AgentNet,
    with_nft: bool,
    pods: Mutex<BTreeMap<String, Attachment>>,
    /// One change of the packet filter at a time, so that an older rule set never replaces a newer one.
    filter: tokio::sync::Mutex<()>,
    /// The address given out last: the next one starts after it, so that addresses are not reused at once.
    last: Mutex<Ipv4Addr>,
}

impl Network {
    pub async fn open(agent: AgentNet) -> Result<Self> {
        links::ensure_bridge(&agent.bridge, agent.gateway(), agent.subnet.prefix).await?;
        let with_nft = nft::available().await;
        if !with_nft {
            tracing::warn!(
                "nft does not work here: host ports are forwarded by this process, and pods reach nothing outside"
            );
        }
        let last = Mutex::new(agent.gateway());
        Ok(Self { agent, with_nft, pods: Mutex::default(), filter: tokio::sync::Mutex::default(), last })
    }

    /// An address that no pod has. `taken` are those of sandboxes on disk.
    pub fn pick_address(&self, taken: &[Ipv4Addr]) -> Result<Ipv4Addr> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let free = lowest_free(self.agent.subnet, *last, taken)
            .ok_or_else(|| RuntimeError::Other(format!("all addresses of {} are in use", self.agent.subnet)))?;
        *last = free;
        Ok(free)
    }

    /// Makes the pod's namespace at `path` and connects it. Repeating it makes it anew.
    pub async fn attach(&self, id: &str, path: &Path, ip: Ipv4Addr, ports: &[PortMapping]) -> Result<()> {
        namespace::remove(path).context(|| format!("removing the old network namespace of pod {id}"))?;
        let link = link_name(&self.agent.bridge, id);
        links::delete(&link).await?;
        let setup = namespace::Setup {
            path: path.to_owned(),
            bridge: self.agent.bridge.clone(),
            link,
            ip,
            gateway: self.agent.gateway(),
        };
        namespace::create(setup).await?;
        self.publish(id, ip, ports).await
    }

    /// Makes the host ports of a pod reachable; also of a pod that was attached by an earlier process.
    pub async fn publish(&self, id: &str, ip: Ipv4Addr, ports: &[PortMapping]) -> Result<()> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        let mut forwarders = Vec::new();
        for port in ports {
            forwarders.push(Forwarder::start(port, ip).await?);
        }
        let attachment = Attachment { ip, ports: ports.to_vec(), _forwarders: forwarders };
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), attachment);
        self.apply().await
    }

    pub async fn detach(&self, id: &str, path: &Path) -> Result<()> {
        let known = self.pods.lock().unwrap_or_else(PoisonError::into_inner).remove(id).is_some();
        if known {
            self.apply().await?;
        }
        links::delete(&link_name(&self.agent.bridge, id)).await?;
        namespace::remove(path).context(|| format!("removing the network namespace of pod {id}"))
    }

    async fn apply(&self) -> Result<()> {
        if !self.with_nft {
            return Ok(());
        }
        let _one_at_a_time = self.filter.lock().await;
        let rules = {
            let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
            let pods: Vec<_> = pods.values().map(|pod| (pod.ip, pod.ports.as_slice())).collect();
            nft::render(&self.agent, &pods)
        };
        nft::apply(&rules).await
    }
}

/// The host's end of a pod's link: 15 characters at most, unique per agent and pod.
fn link_name(bridge: &str, id: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("{bridge}/{id}"));
    let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("kmv{hex}")
}

/// Removes bridge, packet filter table and the namespaces below `sandboxes` of an agent. Succeeds when there are none.
pub(crate) async fn purge(agent: &AgentNet, sandboxes: &[(String, PathBuf)]) -> Result<()> {
    for (id, path) in sandboxes {
        links::delete(&link_name(&agent.bridge, id)).await?;
        namespace::remove(path).context(|| format!("removing the network namespace of pod {id}"))?;
    }
    links::delete(&agent.bridge).await?;
    nft::delete_table(&agent.table).await
}

/// Whether bridges and links can be made here.
pub(crate) async fn check_links() -> Result<()> {
    let name = format!("kmc{}", std::process::id());
    links::ensure_bridge_link(&name).await?;
    links::delete(&name).await
}

fn other(context: &str, error: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Other(format!("{context}: {error}"))
}

fn write_sysctl(path: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/{path}");
    // Written only when it differs: the file may be read-only where the value is right already.
    if std::fs::read_to_string(&path)?.trim() == value {
        return Ok(());
    }
    std::fs::write(&path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("setting {path} to {value}: {error}")))
}
