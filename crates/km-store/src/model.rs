//! What goes in and comes out of a store.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

/// Where an object lives. `namespace` is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The resource with its group, e.g. `pods` or `apps/deployments`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl Key {
    /// A key of its three parts.
    pub fn new(resource: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// What selectors look at, taken out of an object once per write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facets {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// The selectable fields of the kind that aren't empty, with their label, e.g. `spec.nodeName`. They are few.
    pub fields: Vec<(&'static str, String)>,
}

impl Facets {
    /// A selectable field's value; empty when it has none.
    pub fn field(&self, label: &str) -> &str {
        self.fields.iter().find(|(known, _)| *known == label).map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

/// One version of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub key: Key,
    /// The revision of the write that made this version; also in the document.
    pub revision: u64,
    /// The whole document as JSON text.
    pub json: Bytes,
    pub facets: Facets,
}

impl Stored {
    /// The document, parsed. Only objects that the store itself rendered come here, so `Null` never does in practice.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or(Value::Null)
    }
}

/// What must hold of the stored version for a write to take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is none.
    Absent,
    /// There is one, of exactly this revision.
    Revision(u64),
    /// Nothing is expected.
    Anything,
}

/// What a write does.
#[derive(Clone, Debug)]
pub enum Change {
    /// Sets the document; the store sets `metadata.resourceVersion` in it.
    Put(Value),
    /// Removes it.
    Delete,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Write {
    pub key: Key,
    pub expect: Expect,
    pub change: Change,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One change. Of a deletion, `object` is the last state with the revision of the deletion.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: EventKind,
    pub object: Arc<Stored>,
    /// The version before, absent for `Added`.
    pub previous: Option<Arc<Stored>>,
}

impl Event {
    /// The revision of the change.
    pub fn revision(&self) -> u64 {
        self.object.revision
    }
}

/// Which objects to list.
pub struct Query<'a> {
    pub resource: &'a str,
    /// `None` for all namespaces.
    pub namespace: Option<&'a str>,
    /// The revision to list at; `None` for the latest.
    pub at: Option<u64>,
    /// Namespace and name of the object after which the page starts.
    pub after: Option<(String, String)>,
    /// At most so many objects; 0 for all.
    pub limit: usize,
    /// Only objects for which this holds.
    pub matches: &'a (dyn Fn(&Stored) -> bool + Sync),
}

/// A part of a list.
#[derive(Debug)]
pub struct Page {
    /// The revision at which the list was taken.
    pub revision: u64,
    pub items: Vec<Arc<Stored>>,
    /// How many objects of the query's range come after the page, whether they match or not.
    pub remaining: usize,
}
