//! What lies under an object: status, scale, resize, binding, eviction, finalize, log.

mod binding;
mod eviction;
mod finalize;
mod log;
mod scale;

use axum::body::Body;
use http::{Method, Response};

use crate::{
    context::Context,
    failure::Failure,
    verbs::{self, modify::Part},
};

/// Whether a subresource answers with something else than objects.
pub fn is_stream(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward")
}

/// What Kubernetes has under an object and this server has not: it says so, since a path that is not there could as
/// well be a mistake of the client.
pub fn is_missing(resource: &str, subresource: &str) -> bool {
    matches!(
        (resource, subresource),
        ("pods", "ephemeralcontainers") | ("pods" | "services" | "nodes", "proxy") | ("serviceaccounts", "token")
    )
}

/// Calls what a subresource request asks for.
pub async fn dispatch(method: Method, ctx: Context) -> Result<Response<Body>, Failure> {
    match (ctx.subresource.as_str(), method) {
        ("status", Method::GET) => verbs::get::get(&ctx),
        ("status", Method::PUT) => verbs::update::update(&ctx, Part::Status).await,
        ("status", Method::PATCH) => verbs::patch::patch(&ctx, Part::Status).await,
        ("resize", Method::GET) => verbs::get::get(&ctx),
        ("resize", Method::PUT) => verbs::update::update(&ctx, Part::Resize).await,
        ("resize", Method::PATCH) => verbs::patch::patch(&ctx, Part::Resize).await,
        ("scale", Method::GET) => scale::get(&ctx),
        ("scale", Method::PUT) => scale::update(&ctx).await,
        ("scale", Method::PATCH) => scale::patch(&ctx).await,
        ("binding", Method::POST) => binding::bind(&ctx).await,
        ("eviction", Method::POST) => eviction::evict(&ctx).await,
        ("finalize", Method::PUT) => finalize::finalize(&ctx).await,
        ("log", Method::GET) => log::log(&ctx).await,
        ("exec" | "attach" | "portforward", Method::GET | Method::POST) => {
            Err(Failure::not_yet(&format!("pods/{}", ctx.subresource)))
        }
        _ => Err(Failure::method_not_allowed()),
    }
}
