//! PATCH: JSON patch, merge patch, strategic merge patch.

use axum::body::Body;
use http::{Response, StatusCode};
use km_kube::patch::{self, PatchError};
use serde_json::Value;

use super::{
    modify::{Modification, Part},
    update::check_version,
};
use crate::{body, context::Context, failure::Failure, render};

const ACCEPTED: &str =
    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json";

/// The patch languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Json,
    Merge,
    Strategic,
}

/// Patches an object or one of its parts.
pub async fn patch(ctx: &Context, part: Part) -> Result<Response<Body>, Failure> {
    let validation = ctx.query.field_validation()?;
    let dry_run = ctx.query.dry_run()?;
    let language = language(ctx)?;
    let decoded = body::decode_json(&ctx.body)?;
    let name = ctx.name()?;
    let mut warnings = Vec::new();
    let modification = Modification { server: &ctx.server, kind: ctx.kind, key: ctx.key()?, part, dry_run };
    let stored = modification
        .apply(|old| {
            let shown = ctx.kind.shown(old.clone());
            let mut patched = apply(ctx, language, &shown, &decoded.value)?;
            body::expect_kind((&ctx.kind.api_version(), ctx.kind.kind), &mut patched)?;
            if patched["metadata"]["name"].as_str() != Some(name) {
                let found = patched["metadata"]["name"].to_string();
                let why = "field is immutable";
                return Err(Failure::invalid_value(ctx.kind, name, "metadata.name", &found, why));
            }
            warnings = body::check_fields(ctx.kind, &mut patched, decoded.problems.clone(), validation)?;
            check_version(ctx.kind, old, &patched)?;
            Ok(ctx.kind.stored(patched))
        })
        .await?;
    Ok(render::object(ctx, StatusCode::OK, &stored, &warnings))
}

fn language(ctx: &Context) -> Result<Language, Failure> {
    match body::content_type(&ctx.headers) {
        "application/json-patch+json" => Ok(Language::Json),
        "application/merge-patch+json" => Ok(Language::Merge),
        "application/strategic-merge-patch+json" => Ok(Language::Strategic),
        "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
            Err(Failure::not_yet("server-side apply (use client-side apply)"))
        }
        _ => Err(Failure::unsupported_media_type(ACCEPTED)),
    }
}

/// Applies a patch to an object.
fn apply(ctx: &Context, language: Language, object: &Value, by: &Value) -> Result<Value, Failure> {
    let result = match language {
        Language::Json => patch::json_patch(object, by),
        Language::Merge => patch::merge_patch(object, by),
        Language::Strategic => {
            let kind = ctx.kind;
            let schema = km_kube::schema::lookup(kind.group, kind.version, kind.kind)
                .ok_or_else(|| Failure::unsupported_media_type(ACCEPTED))?;
            patch::strategic_merge(schema, object, by)
        }
    };
    result.map_err(|error| match error {
        PatchError::Malformed(message) => Failure::bad_request(message),
        PatchError::DoesNotApply(message) => Failure::invalid_options(format!(
            "the server rejected our request due to an error in our request: {message}"
        )),
    })
}
