//! `namespaces/finalize`: only here the finalizers in a namespace's spec change.

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::json;

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

/// PUT of a namespace. The last finalizer gone, a deleted namespace is removed.
pub async fn finalize(ctx: &Context) -> Result<Response<Body>, Failure> {
    let mut namespace = body::decode(&ctx.headers, &ctx.body)?.value;
    body::expect_kind(("v1", "Namespace"), &mut namespace)?;
    let (key, dry_run) = (ctx.key()?, ctx.query.dry_run()?);
    let modification = Modification { server: &ctx.server, kind: ctx.kind, key, part: Part::Internal, dry_run };
    let stored = modification
        .apply(|old| {
            check_version(ctx.kind, old, &namespace)?;
            let mut new = old.clone();
            let finalizers = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
            new["spec"] = if finalizers.is_empty() { json!({}) } else { json!({ "finalizers": finalizers }) };
            Ok(new)
        })
        .await?;
    Ok(render::object(ctx, StatusCode::OK, &stored, &[]))
}
