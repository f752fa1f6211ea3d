//! New objects.

use std::sync::Arc;

use axum::body::Body;
use http::{Response, StatusCode};
use km_store::{Expect, StoreError, Stored};
use rand::Rng;
use serde_json::{Map, Value};

use super::{modify::refuse, write};
use crate::{body, context::Context, failure::Failure, registry::Kind, render, server::Server, time};

/// Letters of generated names: no vowels, so that no words come out.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many letters are added to `generateName`.
const SUFFIX: usize = 5;
/// Longest name that leaves room for the suffix.
const LONGEST_BASE: usize = 63 - SUFFIX;
/// How often another generated name is tried.
const ATTEMPTS: usize = 8;

/// POST to a collection.
pub async fn create(ctx: &Context) -> Result<Response<Body>, Failure> {
    let validation = ctx.query.field_validation()?;
    let dry_run = ctx.query.dry_run()?;
    let decoded = body::decode(&ctx.headers, &ctx.body)?;
    let mut value = decoded.value;
    body::expect_kind((&ctx.kind.api_version(), ctx.kind.kind), &mut value)?;
    let warnings = body::check_fields(ctx.kind, &mut value, decoded.problems, validation)?;
    let stored = new_object(&ctx.server, ctx.kind, ctx.namespace.as_deref(), value, dry_run).await?;
    Ok(render::object(ctx, StatusCode::CREATED, &stored, &warnings))
}

/// Completes, checks and stores a new object that came in the kind's own form.
pub async fn new_object(
    server: &Server,
    kind: &'static Kind,
    namespace: Option<&str>,
    value: Value,
    dry_run: bool,
) -> Result<Arc<Stored>, Failure> {
    let mut value = kind.stored(value);
    let given = set_metadata(kind, namespace, &mut value)?;
    let namespace = value["metadata"]["namespace"].as_str().map(str::to_owned);
    let label = if given.is_empty() { text(&value["metadata"]["generateName"]).to_owned() } else { given.clone() };
    if let Some(namespace) = &namespace {
        write::admit_namespace(server, kind, namespace, &label)?;
    }
    let generated = given.is_empty();
    let _turn = match kind.exclusive {
        true => Some(server.allocation.lock().await),
        false => None,
    };
    let mut attempt = 0;
    loop {
        attempt += 1;
        // Only a generated name may have to be tried again.
        let mut draft = if generated { value.clone() } else { std::mem::take(&mut value) };
        let name = if generated { generate(text(&draft["metadata"]["generateName"])) } else { given.clone() };
        draft["metadata"]["name"] = name.as_str().into();
        // An object that is there is reported as such, before its content is found wrong.
        let key = kind.key(namespace.as_deref(), &name);
        if !generated && server.store.get(&key).is_some() {
            return Err(Failure::already_exists(kind, &name));
        }
        km_kube::defaults::apply(kind.group, kind.kind, &mut draft);
        (kind.hooks.create)(server, &mut draft)?;
        refuse(kind, &name, km_kube::validation::create(kind.group, kind.kind, &draft))?;
        match write::put(server, key, Expect::Absent, draft, dry_run).await {
            Err(StoreError::AlreadyExists) if generated && attempt < ATTEMPTS => {}
            Ok(stored) => return Ok(stored),
            Err(error) => return Err(Failure::from_store(error, kind, &name)),
        }
    }
}

/// Sets what the server says about a new object; returns its name, empty when one has to be generated.
fn set_metadata(kind: &Kind, namespace: Option<&str>, value: &mut Value) -> Result<String, Failure> {
    if !value["metadata"].is_object() {
        value["metadata"] = Value::Object(Map::new());
    }
    // A kubelet registers its node together with its status; of all other kinds only /status says what is.
    if kind.has_status()
        && kind.kind != "Node"
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("status");
    }
    let metadata = &mut value["metadata"];
    if !matches!(text(&metadata["resourceVersion"]), "" | "0") {
        return Err(Failure::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let own = text(&metadata["namespace"]).to_owned();
    match namespace.filter(|_| kind.namespaced) {
        Some(namespace) if own.is_empty() || own == namespace => metadata["namespace"] = namespace.into(),
        Some(namespace) => {
            return Err(Failure::bad_request(format!(
                "the namespace of the provided object does not match the namespace sent on the request: {own} is not \
                 {namespace}"
            )));
        }
        None if kind.namespaced && own.is_empty() => {
            return Err(Failure::bad_request("an empty namespace may not be set during creation"));
        }
        None => {}
    }
    let name = text(&metadata["name"]).to_owned();
    let base = text(&metadata["generateName"]);
    if name.is_empty() && base.is_empty() {
        let message = "Required value: name or generateName is required".to_owned();
        let problem = ("FieldValueRequired".to_owned(), message, "metadata.name".to_owned());
        return Err(Failure::invalid(kind, "", &[problem]));
    }
    if let Some(fields) = metadata.as_object_mut() {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink", "resourceVersion"]
        {
            fields.remove(field);
        }
        if !kind.namespaced {
            fields.remove("namespace");
        }
        for field in ["labels", "annotations", "finalizers", "ownerReferences", "generateName"] {
            let empty = match fields.get(field) {
                Some(Value::Object(map)) => map.is_empty(),
                Some(Value::Array(list)) => list.is_empty(),
                Some(Value::String(text)) => text.is_empty(),
                Some(Value::Null) => true,
                _ => false,
            };
            if empty {
                fields.remove(field);
            }
        }
    }
    metadata["uid"] = uuid::Uuid::new_v4().to_string().into();
    metadata["creationTimestamp"] = time::now().into();
    if kind.generation {
        metadata["generation"] = 1.into();
    } else if let Some(fields) = metadata.as_object_mut() {
        fields.remove("generation");
    }
    Ok(name)
}

fn generate(base: &str) -> String {
    let mut name: String = base.chars().take(LONGEST_BASE).collect();
    let mut random = rand::rng();
    name.extend((0..SUFFIX).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())])));
    name
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
