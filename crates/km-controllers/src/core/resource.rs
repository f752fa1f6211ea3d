//! Names of things in the API.

use std::fmt;

/// One resource type of the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Empty for core.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Such as `pods`, as in URLs.
    pub plural: String,
    pub namespaced: bool,
}

impl Resource {
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        let [group, version, kind, plural] = [group, version, kind, plural].map(str::to_owned);
        Self { group, version, kind, plural, namespaced }
    }

    fn core(kind: &str, plural: &str) -> Self {
        Self::new("", "v1", kind, plural, !matches!(kind, "Namespace" | "PersistentVolume"))
    }

    pub(crate) fn pods() -> Self {
        Self::core("Pod", "pods")
    }
    pub(crate) fn replication_controllers() -> Self {
        Self::core("ReplicationController", "replicationcontrollers")
    }
    pub(crate) fn services() -> Self {
        Self::core("Service", "services")
    }
    pub(crate) fn endpoints() -> Self {
        Self::core("Endpoints", "endpoints")
    }
    pub(crate) fn namespaces() -> Self {
        Self::core("Namespace", "namespaces")
    }
    pub(crate) fn service_accounts() -> Self {
        Self::core("ServiceAccount", "serviceaccounts")
    }
    pub(crate) fn config_maps() -> Self {
        Self::core("ConfigMap", "configmaps")
    }
    pub(crate) fn volumes() -> Self {
        Self::core("PersistentVolume", "persistentvolumes")
    }
    pub(crate) fn claims() -> Self {
        Self::core("PersistentVolumeClaim", "persistentvolumeclaims")
    }
    pub(crate) fn storage_classes() -> Self {
        Self::new("storage.k8s.io", "v1", "StorageClass", "storageclasses", false)
    }
    pub(crate) fn events() -> Self {
        Self::core("Event", "events")
    }
    pub(crate) fn replica_sets() -> Self {
        Self::new("apps", "v1", "ReplicaSet", "replicasets", true)
    }
    pub(crate) fn deployments() -> Self {
        Self::new("apps", "v1", "Deployment", "deployments", true)
    }
    pub(crate) fn endpoint_slices() -> Self {
        Self::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true)
    }

    /// The resources without which no controller may act: each must have been listed once.
    pub(crate) fn essential() -> [Self; 13] {
        [
            Self::pods(),
            Self::replication_controllers(),
            Self::services(),
            Self::endpoints(),
            Self::namespaces(),
            Self::service_accounts(),
            Self::config_maps(),
            Self::replica_sets(),
            Self::deployments(),
            Self::endpoint_slices(),
            Self::volumes(),
            Self::claims(),
            Self::storage_classes(),
        ]
    }

    /// `v1` or `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// URL path of the collection, of an object when `name` is not empty, or of its subresource.
    #[must_use]
    pub fn path(&self, namespace: &str, name: &str, subresource: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let mut path = format!("{root}/{}", self.api_version());
        if self.namespaced && !namespace.is_empty() {
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push_str(&format!("/{}", self.plural));
        for part in [name, subresource.unwrap_or_default()].into_iter().filter(|part| !part.is_empty()) {
            path.push_str(&format!("/{part}"));
        }
        path
    }
}

/// Namespace (empty for cluster-wide resources) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            out.write_str(&self.name)
        } else {
            write!(out, "{}/{}", self.namespace, self.name)
        }
    }
}
