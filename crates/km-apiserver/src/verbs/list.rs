//! Lists, whole or in pages.

use axum::body::Body;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::Response;
use km_store::{Page, Query as StoreQuery, StoreError, Stored};
use serde_json::{Value, json};

use super::selection::Selection;
use crate::{
    context::Context,
    failure::{Failure, respond_status},
    render::{self, ListMeta},
};

/// GET of a collection.
pub fn list(ctx: &Context) -> Result<Response<Body>, Failure> {
    let selection = Selection::of(ctx)?;
    let limit: usize = ctx.query.number("limit")?.unwrap_or(0);
    let start = Start::of(ctx, limit)?;
    let matches = |stored: &Stored| selection.matches(stored);
    let query = StoreQuery {
        resource: ctx.kind.storage,
        namespace: ctx.namespace.as_deref(),
        at: start.at,
        after: start.after.clone(),
        limit,
        matches: &matches,
    };
    let page = match ctx.server.store.list(&query) {
        Ok(page) => page,
        Err(StoreError::Compacted { .. }) if start.after.is_some() => {
            return Ok(expired_continue(start.after.as_ref()));
        }
        Err(error) => return Err(Failure::from_store(error, ctx.kind, "")),
    };
    let meta = meta(&page, selection.is_everything());
    Ok(render::list(ctx, &page.items, &meta))
}

fn meta(page: &Page, counts: bool) -> ListMeta {
    let more = page.remaining > 0;
    let last = page.items.last().filter(|_| more);
    ListMeta {
        revision: page.revision,
        continue_token: last.map(|last| {
            token(i64::try_from(page.revision).unwrap_or(-1), &(last.key.namespace.clone(), last.key.name.clone()))
        }),
        remaining: (more && counts).then_some(page.remaining),
    }
}

/// Where a list starts.
struct Start {
    /// The revision to list at, when it must be exactly that one.
    at: Option<u64>,
    after: Option<(String, String)>,
}

impl Start {
    /// The rules of `resourceVersion`, `resourceVersionMatch` and `continue` (API concepts, "resource versions").
    fn of(ctx: &Context, limit: usize) -> Result<Self, Failure> {
        let version = ctx.query.resource_version()?;
        let matching = ctx.query.get("resourceVersionMatch");
        if let Some(token) = ctx.query.get("continue") {
            if version.is_some_and(|version| version != 0) || matching.is_some() {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Failure::bad_request(message));
            }
            return parse_token(token);
        }
        let at = match (matching, version) {
            (None, None | Some(0)) | (Some("NotOlderThan"), Some(0)) => None,
            (None, Some(version)) if limit > 0 => Some(version),
            (None | Some("NotOlderThan"), Some(version)) => {
                let current = ctx.server.store.revision();
                if version > current {
                    return Err(Failure::future_version(version, current));
                }
                None
            }
            (Some("Exact"), Some(0)) => {
                let message = "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for \
                               resourceVersion \"0\"";
                return Err(Failure::invalid_options(message));
            }
            (Some("Exact"), Some(version)) => Some(version),
            (Some("Exact" | "NotOlderThan"), None) => {
                let message = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
                return Err(Failure::invalid_options(message));
            }
            (Some(other), _) => {
                return Err(Failure::invalid_options(format!(
                    "resourceVersionMatch: Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\""
                )));
            }
        };
        Ok(Self { at, after: None })
    }
}

/// A continue token: where the next page starts and at which revision; -1 for whatever is the latest.
fn token(revision: i64, after: &(String, String)) -> String {
    let content = json!({
        "v": "meta.k8s.io/v1", "rv": revision, "start": format!("{}/{}", after.0, after.1),
    });
    URL_SAFE_NO_PAD.encode(content.to_string())
}

fn parse_token(token: &str) -> Result<Start, Failure> {
    let read = || {
        let content: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?).ok()?;
        let (namespace, name) = content["start"].as_str()?.split_once('/')?;
        let at = match content["rv"].as_i64()? {
            -1 => None,
            revision => Some(u64::try_from(revision).ok()?),
        };
        Some(Start { at, after: Some((namespace.to_owned(), name.to_owned())) })
    };
    read().ok_or_else(|| Failure::bad_request("continue key is not valid: it was not made by this server"))
}

fn expired_continue(after: Option<&(String, String)>) -> Response<Body> {
    let token = after.map(|after| token(-1, after)).unwrap_or_default();
    let (failure, token) = Failure::expired_continue(token);
    let mut status = failure.status();
    status["metadata"]["continue"] = token.into();
    respond_status(failure.code(), &status)
}
