//! Writes a pod's status to the API server: the newest one, as often as it takes.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodStatus;
use tokio::sync::watch;

use crate::{
    api::{Api, ApiError, PodKey},
    retry::while_unavailable,
};

/// How long a status that need not be durable may hold up its pod's end.
const BRIEFLY: Duration = Duration::from_secs(1);

/// Where the statuses of a pod go.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Writes one, for as long as that may take.
    async fn write(&self, status: &PodStatus);
    /// Whether the pod's end waits until the last one is written.
    fn must_be_durable(&self) -> bool;
}

/// The pod's own object in the API server.
pub struct OwnObject {
    pub api: Arc<dyn Api>,
    pub key: PodKey,
}

#[async_trait]
impl Sink for OwnObject {
    async fn write(&self, status: &PodStatus) {
        write(&*self.api, &self.key, status).await;
    }

    fn must_be_durable(&self) -> bool {
        true
    }
}

/// Statuses that come faster than they can be written are skipped, but the last is always written.
pub struct Publisher {
    wanted: watch::Sender<(u64, Option<PodStatus>)>,
    written: watch::Receiver<u64>,
    durable: bool,
}

impl Publisher {
    pub fn spawn(sink: Arc<dyn Sink>) -> Self {
        let durable = sink.must_be_durable();
        let (wanted, mut incoming) = watch::channel((0, None));
        let (done, written) = watch::channel(0);
        tokio::spawn(async move {
            // Ends when the pod's task has dropped its sender.
            while incoming.changed().await.is_ok() {
                loop {
                    let (number, status) = incoming.borrow_and_update().clone();
                    let Some(status) = status else { break };
                    tokio::select! {
                        () = sink.write(&status) => {
                            done.send_replace(number);
                            break;
                        }
                        // A newer one makes this one needless.
                        changed = incoming.changed() => if changed.is_err() { return },
                    }
                }
            }
        });
        Self { wanted, written, durable }
    }

    pub fn publish(&self, status: PodStatus) {
        self.wanted.send_modify(|(number, wanted)| {
            *number += 1;
            *wanted = Some(status);
        });
    }

    /// Waits until the newest status is durable in the API server (or its pod is gone from there). For a
    /// sink that need not be durable: for a moment.
    pub async fn flush(&mut self) {
        let newest = self.wanted.borrow().0;
        let written = self.written.wait_for(|written| *written >= newest);
        let result = match self.durable {
            true => written.await.map(drop),
            false => tokio::time::timeout(BRIEFLY, written).await.map_or(Ok(()), |result| result.map(drop)),
        };
        if result.is_err() {
            tracing::error!("the writer of a pod's status ended early");
        }
    }
}

async fn write(api: &dyn Api, key: &PodKey, status: &PodStatus) {
    let phase = status.phase.as_deref().unwrap_or_default();
    match while_unavailable("writing a pod's status", || api.set_status(key, status)).await {
        Ok(()) => tracing::debug!(pod = key.name, namespace = key.namespace, phase, "status written"),
        Err(ApiError::NotFound | ApiError::Conflict(_)) => {
            tracing::debug!(pod = key.name, namespace = key.namespace, phase, "the pod is gone: no status to write");
        }
        Err(error) => {
            tracing::error!(pod = key.name, namespace = key.namespace, phase, %error, "the server refuses the status");
        }
    }
}
