//! Who owns whom, over all resources that are watched.

use crate::core::{Resource, owners, text};
use km_kube::keys::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The metadata of one object that matters here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub resource: Resource,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub owners: Vec<Owner>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
}

/// One owner reference.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub blocks: bool,
    /// As it was written.
    pub reference: Value,
}

impl Node {
    fn read(resource: &Resource, object: &Value) -> Self {
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
        Self {
            resource: resource.clone(),
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(object, "/metadata/name").to_owned(),
            uid: text(object, "/metadata/uid").to_owned(),
            resource_version: text(object, "/metadata/resourceVersion").to_owned(),
            owners: owners(object).iter().map(Owner::read).collect(),
            finalizers: finalizers.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            deleting: !text(object, "/metadata/deletionTimestamp").is_empty(),
        }
    }

    pub(super) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// Whether it is being deleted in the foreground: its dependents go before it.
    pub(super) fn waits(&self) -> bool {
        self.deleting && self.has_finalizer(FOREGROUND_FINALIZER)
    }

    /// Whether the owner with this uid has to wait for this object.
    pub(super) fn blocks(&self, owner: &str) -> bool {
        self.owners.iter().any(|reference| reference.uid == owner && reference.blocks)
    }

    /// Whether there is something to decide about it.
    fn concerns_us(&self) -> bool {
        !self.owners.is_empty() && !self.deleting
            || self.deleting && (self.has_finalizer(ORPHAN_FINALIZER) || self.has_finalizer(FOREGROUND_FINALIZER))
    }
}

impl Owner {
    fn read(reference: &Value) -> Self {
        Self {
            api_version: text(reference, "/apiVersion").to_owned(),
            kind: text(reference, "/kind").to_owned(),
            name: text(reference, "/name").to_owned(),
            uid: text(reference, "/uid").to_owned(),
            blocks: reference["blockOwnerDeletion"] == json!(true),
            reference: reference.clone(),
        }
    }
}

/// All objects by uid, and the dependents of each owner.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: BTreeMap<String, Node>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    pub(super) fn dependents<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Node> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.nodes.get(uid))
    }

    /// Takes an object in; gives the uids about which something is to decide now.
    pub(crate) fn seen(&mut self, resource: &Resource, object: &Value) -> Vec<String> {
        let node = Node::read(resource, object);
        if node.uid.is_empty() {
            return Vec::new();
        }
        let old = self.forget(&node.uid);
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(node.uid.clone());
        }
        let mut concerned = Vec::new();
        let changed = old.as_ref().is_none_or(|old| {
            (&old.owners, old.deleting, &old.finalizers) != (&node.owners, node.deleting, &node.finalizers)
        });
        if changed {
            // Owners that wait for this object look again; so do its dependents, if it waits for them now.
            let before = old.iter().flat_map(|old| &old.owners);
            concerned.extend(self.waiting_among(before.chain(&node.owners)));
            if node.concerns_us() {
                concerned.push(node.uid.clone());
            }
        }
        self.nodes.insert(node.uid.clone(), node);
        concerned
    }

    /// Takes an object out; gives its dependents and the owners that waited for it.
    pub(crate) fn gone(&mut self, uid: &str) -> Vec<String> {
        let old = self.forget(uid);
        let mut concerned: Vec<String> = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        concerned.extend(self.waiting_among(old.iter().flat_map(|old| &old.owners)));
        concerned
    }

    fn waiting_among<'a>(&self, owners: impl Iterator<Item = &'a Owner>) -> Vec<String> {
        let deleting = |uid: &&str| self.nodes.get(*uid).is_some_and(|node| node.deleting && node.concerns_us());
        owners.map(|owner| owner.uid.as_str()).filter(deleting).map(str::to_owned).collect()
    }

    fn forget(&mut self, uid: &str) -> Option<Node> {
        let old = self.nodes.remove(uid)?;
        for owner in &old.owners {
            if let Some(set) = self.dependents.get_mut(&owner.uid) {
                set.remove(uid);
                if set.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        Some(old)
    }
}
