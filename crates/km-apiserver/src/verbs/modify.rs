//! Changing an object that is there: read, change, complete, check, write, and again when someone was faster.

use std::sync::Arc;

use km_store::{Expect, Key, StoreError, Stored};
use serde_json::{Map, Value};

use super::write;
use crate::{failure::Failure, registry::Kind, server::Server};

/// What a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status, where status is a subresource.
    Whole,
    /// The status, and metadata with limits.
    Status,
    /// The resources of a pod's containers.
    Resize,
    /// Everything, as the server itself decides (binding, finalize, deletion marks).
    Internal,
}

/// How often a write is tried again before the client hears of the conflict.
const ATTEMPTS: usize = 16;

/// A change to one object.
pub struct Modification<'a> {
    pub server: &'a Server,
    pub kind: &'static Kind,
    pub key: Key,
    pub part: Part,
    pub dry_run: bool,
}

impl Modification<'_> {
    /// Applies `change`, which gets the stored object and returns what it should become. It is called again with the
    /// newer object after a conflict. A change that changes nothing is not written; one that ends a deletion removes
    /// the object.
    pub async fn apply(self, mut change: impl FnMut(&Value) -> Result<Value, Failure>) -> Result<Arc<Stored>, Failure> {
        let name = self.key.name.clone();
        let _turn = match self.kind.exclusive {
            true => Some(self.server.allocation.lock().await),
            false => None,
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let stored = self.server.store.get(&self.key).ok_or_else(|| Failure::not_found(self.kind, &name))?;
            let old = stored.value();
            let new = change(&old)?;
            let new = self.complete(&old, new)?;
            if new == old {
                return Ok(stored);
            }
            let written = if is_finished(self.kind, &new) {
                write::remove(self.server, &stored, self.dry_run).await
            } else {
                let expect = Expect::Revision(stored.revision);
                write::put(self.server, self.key.clone(), expect, new, self.dry_run).await
            };
            match written {
                Ok(stored) => return Ok(stored),
                Err(StoreError::Conflict { .. }) if attempt < ATTEMPTS => {}
                Err(error) => return Err(Failure::from_store(error, self.kind, &name)),
            }
        }
    }

    fn complete(&self, old: &Value, mut new: Value) -> Result<Value, Failure> {
        let kind = self.kind;
        if !new["metadata"].is_object() {
            new["metadata"] = Value::Object(Map::new());
        }
        keep_identity(old, &mut new);
        match self.part {
            Part::Internal => {}
            Part::Status => new = status_only(old, new),
            Part::Resize => {
                new = km_kube::validation::resized(old, &new);
                km_kube::defaults::apply(kind.group, kind.kind, &mut new);
                refuse(kind, &self.key.name, km_kube::validation::resize(&new, old))?;
            }
            Part::Whole => {
                if kind.has_status() {
                    keep(old, &mut new, "status");
                }
                km_kube::defaults::apply(kind.group, kind.kind, &mut new);
                (kind.hooks.update)(self.server, old, &mut new)?;
                check_deleting(kind, old, &new)?;
            }
        }
        if matches!(self.part, Part::Whole | Part::Status) {
            let problems = km_kube::validation::update(kind.group, kind.kind, &new, old);
            refuse(kind, &self.key.name, problems)?;
        }
        if kind.generation && spec_differs(old, &new) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            new["metadata"]["generation"] = generation.into();
        }
        Ok(new)
    }
}

/// Turns validation's findings into a refusal.
pub fn refuse(kind: &Kind, name: &str, problems: Vec<km_kube::validation::FieldError>) -> Result<(), Failure> {
    if problems.is_empty() {
        return Ok(());
    }
    let problems: Vec<(String, String, String)> = problems
        .into_iter()
        .map(|problem| (problem.reason.name().to_owned(), problem.message, problem.field))
        .collect();
    Err(Failure::invalid(kind, name, &problems))
}

/// Metadata that only the server sets stays as it is. The version is compared by the store, not by content.
fn keep_identity(old: &Value, new: &mut Value) {
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
    ] {
        keep(&old["metadata"], &mut new["metadata"], field);
    }
    for field in ["kind", "apiVersion"] {
        keep(old, new, field);
    }
    if let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("selfLink");
        // Empty maps and lists say the same as none; one spelling keeps no-op writes recognisable.
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            let empty = match metadata.get(field) {
                Some(Value::Object(map)) => map.is_empty(),
                Some(Value::Array(list)) => list.is_empty(),
                Some(Value::Null) => true,
                _ => false,
            };
            if empty {
                metadata.remove(field);
            }
        }
    }
}

fn keep(old: &Value, new: &mut Value, field: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// The old object with the new one's status, labels, annotations and finalizers.
fn status_only(old: &Value, mut new: Value) -> Value {
    let mut result = old.clone();
    keep(&new, &mut result, "status");
    keep(&old["metadata"], &mut new["metadata"], "ownerReferences");
    result["metadata"] = new["metadata"].take();
    result
}

/// Of an object on its way out no new finalizers can be asked for.
fn check_deleting(kind: &Kind, old: &Value, new: &Value) -> Result<(), Failure> {
    if old.pointer("/metadata/deletionTimestamp").is_none() {
        return Ok(());
    }
    let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let before = finalizers(old);
    let added: Vec<Value> = finalizers(new).into_iter().filter(|one| !before.contains(one)).collect();
    if added.is_empty() {
        return Ok(());
    }
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let message = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {}",
        Value::Array(added)
    );
    let problem = ("FieldValueForbidden".to_owned(), message, "metadata.finalizers".to_owned());
    Err(Failure::invalid(kind, name, &[problem]))
}

/// Whether nothing holds a deleted object any more.
pub fn is_finished(kind: &Kind, object: &Value) -> bool {
    let metadata = &object["metadata"];
    let held = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let content =
        kind.plural == "namespaces" && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let waiting = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
    metadata.get("deletionTimestamp").is_some() && !held && !content && !waiting
}

fn spec_differs(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    let own = |name: &&String| !matches!(name.as_str(), "metadata" | "status");
    old.keys().chain(new.keys()).filter(own).any(|name| old.get(name) != new.get(name))
}
