//! `scale`: the number of replicas of any kind that has replicas.

use axum::body::Body;
use http::{Response, StatusCode};
use km_store::Stored;
use serde_json::{Value, json};

use crate::{
    body,
    context::Context,
    failure::Failure,
    render,
    verbs::{
        modify::{Modification, Part},
        update::check_version,
    },
};

/// GET.
pub fn get(ctx: &Context) -> Result<Response<Body>, Failure> {
    let stored = ctx
        .server
        .store
        .get(&ctx.key()?)
        .ok_or_else(|| Failure::not_found(ctx.kind, ctx.name.as_deref().unwrap_or_default()))?;
    Ok(answer(&stored))
}

/// PUT of a Scale.
pub async fn update(ctx: &Context) -> Result<Response<Body>, Failure> {
    let mut scale = body::decode(&ctx.headers, &ctx.body)?.value;
    body::expect_kind(("autoscaling/v1", "Scale"), &mut scale)?;
    set(ctx, |_| Ok(scale.clone())).await
}

/// PATCH of a Scale, in any language: a Scale has no lists, so strategic and plain merge are the same.
pub async fn patch(ctx: &Context) -> Result<Response<Body>, Failure> {
    let by = body::decode_json(&ctx.body)?.value;
    let json_patch = body::content_type(&ctx.headers) == "application/json-patch+json";
    set(ctx, |scale| {
        let patched =
            if json_patch { km_kube::patch::json_patch(&scale, &by) } else { km_kube::patch::merge_patch(&scale, &by) };
        patched.map_err(|error| Failure::bad_request(error.to_string()))
    })
    .await
}

async fn set(ctx: &Context, change: impl Fn(Value) -> Result<Value, Failure>) -> Result<Response<Body>, Failure> {
    let name = ctx.name()?;
    let (key, dry_run) = (ctx.key()?, ctx.query.dry_run()?);
    let modification = Modification { server: &ctx.server, kind: ctx.kind, key, part: Part::Whole, dry_run };
    let stored = modification
        .apply(|old| {
            let scale = change(scale_of(old))?;
            check_version(ctx.kind, old, &scale)?;
            let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
            if !(0..=i64::from(i32::MAX)).contains(&replicas) {
                let why = "must be greater than or equal to 0";
                return Err(Failure::invalid_value(ctx.kind, name, "spec.replicas", &replicas.to_string(), why));
            }
            let mut new = old.clone();
            new["spec"]["replicas"] = replicas.into();
            Ok(new)
        })
        .await?;
    Ok(answer(&stored))
}

fn answer(stored: &Stored) -> Response<Body> {
    render::json_response(StatusCode::OK, scale_of(&stored.value()).to_string())
}

fn scale_of(object: &Value) -> Value {
    let from = &object["metadata"];
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata[field] = from[field].clone();
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": { "replicas": object["spec"]["replicas"].as_i64().unwrap_or(0) },
        "status": {
            "replicas": object["status"]["replicas"].as_i64().unwrap_or(0), "selector": selector(&object["spec"]["selector"]),
        },
    })
}

/// The selector as query text; that of a replication controller is a plain map.
fn selector(selector: &Value) -> String {
    let structured = selector.get("matchLabels").is_some_and(Value::is_object)
        || selector.get("matchExpressions").is_some_and(Value::is_array);
    let object = if structured { selector.clone() } else { json!({ "matchLabels": selector }) };
    km_kube::selector::LabelSelector::from_object(&object).map(|parsed| parsed.to_string()).unwrap_or_default()
}
