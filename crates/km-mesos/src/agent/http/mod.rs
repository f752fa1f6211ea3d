//! The agent's HTTP endpoints.

mod executor;
mod files;
mod headers;
mod metrics;
mod operator;
mod state;
mod v0;

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::Response,
};

use super::shared::Shared;
use crate::wire::{candidates, only, text};

/// No call is longer than this many bytes.
const LONGEST_BODY: usize = 64 << 20;

/// All endpoints. Paths are matched as libprocess does, so there is but one route.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(dispatch).layer(DefaultBodyLimit::max(LONGEST_BODY)).with_state(shared)
}

async fn dispatch(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    for path in candidates(uri.path(), "slave(1)") {
        let handled = match path {
            "/api/v1/executor" | "/api/v1" if method != Method::POST => Some(only("POST", &method)),
            "/api/v1/executor" => Some(executor::call(&shared, &headers, &body)),
            "/api/v1" => Some(operator::call(&shared, &headers, &body).await),
            _ => v0::get(&shared, path, &method, &uri).await,
        };
        if let Some(response) = handled {
            return response;
        }
    }
    text(StatusCode::NOT_FOUND, format!("{} is no endpoint of an agent", uri.path()))
}
