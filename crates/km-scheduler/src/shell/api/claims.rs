//! What the scheduler writes about persistent volumes and claims.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use km_kube::keys::{BOUND_BY_CONTROLLER, SELECTED_NODE};
use km_podtask::PodKey;
use kube::{
    Api as KubeApi,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{Api, Outcome, within};
use crate::core::ApiReply;

impl Api {
    /// As the controller of volumes would: it takes the reservation back when the claim has another volume.
    pub(super) async fn reserve_volume(&self, volume: &str, version: &str, claim: &PodKey, uid: &str) -> Outcome {
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": claim.name,
            "uid": uid,
        });
        let patch = json!({
            "metadata": { "resourceVersion": version, "annotations": { BOUND_BY_CONTROLLER: "yes" } },
            "spec": { "claimRef": reference },
        });
        let volumes: KubeApi<PersistentVolume> = KubeApi::all(self.client.clone());
        within(volumes.patch(volume, &PatchParams::default(), &Patch::Merge(patch))).await.map(|_| ApiReply::Done)
    }

    pub(super) async fn select_node(&self, claim: &PodKey, version: &str, node: &str) -> Outcome {
        let patch = json!({ "metadata": { "resourceVersion": version, "annotations": { SELECTED_NODE: node } } });
        let claims: KubeApi<PersistentVolumeClaim> = KubeApi::namespaced(self.client.clone(), &claim.namespace);
        within(claims.patch(&claim.name, &PatchParams::default(), &Patch::Merge(patch))).await.map(|_| ApiReply::Done)
    }
}
