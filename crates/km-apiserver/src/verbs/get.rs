//! One object.

use axum::body::Body;
use http::{Response, StatusCode};

use crate::{context::Context, failure::Failure, render};

/// GET of an object.
pub fn get(ctx: &Context) -> Result<Response<Body>, Failure> {
    if let Some(wanted) = ctx.query.resource_version()? {
        let current = ctx.server.store.revision();
        if wanted > current {
            return Err(Failure::future_version(wanted, current));
        }
    }
    let stored = ctx
        .server
        .store
        .get(&ctx.key()?)
        .ok_or_else(|| Failure::not_found(ctx.kind, ctx.name.as_deref().unwrap_or_default()))?;
    Ok(render::object(ctx, StatusCode::OK, &stored, &[]))
}
