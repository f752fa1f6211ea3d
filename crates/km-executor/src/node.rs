//! The Node object: what this executor's agent offers to pods, and signs of life.

mod describe;
mod lease;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use tokio_util::sync::CancellationToken;

use crate::{api::Api, retry::while_unavailable};

pub use describe::Description;
pub use lease::lease;

/// A lease says for 40 s that the node lives; it is renewed four times as often (Kubernetes' defaults).
const LEASE_SECONDS: i32 = 40;
const RENEWAL: Duration = Duration::from_secs(10);
/// The status itself is written again this often, even if nothing changed.
const STATUS: Duration = Duration::from_secs(300);

/// Registers the node and keeps its status and lease fresh until `stop`.
pub async fn keep(api: Arc<dyn Api>, description: Arc<Description>, stop: CancellationToken) {
    let work = async {
        let node = register(&*api, &description).await;
        let mut renewal = tokio::time::interval(RENEWAL);
        let mut status = tokio::time::interval(STATUS);
        let mut gone = false;
        loop {
            tokio::select! {
                _ = renewal.tick() => {
                    if let Err(error) = api.renew_lease(&node, LEASE_SECONDS).await {
                        tracing::warn!(%error, "lease not renewed");
                    }
                    // Somebody may have deleted the node while we live.
                    if gone {
                        gone = false;
                        register(&*api, &description).await;
                    }
                }
                _ = status.tick() => {
                    let written = api.set_node_status(&description.name, &description.status()).await;
                    if let Err(error) = written {
                        tracing::warn!(%error, "node status not written");
                        gone = error == crate::api::ApiError::NotFound;
                        status.reset_after(RENEWAL);
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
