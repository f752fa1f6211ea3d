//! The Node object: what this executor's agent offers to pods, and signs of life.

mod describe;
mod lease;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use tokio_util::sync::CancellationToken;

use crate::{api::Api, retry::while_unavailable};

pub use describe::Description;
pub use lease::lease;

/// A lease says for 40 s that the node lives.
const LEASE_SECONDS: i32 = 40;

/// How often what is told again and again.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The lease, and a look whether the node is still there: four times as often as a lease ends (Kubernetes' default).
    pub renewal: Duration,
    /// The status, even if nothing changed.
    pub status: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { renewal: Duration::from_secs(10), status: Duration::from_secs(300) }
    }
}

/// Registers the node and keeps its status and lease fresh until `stop`.
pub async fn keep(api: Arc<dyn Api>, description: Arc<Description>, pace: Pace, stop: CancellationToken) {
    let work = async {
        let mut node = register(&*api, &description).await;
        let mut renewal = tokio::time::interval(pace.renewal);
        let mut status = tokio::time::interval(pace.status);
        loop {
            tokio::select! {
                _ = renewal.tick() => {
                    if is_another(&*api, &node).await {
                        node = register(&*api, &description).await;
                        status.reset_immediately();
                    }
                    if let Err(error) = api.renew_lease(&node, LEASE_SECONDS).await {
                        tracing::warn!(%error, "lease not renewed");
                    }
                }
                _ = status.tick() => {
                    let written = api.set_node_status(&description.name, &description.status()).await;
                    if let Err(error) = written {
                        tracing::warn!(%error, "node status not written");
                        status.reset_after(pace.renewal);
                    }
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = stop.cancelled() => {}
    }
}

/// Whether the node was deleted since it was registered. The scheduler may have made it again, but it knows neither
/// the kubelet's address nor the machine.
async fn is_another(api: &dyn Api, node: &Node) -> bool {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    match api.node_uid(name).await {
        Ok(uid) => uid != node.metadata.uid,
        Err(error) => {
            tracing::warn!(%error, "node not read");
            false
        }
    }
}

/// Makes the node, or finds it.
pub async fn register(api: &dyn Api, description: &Description) -> Node {
    let node = description.node();
    match while_unavailable("registering the node", || api.ensure_node(&node)).await {
        Ok(registered) => registered,
        Err(error) => {
            tracing::error!(%error, "the server refuses the node");
            node
        }
    }
}
