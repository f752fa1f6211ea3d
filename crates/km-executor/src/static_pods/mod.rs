//! Static pods: pods that come with the executor itself instead of as tasks. They run from its start to its end, and the
//! API server shows a mirror of each.

mod files;
mod mirror;
mod mirrors;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_pod::StopCause;
use km_podtask::static_pods;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::{
    api::{ApiError, PodChange, PodKey},
    node::Description,
    pod::{self, Input, PodHandle, Shared},
    table::PodTable,
    tasks::Event,
};
pub use files::write;
pub use mirror::Mirror;
use mirrors::{Mirrors, Step};

/// How long the deletion of a mirror may hold up the executor's end.
const FAREWELL: Duration = Duration::from_secs(2);

/// The pods of an executor's data for this host. What can't be read is none, as in the original.
pub fn of_executor(data: &[u8], hostname: &str, variables: &[(String, String)]) -> Vec<Pod> {
    let pods = static_pods::unpack(data).unwrap_or_else(|error| {
        tracing::error!(%error, "the executor's data holds no static pods");
        Vec::new()
    });
    pods.into_iter().map(|pod| static_pods::for_host(pod, hostname, variables)).collect()
}

/// The static pod as the kubelet knows it on a node: its name ends in that of the node, and its UID follows from what
/// it is and where (Kubernetes docs, "Create static Pods").
pub fn on_node(mut pod: Pod, node: &str) -> Pod {
    let mut digest = Sha256::new();
    digest.update(node);
    digest.update(serde_json::to_vec(&pod).unwrap_or_default());
    let hash: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let meta = &mut pod.metadata;
    meta.name = Some(format!("{}-{node}", meta.name.as_deref().unwrap_or_default()));
    meta.namespace.get_or_insert_with(|| "default".to_owned());
    meta.uid = Some(hash.clone());
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(mirror::CONFIG_HASH.to_owned(), hash);
    annotations.insert(km_kube::keys::CONFIG_SOURCE.to_owned(), "file".to_owned());
    if let Some(spec) = &mut pod.spec {
        spec.node_name = Some(node.to_owned());
        spec.tolerations.get_or_insert_default().push(k8s_openapi::api::core::v1::Toleration {
            operator: Some("Exists".to_owned()),
            effect: Some("NoExecute".to_owned()),
            ..Default::default()
        });
    }
    pod
}

/// All static pods of this executor.
pub struct StaticPods {
    pods: Vec<PodHandle>,
    mirrors: Mirrors,
    shared: Arc<Shared>,
}

impl StaticPods {
    /// Starts them. `nudge` hears when one has ended.
    pub fn start(
        pods: &[Pod],
        shared: &Arc<Shared>,
        table: &PodTable,
        description: &Arc<Description>,
        nudge: &mpsc::UnboundedSender<Event>,
    ) -> Self {
        let mut mirrors = Mirrors::default();
        let mut handles = Vec::new();
        for pod in pods {
            let pod = on_node(pod.clone(), &description.name);
            let key = PodKey::of(&pod);
            mirrors.own(&pod);
            let nudge = nudge.clone();
            let report = move |report| {
                if matches!(report, pod::Report::Ended { .. }) && nudge.send(Event::Timer).is_err() {
                    tracing::trace!("a static pod ended after the executor");
                }
            };
            let mirror = Mirror::new(shared.api.clone(), pod.clone(), description.clone());
            tracing::info!(pod = key.name, namespace = key.namespace, "static pod");
            let handle = pod::spawn(shared.clone(), pod, None, Arc::new(mirror), report);
            table.insert(handle.clone());
            handles.push(handle);
        }
        Self { pods: handles, mirrors, shared: shared.clone() }
    }

    /// Looks after the mirrors.
    pub fn pod_changed(&mut self, change: &PodChange) {
        for step in self.mirrors.pod_changed(change) {
            match step {
                Step::Delete(key) => {
                    let api = self.shared.api.clone();
                    tokio::spawn(async move { crate::executor::delete(&*api, &key).await });
                }
                Step::Publish { namespace, name } => {
                    let own = self.pods.iter().find(|pod| pod.key.namespace == namespace && pod.key.name == name);
                    if own.is_some_and(|pod| pod.input.send(Input::Publish).is_err()) {
                        tracing::debug!(name, namespace, "the mirror of a static pod that has ended stays away");
                    }
                }
            }
        }
    }

    /// Ends them all.
    pub fn stop(&self, grace: Duration) {
        for pod in &self.pods {
            pod.send(km_pod::Event::Stop { cause: StopCause::Shutdown, grace });
        }
    }

    /// Whether nothing of them runs.
    pub fn have_ended(&self) -> bool {
        self.pods.iter().all(|pod| pod.input.is_closed())
    }

    /// Takes the mirrors away: nothing stands behind them any more.
    pub async fn farewell(&self) {
        let api = &self.shared.api;
        let deletions = self.mirrors.known().map(|key| async move {
            match tokio::time::timeout(FAREWELL, api.delete_pod(key)).await {
                Ok(Ok(()) | Err(ApiError::NotFound | ApiError::Conflict(_))) => {}
                Ok(Err(error)) => tracing::warn!(pod = key.name, %error, "the mirror of a static pod is left"),
                Err(_) => tracing::warn!(pod = key.name, "the mirror of a static pod is left: no answer"),
            }
        });
        futures::future::join_all(deletions).await;
    }
}

#[cfg(test)]
mod tests;
