//! Persistent volumes and the claims to them, read once when they are told, and who uses which claim.

mod choose;
mod judge;

pub use choose::{Binding, Way};

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim, PodSpec},
        storage::v1::{CSINode, StorageClass},
    },
    apimachinery::pkg::api::resource::Quantity,
};
use km_kube::{
    keys::{NO_PROVISIONER, SELECTED_NODE},
    selector::{LabelRequirement, LabelSelector, Operator},
};

use crate::need::{Need, NodeTerm};

const ONE_POD: &str = "ReadWriteOncePod";
/// Labels of volumes that nodes must agree with. The older names stand for the newer ones.
const ZONE_LABELS: [(&str, &str); 4] = [
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];
/// Separates the zones of a volume that is in several.
const ZONE_SEPARATOR: &str = "__";

/// A claim, by namespace and name.
#[derive(Clone, Debug, PartialEq)]
struct Claim {
    modes: BTreeSet<String>,
    /// The volume that it names.
    volume: Option<String>,
    /// It names a volume, but that is not known to be its yet.
    binding: bool,
    /// The node on which its volume is to be made.
    selected: Option<String>,
    class: String,
    bytes: i64,
    selector: LabelSelector,
    block: bool,
    lost: bool,
    deleting: bool,
}

/// A volume, by name.
#[derive(Clone, Debug, PartialEq)]
struct Volume {
    modes: BTreeSet<String>,
    class: String,
    bytes: i64,
    labels: BTreeMap<String, String>,
    block: bool,
    /// The claim that it is for, by namespace and name.
    claim: Option<String>,
    /// Whether a claim may be bound to it.
    available: bool,
    /// Of these one must hold for a node.
    nodes: Option<Vec<NodeTerm>>,
    /// What the CSI driver that attaches it calls it.
    attached: Option<(String, String)>,
}

/// A storage class, by name.
#[derive(Clone, Debug, PartialEq)]
struct Class {
    provisioner: String,
    /// Claims are bound when a pod that uses them has its node (`WaitForFirstConsumer`).
    delayed: bool,
    /// Where volumes can be made: all labels of one of these; empty for anywhere.
    topologies: Vec<Vec<LabelRequirement>>,
}

/// All that is known of storage.
#[derive(Default)]
pub(crate) struct Storage {
    claims: BTreeMap<String, Claim>,
    volumes: BTreeMap<String, Volume>,
    classes: BTreeMap<String, Class>,
    /// The pods that use each claim, by node.
    users: BTreeMap<Arc<str>, BTreeMap<u32, usize>>,
    /// The same the other way round.
    on: BTreeMap<u32, BTreeMap<Arc<str>, usize>>,
    /// Grows with every change: what was found out before about pods with claims may be wrong.
    pub era: u64,
}

/// The claims of a pod by namespace and name; none has the same one twice. `pod` is its name: an ephemeral volume's claim
/// is called after both.
pub(crate) fn claims(namespace: &str, pod: &str, spec: &PodSpec) -> Vec<Arc<str>> {
    let name = |volume: &k8s_openapi::api::core::v1::Volume| match &volume.persistent_volume_claim {
        Some(source) => Some(source.claim_name.clone()),
        None => volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name)),
    };
    let names: BTreeSet<String> = spec.volumes.iter().flatten().filter_map(name).collect();
    names.into_iter().map(|name| format!("{namespace}/{name}").into()).collect()
}

/// How many volumes each CSI driver can attach to a node.
pub(crate) fn limits(node: &CSINode) -> BTreeMap<String, usize> {
    let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((driver.name.clone(), usize::try_from(count).unwrap_or(0)))
    };
    node.spec.drivers.iter().filter_map(limit).collect()
}

impl Storage {
    pub fn set_claim(&mut self, id: &str, claim: Option<&PersistentVolumeClaim>) {
        let claim = claim.map(Claim::new);
        self.era += u64::from(put(&mut self.claims, id, claim));
    }

    pub fn set_volume(&mut self, name: &str, volume: Option<&PersistentVolume>) {
        let volume = volume.map(Volume::new);
        self.era += u64::from(put(&mut self.volumes, name, volume));
    }

    pub fn set_class(&mut self, name: &str, class: Option<&StorageClass>) {
        let class = class.map(Class::new);
        self.era += u64::from(put(&mut self.classes, name, class));
    }

    /// A pod is on a node.
    pub fn add_user(&mut self, need: &Need, node: u32) {
        for claim in &need.claims {
            *self.users.entry(Arc::clone(claim)).or_default().entry(node).or_default() += 1;
            *self.on.entry(node).or_default().entry(Arc::clone(claim)).or_default() += 1;
            self.era += 1;
        }
    }

    /// A pod that was added is gone.
    pub fn remove_user(&mut self, need: &Need, node: u32) {
        for claim in &need.claims {
            take_one(&mut self.users, claim, &node);
            take_one(&mut self.on, &node, claim);
            self.era += 1;
        }
    }
}

/// Says whether anything changed.
fn put<T: PartialEq>(all: &mut BTreeMap<String, T>, id: &str, new: Option<T>) -> bool {
    if all.get(id) == new.as_ref() {
        return false;
    }
    match new {
        Some(new) => all.insert(id.to_owned(), new),
        None => all.remove(id),
    };
    true
}

fn take_one<A: Ord, B: Ord>(counts: &mut BTreeMap<A, BTreeMap<B, usize>>, outer: &A, inner: &B) {
    let Some(within) = counts.get_mut(outer) else { return };
    if let Some(count) = within.get_mut(inner) {
        *count -= 1;
        if *count == 0 {
            within.remove(inner);
        }
    }
    if within.is_empty() {
        counts.remove(outer);
    }
}

fn bytes(amounts: Option<&BTreeMap<String, Quantity>>) -> i64 {
    let amount = amounts.and_then(|amounts| amounts.get("storage"));
    amount.and_then(|amount| km_kube::quantity::Quantity::try_from(amount).ok()).map_or(0, |amount| amount.value())
}

fn is_block(mode: Option<&String>) -> bool {
    mode.is_some_and(|mode| mode == "Block")
}

impl Claim {
    fn new(of: &PersistentVolumeClaim) -> Self {
        let spec = of.spec.clone().unwrap_or_default();
        // A selector that can't be read was refused by the API server; here it selects nothing.
        let selector = spec.selector.as_ref().map_or_else(LabelSelector::everything, |selector| {
            LabelSelector::from_typed(selector).unwrap_or_else(|_| LabelSelector::nothing())
        });
        let phase = of.status.as_ref().and_then(|status| status.phase.as_deref());
        let annotations = of.metadata.annotations.as_ref();
        let volume = spec.volume_name.filter(|name| !name.is_empty());
        Self {
            modes: spec.access_modes.into_iter().flatten().collect(),
            binding: volume.is_some() && phase == Some("Pending"),
            selected: annotations.and_then(|all| all.get(SELECTED_NODE)).cloned(),
            volume,
            class: spec.storage_class_name.unwrap_or_default(),
            bytes: bytes(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref())),
            selector,
            block: is_block(spec.volume_mode.as_ref()),
            lost: phase == Some("Lost"),
            deleting: of.metadata.deletion_timestamp.is_some(),
        }
    }
}

impl Volume {
    fn new(of: &PersistentVolume) -> Self {
        let spec = of.spec.clone().unwrap_or_default();
        let claim = spec.claim_ref.as_ref().map(|claim| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}/{}", text(&claim.namespace), text(&claim.name))
        });
        let phase = of.status.as_ref().and_then(|status| status.phase.as_deref());
        let required = spec.node_affinity.and_then(|affinity| affinity.required);
        Self {
            modes: spec.access_modes.into_iter().flatten().collect(),
            class: spec.storage_class_name.unwrap_or_default(),
            bytes: bytes(spec.capacity.as_ref()),
            labels: of.metadata.labels.clone().unwrap_or_default(),
            block: is_block(spec.volume_mode.as_ref()),
            claim,
            available: phase.is_none_or(|phase| phase == "Available") && of.metadata.deletion_timestamp.is_none(),
            nodes: required.map(|required| required.node_selector_terms.iter().map(NodeTerm::new).collect()),
            attached: spec.csi.map(|csi| (csi.driver, csi.volume_handle)),
        }
    }
}

impl Class {
    fn new(of: &StorageClass) -> Self {
        let requirement = |one: &k8s_openapi::api::core::v1::TopologySelectorLabelRequirement| LabelRequirement {
            key: one.key.clone(),
            operator: Operator::In,
            values: one.values.clone(),
        };
        let term = |term: &k8s_openapi::api::core::v1::TopologySelectorTerm| {
            term.match_label_expressions.iter().flatten().map(requirement).collect()
        };
        Self {
            provisioner: of.provisioner.clone(),
            delayed: of.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            topologies: of.allowed_topologies.iter().flatten().map(term).collect(),
        }
    }
}
