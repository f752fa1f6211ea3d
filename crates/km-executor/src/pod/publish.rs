//! Writes a pod's status to the API server: the newest one, as often as it takes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use tokio::sync::watch;

use crate::{
    api::{Api, ApiError, PodKey},
    retry::while_unavailable,
};

/// Statuses that come faster than they can be written are skipped, but the last is always written.
pub struct Publisher {
    wanted: watch::Sender<(u64, Option<PodStatus>)>,
    written: watch::Receiver<u64>,
}

impl Publisher {
    pub fn spawn(api: Arc<dyn Api>, key: PodKey) -> Self {
        let (wanted, mut incoming) = watch::channel((0, None));
        let (done, written) = watch::channel(0);
        tokio::spawn(async move {
            // Ends when the pod's task has dropped its sender.
            while incoming.changed().await.is_ok() {
                loop {
                    let (number, status) = incoming.borrow_and_update().clone();
                    let Some(status) = status else { break };
                    tokio::select! {
                        () = write(&*api, &key, &status) => {
                            done.send_replace(number);
                            break;
                        }
                        // A newer one makes this one needless.
                        changed = incoming.changed() => if changed.is_err() { return },
                    }
                }
            }
        });
        Self { wanted, written }
    }

    pub fn publish(&self, status: PodStatus) {
        self.wanted.send_modify(|(number, wanted)| {
            *number += 1;
            *wanted = Some(status);
        });
    }

    /// Waits until the newest status is durable in the API server (or its pod is gone from there).
    pub async fn flush(&mut self) {
        let newest = self.wanted.borrow().0;
        if self.written.wait_for(|written| *written >= newest).await.is_err() {
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
