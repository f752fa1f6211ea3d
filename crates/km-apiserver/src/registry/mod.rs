//! The table of kinds, and looking things up in it.

mod event_conversion;
mod kinds;

use km_store::{Facets, Key};
use serde_json::Value;

use crate::{columns::Column, failure::Failure, server::Server};

pub use kinds::KINDS;

/// One row: everything that is special about a kind.
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short: &'static [&'static str],
    pub namespaced: bool,
    pub categories: &'static [&'static str],
    pub subresources: &'static [Subresource],
    /// Selectable fields beside name and namespace: label and JSON pointer.
    pub fields: &'static [(&'static str, &'static str)],
    pub columns: &'static [Column],
    /// The cells of one row of the table, as many as there are columns.
    pub cells: fn(&Value) -> Vec<Value>,
    /// Whether `metadata.generation` counts the changes of the spec.
    pub generation: bool,
    /// Whether PUT makes an object that is not there.
    pub create_on_update: bool,
    /// The resource under which objects are stored. Two kinds with the same one are two views of the same objects.
    pub storage: &'static str,
    pub conversion: Option<Conversion>,
    /// Whether writes come one after the other, because hooks allocate what no two objects may share.
    pub exclusive: bool,
    pub hooks: Hooks,
}

/// What lies under an object.
pub struct Subresource {
    pub name: &'static str,
    pub verbs: &'static [&'static str],
    /// Group, version and kind of what goes in and out.
    pub kind: (&'static str, &'static str, &'static str),
}

/// How a view differs from what is stored.
pub struct Conversion {
    pub to_stored: fn(Value) -> Value,
    pub from_stored: fn(Value) -> Value,
}

/// What a kind does beside the generic steps.
pub struct Hooks {
    /// Completes a new object after defaulting: allocation and admission.
    pub create: fn(&Server, &mut Value) -> Result<(), Failure>,
    /// Completes a change, given the old and the new object.
    pub update: fn(&Server, &Value, &mut Value) -> Result<(), Failure>,
}

impl Hooks {
    const NONE: Self = Self { create: |_, _| Ok(()), update: |_, _, _| Ok(()) };
}

impl Kind {
    /// The resource with its group as in messages: `deployments.apps`, `pods`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `apps/v1`, `v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether status is written through a subresource of its own.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Where an object of this kind is stored.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> Key {
        let namespace = if self.namespaced { namespace.unwrap_or_default() } else { "" };
        Key::new(self.storage, namespace, name)
    }

    /// Whether a field selector may use this label.
    pub fn selects(&self, label: &str) -> bool {
        label == "metadata.name"
            || (label == "metadata.namespace" && self.namespaced)
            || self.fields.iter().any(|(known, _)| *known == label)
    }

    /// The object as this kind shows it.
    pub fn shown(&self, stored: Value) -> Value {
        match &self.conversion {
            Some(conversion) => (conversion.from_stored)(stored),
            None => stored,
        }
    }

    /// The object as it is stored.
    pub fn stored(&self, shown: Value) -> Value {
        match &self.conversion {
            Some(conversion) => (conversion.to_stored)(shown),
            None => shown,
        }
    }
}

/// The kind behind a path.
pub fn by_resource(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}

/// The kind that stores its objects under `storage`, in the form in which they are stored.
pub fn by_storage(storage: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.storage == storage && kind.conversion.is_none())
}

/// The served group versions, core first, each once.
pub fn group_versions() -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for kind in KINDS {
        if !found.contains(&(kind.group, kind.version)) {
            found.push((kind.group, kind.version));
        }
    }
    found
}

/// What selectors look at in a stored object.
pub fn facets(key: &Key, object: &Value) -> Facets {
    let mut facets = Facets::default();
    if let Some(labels) = object.pointer("/metadata/labels").and_then(Value::as_object) {
        let texts = labels.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        facets.labels = texts.collect();
    }
    let fields = by_storage(&key.resource).map(|kind| kind.fields).unwrap_or_default();
    for (label, pointer) in fields {
        let text = match object.pointer(pointer) {
            Some(Value::String(text)) if !text.is_empty() => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            _ => continue,
        };
        facets.fields.push((label, text));
    }
    facets
}
