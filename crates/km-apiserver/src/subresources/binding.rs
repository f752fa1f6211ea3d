//! `pods/binding`: puts a pod on a node, once.

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    body,
    context::Context,
    failure::Failure,
    render, time,
    verbs::modify::{Modification, Part},
};

/// POST of a Binding.
pub async fn bind(ctx: &Context) -> Result<Response<Body>, Failure> {
    let mut binding = body::decode(&ctx.headers, &ctx.body)?.value;
    body::expect_kind(("v1", "Binding"), &mut binding)?;
    let name = ctx.name()?;
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        let problem = ("FieldValueRequired".to_owned(), "Required value".to_owned(), "target.name".to_owned());
        return Err(Failure::invalid(ctx.kind, name, &[problem]));
    }
    let wanted_uid = binding["metadata"]["uid"].as_str().unwrap_or_default();
    let (key, dry_run) = (ctx.key()?, ctx.query.dry_run()?);
    let modification = Modification { server: &ctx.server, kind: ctx.kind, key, part: Part::Internal, dry_run };
    modification
        .apply(|pod| {
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
            if !wanted_uid.is_empty() && wanted_uid != uid {
                let why = format!("Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {uid}");
                return Err(Failure::conflict(ctx.kind, name, &why));
            }
            if pod["metadata"].get("deletionTimestamp").is_some() {
                let why = format!("pod {name} is being deleted, cannot be assigned to a host");
                return Err(Failure::conflict(ctx.kind, name, &why));
            }
            if let Some(bound) = pod["spec"]["nodeName"].as_str().filter(|bound| !bound.is_empty()) {
                let why = format!("pod {name} is already assigned to node \"{bound}\"");
                return Err(Failure::conflict(ctx.kind, name, &why));
            }
            Ok(bound(pod.clone(), node, &binding))
        })
        .await?;
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Ok(render::json_response(StatusCode::CREATED, status.to_string()))
}

fn bound(mut pod: Value, node: &str, binding: &Value) -> Value {
    pod["spec"]["nodeName"] = node.into();
    for part in ["annotations", "labels"] {
        for (key, value) in binding["metadata"][part].as_object().into_iter().flatten() {
            if !pod["metadata"][part].is_object() {
                pod["metadata"][part] = json!({});
            }
            pod["metadata"][part][key] = value.clone();
        }
    }
    let scheduled = json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": time::now() });
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = pod["status"]["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(scheduled);
    }
    pod
}
