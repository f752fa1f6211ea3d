//! The node's heartbeat object.

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::Node,
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};

/// A lease that says that the node lives now.
pub fn lease(node: &Node, seconds: i32) -> Lease {
    let name = node.metadata.name.clone().unwrap_or_default();
    // With the node as owner the lease goes when the node does.
    let owner = node.metadata.uid.clone().map(|uid| OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.clone(),
        uid,
        ..Default::default()
    });
    Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some("kube-node-lease".into()),
            owner_references: owner.map(|owner| vec![owner]),
            ..Default::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..Default::default()
        }),
    }
}
