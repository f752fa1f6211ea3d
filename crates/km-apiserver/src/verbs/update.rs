//! PUT.

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::Value;

use super::{create, modify::Modification, modify::Part};
use crate::{body, context::Context, failure::Failure, registry::Kind, render};

/// Replaces an object or one of its parts.
pub async fn update(ctx: &Context, part: Part) -> Result<Response<Body>, Failure> {
    let validation = ctx.query.field_validation()?;
    let dry_run = ctx.query.dry_run()?;
    let decoded = body::decode(&ctx.headers, &ctx.body)?;
    let mut value = decoded.value;
    body::expect_kind((&ctx.kind.api_version(), ctx.kind.kind), &mut value)?;
    let warnings = body::check_fields(ctx.kind, &mut value, decoded.problems, validation)?;
    let key = ctx.key()?;
    check_place(&value, ctx)?;
    if ctx.kind.create_on_update && part == Part::Whole && ctx.server.store.get(&key).is_none() {
        value["metadata"]["name"] = key.name.into();
        let stored = create::new_object(&ctx.server, ctx.kind, ctx.namespace.as_deref(), value, dry_run).await?;
        return Ok(render::object(ctx, StatusCode::CREATED, &stored, &warnings));
    }
    let value = ctx.kind.stored(value);
    let modification = Modification { server: &ctx.server, kind: ctx.kind, key, part, dry_run };
    let stored = modification
        .apply(|old| {
            check_version(ctx.kind, old, &value)?;
            Ok(value.clone())
        })
        .await?;
    Ok(render::object(ctx, StatusCode::OK, &stored, &warnings))
}

/// Name and namespace of the body must be those of the path, or not be there.
fn check_place(value: &Value, ctx: &Context) -> Result<(), Failure> {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if !name.is_empty() && Some(name) != ctx.name.as_deref() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            ctx.name.as_deref().unwrap_or_default()
        )));
    }
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
    if ctx.kind.namespaced && !namespace.is_empty() && Some(namespace) != ctx.namespace.as_deref() {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// A write that names a version or uid is only for that one.
pub fn check_version(kind: &Kind, old: &Value, new: &Value) -> Result<(), Failure> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let of = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (wanted, found) = (of(new, "uid"), of(old, "uid"));
    if !wanted.is_empty() && wanted != found {
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
        return Err(Failure::conflict(kind, name, &why));
    }
    let version = of(new, "resourceVersion");
    if !matches!(version.as_str(), "" | "0") && version != of(old, "resourceVersion") {
        return Err(Failure::modified(kind, name));
    }
    Ok(())
}
