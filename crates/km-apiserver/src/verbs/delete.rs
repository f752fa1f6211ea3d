//! Deletion: at once, after a grace period, or when the last finalizer is gone.

use std::sync::Arc;

use axum::body::Body;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use km_store::{Expect, Query as StoreQuery, StoreError, Stored};
use serde_json::{Value, json};

use super::{modify::is_finished, selection::Selection, write};
use crate::{
    body,
    context::Context,
    failure::Failure,
    hooks::namespaces::PERMANENT,
    registry::Kind,
    render::{self, ListMeta},
    server::Server,
    time,
};

/// Grace of a pod that doesn't name one.
const POD_GRACE: i64 = 30;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const ATTEMPTS: usize = 8;

/// The client's wishes about a deletion.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub grace_seconds: Option<i64>,
    /// `Orphan`, `Background` or `Foreground`.
    pub propagation: Option<String>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

/// How a deletion came out.
pub enum Deleted {
    /// The object is gone; its last state.
    Gone(Arc<Stored>),
    /// It is marked, and goes when its grace period or finalizers are over.
    Marked(Arc<Stored>),
}

/// DELETE of an object.
pub async fn delete(ctx: &Context) -> Result<Response<Body>, Failure> {
    let options = Options::of(ctx)?;
    let name = ctx.name()?;
    match remove(&ctx.server, ctx.kind, ctx.namespace.as_deref(), name, &options).await? {
        Deleted::Marked(stored) => Ok(render::object(ctx, StatusCode::OK, &stored, &[])),
        // Of these kinds the stock server returns the object, of all others a Status.
        Deleted::Gone(stored) if matches!(ctx.kind.plural, "pods" | "services") => {
            Ok(render::object(ctx, StatusCode::OK, &stored, &[]))
        }
        Deleted::Gone(stored) => {
            let mut details = json!({ "name": name, "kind": ctx.kind.plural });
            if !ctx.kind.group.is_empty() {
                details["group"] = ctx.kind.group.into();
            }
            details["uid"] = stored.value()["metadata"]["uid"].clone();
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            Ok(render::json_response(StatusCode::OK, status.to_string()))
        }
    }
}

/// DELETE of a collection.
pub async fn delete_collection(ctx: &Context) -> Result<Response<Body>, Failure> {
    let options = Options::of(ctx)?;
    let selection = Selection::of(ctx)?;
    let matches = |stored: &Stored| selection.matches(stored);
    let query = StoreQuery {
        resource: ctx.kind.storage,
        namespace: ctx.namespace.as_deref(),
        at: None,
        after: None,
        limit: 0,
        matches: &matches,
    };
    let page = ctx.server.store.list(&query).map_err(|error| Failure::from_store(error, ctx.kind, ""))?;
    for stored in &page.items {
        let namespace = Some(stored.key.namespace.as_str());
        match remove(&ctx.server, ctx.kind, namespace, &stored.key.name, &options).await {
            Err(failure) if failure.is_not_found() => {}
            other => {
                other?;
            }
        }
    }
    let meta = ListMeta { revision: page.revision, ..ListMeta::default() };
    Ok(render::list(ctx, &page.items, &meta))
}

/// Deletes one object as far as it can be deleted now.
pub async fn remove(
    server: &Server,
    kind: &'static Kind,
    namespace: Option<&str>,
    name: &str,
    options: &Options,
) -> Result<Deleted, Failure> {
    if kind.plural == "namespaces" && PERMANENT.contains(&name) {
        return Err(Failure::forbidden(kind, name, "this namespace may not be deleted"));
    }
    let key = kind.key(namespace, name);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let stored = server.store.get(&key).ok_or_else(|| Failure::not_found(kind, name))?;
        let old = stored.value();
        options.check(kind, name, &old)?;
        let new = mark(kind, &old, options);
        let result = if is_finished(kind, &new) {
            write::remove(server, &stored, options.dry_run).await.map(Deleted::Gone)
        } else if new == old {
            return Ok(Deleted::Marked(stored));
        } else {
            let expect = Expect::Revision(stored.revision);
            write::put(server, key.clone(), expect, new, options.dry_run).await.map(Deleted::Marked)
        };
        match result {
            Ok(deleted) => return Ok(deleted),
            Err(StoreError::Conflict { .. }) if attempt < ATTEMPTS => {}
            Err(error) => return Err(Failure::from_store(error, kind, name)),
        }
    }
}

/// The object with its deletion marks.
fn mark(kind: &Kind, old: &Value, options: &Options) -> Value {
    let mut new = old.clone();
    let grace = if kind.plural == "pods" { pod_grace(old, options) } else { 0 };
    let metadata = &mut new["metadata"];
    let before = metadata["deletionGracePeriodSeconds"].as_i64();
    let deleted_at = metadata["deletionTimestamp"].as_str().and_then(time::parse);
    match (deleted_at, before) {
        // A second deletion can only shorten what is left.
        (Some(ends), Some(before)) => {
            if options.grace_seconds.is_some() && grace < before {
                metadata["deletionTimestamp"] = time::seconds(ends + SignedDuration::from_secs(grace - before)).into();
                metadata["deletionGracePeriodSeconds"] = grace.into();
            }
        }
        _ => {
            metadata["deletionTimestamp"] = time::seconds(Timestamp::now() + SignedDuration::from_secs(grace)).into();
            metadata["deletionGracePeriodSeconds"] = grace.into();
            if let Some(generation) = metadata["generation"].as_i64() {
                metadata["generation"] = (generation + 1).into();
            }
        }
    }
    set_finalizers(metadata, options.propagation.as_deref());
    if kind.plural == "namespaces" {
        new["status"]["phase"] = "Terminating".into();
    }
    new
}

fn set_finalizers(metadata: &mut Value, propagation: Option<&str>) {
    let wanted = match propagation {
        Some("Orphan") => Some(ORPHAN),
        Some("Foreground") => Some(FOREGROUND),
        Some("Background") => None,
        _ => return,
    };
    let mut finalizers: Vec<Value> = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|one| one != ORPHAN && one != FOREGROUND);
    finalizers.extend(wanted.map(Value::from));
    if let Some(fields) = metadata.as_object_mut() {
        if finalizers.is_empty() {
            fields.remove("finalizers");
        } else {
            fields.insert("finalizers".to_owned(), finalizers.into());
        }
    }
}

/// Seconds that a pod gets. None for a pod that no node has, or that has ended.
fn pod_grace(pod: &Value, options: &Options) -> i64 {
    let scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !scheduled || ended {
        return 0;
    }
    let asked = options.grace_seconds.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64());
    match asked.unwrap_or(POD_GRACE) {
        ..0 => 1,
        seconds => seconds,
    }
}

impl Options {
    /// Reads the query and the body, which wins.
    pub fn of(ctx: &Context) -> Result<Self, Failure> {
        let mut options = Self {
            grace_seconds: ctx.query.number("gracePeriodSeconds")?,
            propagation: ctx.query.get("propagationPolicy").map(str::to_owned),
            dry_run: ctx.query.dry_run()?,
            ..Self::default()
        };
        if ctx.query.get("orphanDependents") == Some("true") {
            options.propagation = Some("Orphan".to_owned());
        }
        if !ctx.body.is_empty() {
            let value = body::decode(&ctx.headers, &ctx.body)?.value;
            options.merge(&value);
        }
        match options.propagation.as_deref() {
            None | Some("Orphan" | "Background" | "Foreground") => Ok(options),
            Some(other) => Err(Failure::invalid_options(format!(
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {other:?}: supported \
                 values: \"Foreground\", \"Background\", \"Orphan\""
            ))),
        }
    }

    /// Takes over what a `DeleteOptions` object says.
    pub fn merge(&mut self, value: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let Some(seconds) = value["gracePeriodSeconds"].as_i64() {
            self.grace_seconds = Some(seconds);
        }
        self.propagation = text(&value["propagationPolicy"]).or_else(|| self.propagation.take());
        self.uid = text(&value["preconditions"]["uid"]);
        self.resource_version = text(&value["preconditions"]["resourceVersion"]);
        if value["dryRun"].as_array().is_some_and(|list| list.iter().any(|one| one == "All")) {
            self.dry_run = true;
        }
    }

    fn check(&self, kind: &Kind, name: &str, object: &Value) -> Result<(), Failure> {
        for (what, field, wanted) in
            [("UID", "uid", &self.uid), ("ResourceVersion", "resourceVersion", &self.resource_version)]
        {
            let found = object["metadata"][field].as_str().unwrap_or_default();
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
                let why =
                    format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
                return Err(Failure::conflict(kind, name, &why));
            }
        }
        Ok(())
    }
}
