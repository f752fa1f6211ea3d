//! The rows. Group order is the order of preference in discovery.

use super::{Hooks, Kind, Subresource, event_conversion};
use crate::{
    columns::{self, Column},
    hooks::{namespaces, pods, secrets, services, storage},
};

impl Kind {
    const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
        storage: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            singular,
            short: &[],
            namespaced: true,
            categories: &[],
            subresources: &[],
            fields: &[],
            columns: columns::plain::COLUMNS,
            cells: columns::plain::cells,
            generation: false,
            create_on_update: false,
            storage,
            conversion: None,
            exclusive: false,
            hooks: Hooks::NONE,
        }
    }

    const fn columns(
        mut self,
        columns: &'static [Column],
        cells: fn(&serde_json::Value) -> Vec<serde_json::Value>,
    ) -> Self {
        self.columns = columns;
        self.cells = cells;
        self
    }
}

const RW: &[&str] = &["get", "patch", "update"];
const CREATE: &[&str] = &["create"];
const GET: &[&str] = &["get"];
const CONNECT: &[&str] = &["create", "get"];
const ALL: &[&str] = &["all"];

const fn status(group: &'static str, kind: &'static str) -> Subresource {
    Subresource { name: "status", verbs: RW, kind: (group, "v1", kind) }
}

const SCALE: Subresource = Subresource { name: "scale", verbs: RW, kind: ("autoscaling", "v1", "Scale") };

const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject.kind", "/involvedObject/kind"),
    ("involvedObject.namespace", "/involvedObject/namespace"),
    ("involvedObject.name", "/involvedObject/name"),
    ("involvedObject.uid", "/involvedObject/uid"),
    ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
    ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    ("reason", "/reason"),
    ("reportingComponent", "/reportingComponent"),
    ("source", "/source/component"),
    ("type", "/type"),
];

/// Every kind that is served.
pub static KINDS: &[Kind] = &[
    Kind {
        short: &["po"],
        categories: ALL,
        subresources: &[
            Subresource { name: "attach", verbs: CONNECT, kind: ("", "v1", "PodAttachOptions") },
            Subresource { name: "binding", verbs: CREATE, kind: ("", "v1", "Binding") },
            Subresource { name: "eviction", verbs: CREATE, kind: ("policy", "v1", "Eviction") },
            Subresource { name: "exec", verbs: CONNECT, kind: ("", "v1", "PodExecOptions") },
            Subresource { name: "log", verbs: GET, kind: ("", "v1", "Pod") },
            Subresource { name: "portforward", verbs: CONNECT, kind: ("", "v1", "PodPortForwardOptions") },
            Subresource { name: "resize", verbs: RW, kind: ("", "v1", "Pod") },
            status("", "Pod"),
        ],
        fields: &[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.restartPolicy", "/spec/restartPolicy"),
            ("spec.schedulerName", "/spec/schedulerName"),
            ("spec.serviceAccountName", "/spec/serviceAccountName"),
            ("spec.hostNetwork", "/spec/hostNetwork"),
            ("status.phase", "/status/phase"),
            ("status.podIP", "/status/podIP"),
            ("status.nominatedNodeName", "/status/nominatedNodeName"),
        ],
        generation: true,
        hooks: pods::HOOKS,
        ..Kind::new("", "v1", "Pod", "pods", "pod", "pods").columns(columns::pods::COLUMNS, columns::pods::cells)
    },
    Kind {
        short: &["ns"],
        namespaced: false,
        subresources: &[
            Subresource { name: "finalize", verbs: &["update"], kind: ("", "v1", "Namespace") },
            status("", "Namespace"),
        ],
        fields: &[("status.phase", "/status/phase")],
        hooks: namespaces::HOOKS,
        ..Kind::new("", "v1", "Namespace", "namespaces", "namespace", "namespaces")
            .columns(columns::cluster::NAMESPACES, columns::cluster::namespace)
    },
    Kind {
        short: &["no"],
        namespaced: false,
        subresources: &[status("", "Node")],
        fields: &[("spec.unschedulable", "/spec/unschedulable")],
        ..Kind::new("", "v1", "Node", "nodes", "node", "nodes").columns(columns::nodes::COLUMNS, columns::nodes::cells)
    },
    Kind {
        short: &["ev"],
        fields: EVENT_FIELDS,
        create_on_update: true,
        ..Kind::new("", "v1", "Event", "events", "event", "events")
            .columns(columns::events::COLUMNS, columns::events::cells)
    },
    Kind {
        short: &["cm"],
        ..Kind::new("", "v1", "ConfigMap", "configmaps", "configmap", "configmaps")
            .columns(columns::cluster::CONFIG_MAPS, columns::cluster::config_map)
    },
    Kind {
        fields: &[("type", "/type")],
        hooks: secrets::HOOKS,
        ..Kind::new("", "v1", "Secret", "secrets", "secret", "secrets")
            .columns(columns::cluster::SECRETS, columns::cluster::secret)
    },
    Kind {
        short: &["sa"],
        ..Kind::new("", "v1", "ServiceAccount", "serviceaccounts", "serviceaccount", "serviceaccounts")
            .columns(columns::cluster::SERVICE_ACCOUNTS, columns::cluster::service_account)
    },
    Kind {
        short: &["svc"],
        categories: ALL,
        subresources: &[status("", "Service")],
        fields: &[("spec.clusterIP", "/spec/clusterIP"), ("spec.type", "/spec/type")],
        create_on_update: true,
        exclusive: true,
        hooks: services::HOOKS,
        ..Kind::new("", "v1", "Service", "services", "service", "services")
            .columns(columns::network::SERVICES, columns::network::service)
    },
    Kind {
        short: &["ep"],
        create_on_update: true,
        ..Kind::new("", "v1", "Endpoints", "endpoints", "endpoints", "endpoints")
            .columns(columns::network::ENDPOINTS, columns::network::endpoints)
    },
    Kind {
        short: &["rc"],
        categories: ALL,
        subresources: &[SCALE, status("", "ReplicationController")],
        fields: &[("status.replicas", "/status/replicas")],
        generation: true,
        ..Kind::new(
            "",
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            "replicationcontroller",
            "replicationcontrollers",
        )
        .columns(columns::workloads::REPLICAS, columns::workloads::replicas)
    },
    Kind {
        short: &["pv"],
        namespaced: false,
        subresources: &[status("", "PersistentVolume")],
        hooks: storage::VOLUME_HOOKS,
        ..Kind::new("", "v1", "PersistentVolume", "persistentvolumes", "persistentvolume", "persistentvolumes")
            .columns(columns::storage::VOLUMES, columns::storage::volume)
    },
    Kind {
        short: &["pvc"],
        subresources: &[status("", "PersistentVolumeClaim")],
        hooks: storage::CLAIM_HOOKS,
        ..Kind::new(
            "",
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            "persistentvolumeclaim",
            "persistentvolumeclaims",
        )
        .columns(columns::storage::CLAIMS, columns::storage::claim)
    },
    Kind {
        short: &["deploy"],
        categories: ALL,
        subresources: &[SCALE, status("apps", "Deployment")],
        generation: true,
        ..Kind::new("apps", "v1", "Deployment", "deployments", "deployment", "apps/deployments")
            .columns(columns::workloads::DEPLOYMENTS, columns::workloads::deployment)
    },
    Kind {
        short: &["rs"],
        categories: ALL,
        subresources: &[SCALE, status("apps", "ReplicaSet")],
        fields: &[("status.replicas", "/status/replicas")],
        generation: true,
        ..Kind::new("apps", "v1", "ReplicaSet", "replicasets", "replicaset", "apps/replicasets")
            .columns(columns::workloads::REPLICAS, columns::workloads::replicas)
    },
    Kind {
        short: &["pdb"],
        subresources: &[status("policy", "PodDisruptionBudget")],
        generation: true,
        ..Kind::new(
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            "poddisruptionbudget",
            "policy/poddisruptionbudgets",
        )
        .columns(columns::workloads::BUDGETS, columns::workloads::budget)
    },
    Kind {
        generation: true,
        ..Kind::new(
            "discovery.k8s.io",
            "v1",
            "EndpointSlice",
            "endpointslices",
            "endpointslice",
            "discovery.k8s.io/endpointslices",
        )
        .columns(columns::network::SLICES, columns::network::slice)
    },
    Kind {
        create_on_update: true,
        ..Kind::new("coordination.k8s.io", "v1", "Lease", "leases", "lease", "coordination.k8s.io/leases")
            .columns(columns::cluster::LEASES, columns::cluster::lease)
    },
    Kind {
        short: &["sc"],
        namespaced: false,
        ..Kind::new(
            "storage.k8s.io",
            "v1",
            "StorageClass",
            "storageclasses",
            "storageclass",
            "storage.k8s.io/storageclasses",
        )
        .columns(columns::storage::CLASSES, columns::storage::class)
    },
    Kind {
        namespaced: false,
        ..Kind::new("storage.k8s.io", "v1", "CSINode", "csinodes", "csinode", "storage.k8s.io/csinodes")
            .columns(columns::storage::CSI_NODES, columns::storage::csi_node)
    },
    Kind {
        short: &["ev"],
        fields: EVENT_FIELDS,
        create_on_update: true,
        conversion: Some(event_conversion::EVENTS),
        ..Kind::new("events.k8s.io", "v1", "Event", "events", "event", "events")
            .columns(columns::events::COLUMNS, columns::events::cells)
    },
];
