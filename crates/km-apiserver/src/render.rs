//! Objects and lists in the form that the client asked for.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use km_store::Stored;
use serde_json::{Value, json};

use crate::{
    context::Context,
    negotiate::{Form, Include},
    registry::Kind,
};

/// What a list says about itself.
#[derive(Default)]
pub struct ListMeta {
    pub revision: u64,
    pub continue_token: Option<String>,
    pub remaining: Option<usize>,
}

/// A JSON response.
pub fn json_response(code: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// The document of one object as its kind shows it. What nobody has to look into is not parsed.
pub fn document(kind: &Kind, stored: &Stored) -> Bytes {
    match kind.conversion {
        None => stored.json.clone(),
        Some(_) => kind.shown(stored.value()).to_string().into(),
    }
}

/// One object as the answer to a request, with warnings about its fields.
pub fn object(ctx: &Context, code: StatusCode, stored: &Stored, warnings: &[String]) -> Response<Body> {
    let body = match ctx.form {
        Form::Json if ctx.query.flag("pretty") => {
            let value = ctx.kind.shown(stored.value());
            serde_json::to_vec_pretty(&value).map(Bytes::from).unwrap_or_else(|_| document(ctx.kind, stored))
        }
        Form::Json => document(ctx.kind, stored),
        Form::Partial => partial(&stored.value()).to_string().into(),
        Form::Table(include) => {
            let meta = ListMeta { revision: stored.revision, ..ListMeta::default() };
            table(ctx.kind, include, [stored], &meta, true).to_string().into()
        }
    };
    with_warnings(json_response(code, body), warnings)
}

/// Adds `Warning: 299` headers.
pub fn with_warnings(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// A list.
pub fn list(ctx: &Context, items: &[std::sync::Arc<Stored>], meta: &ListMeta) -> Response<Body> {
    let body = match ctx.form {
        Form::Json => plain_list(ctx.kind, items, meta),
        Form::Table(include) => {
            table(ctx.kind, include, items.iter().map(AsRef::as_ref), meta, true).to_string().into()
        }
        Form::Partial => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata(meta),
            "items": items.iter().map(|stored| partial(&stored.value())).collect::<Vec<_>>(),
        })
        .to_string()
        .into(),
    };
    json_response(StatusCode::OK, body)
}

fn plain_list(kind: &Kind, items: &[std::sync::Arc<Stored>], meta: &ListMeta) -> Bytes {
    let size: usize = items.iter().map(|stored| stored.json.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 200);
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
        kind.kind,
        kind.api_version(),
        list_metadata(meta)
    );
    out.extend_from_slice(head.as_bytes());
    for (index, stored) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&document(kind, stored));
    }
    out.extend_from_slice(b"]}");
    out.into()
}

fn list_metadata(meta: &ListMeta) -> Value {
    let mut value = json!({ "resourceVersion": meta.revision.to_string() });
    if let Some(token) = &meta.continue_token {
        value["continue"] = token.as_str().into();
    }
    if let Some(remaining) = meta.remaining {
        value["remainingItemCount"] = remaining.into();
    }
    value
}

/// A `Table`; watches leave the columns out after their first event.
pub fn table<'a>(
    kind: &Kind,
    include: Include,
    items: impl IntoIterator<Item = &'a Stored>,
    meta: &ListMeta,
    with_columns: bool,
) -> Value {
    let rows: Vec<Value> = items
        .into_iter()
        .map(|stored| {
            let value = stored.value();
            let mut row = json!({ "cells": (kind.cells)(&value) });
            match include {
                Include::None => {}
                Include::Metadata => row["object"] = partial(&value),
                Include::Object => row["object"] = kind.shown(value),
            }
            row
        })
        .collect();
    let columns: Vec<Value> =
        if with_columns { kind.columns.iter().map(|column| column.definition()).collect() } else { Vec::new() };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata(meta),
        "columnDefinitions": columns, "rows": rows,
    })
}

/// An object's metadata alone.
pub fn partial(value: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"] })
}
