//! What people ask the core: its tasks, offers and executors, and why a pod waits.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use km_podtask::PodKey;
use serde_json::{Value, json};

use super::status::Status;

/// The routes of the answers, all JSON.
pub fn router(status: Arc<Status>) -> Router {
    Router::new()
        .route("/debug/inspect/tasks", get(tasks))
        .route("/debug/inspect/offers", get(offers))
        .route("/debug/inspect/executors", get(executors))
        .route("/debug/explain", get(explain))
        .with_state(status)
}

async fn tasks(State(status): State<Arc<Status>>) -> Response {
    answer(&status, status.look(|core, _| json!({ "tasks": core.task_lines() })).await)
}

async fn offers(State(status): State<Arc<Status>>) -> Response {
    answer(&status, status.look(|core, now| json!(core.offers_page(now))).await)
}

async fn executors(State(status): State<Arc<Status>>) -> Response {
    answer(&status, status.look(|core, _| json!({ "executors": core.executor_lines() })).await)
}

#[derive(serde::Deserialize)]
struct Which {
    pod: Option<String>,
}

async fn explain(State(status): State<Arc<Status>>, Query(which): Query<Which>) -> Response {
    let pod = which.pod.unwrap_or_default();
    let key = match pod.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => PodKey::new(namespace, name),
        _ => return (StatusCode::BAD_REQUEST, "give ?pod=NAMESPACE/NAME").into_response(),
    };
    match status.look(move |core, now| core.explain_page(now, &key).map(|page| json!(page))).await {
        Some(None) => (StatusCode::NOT_FOUND, format!("there is no pod {pod}")).into_response(),
        page => answer(&status, page.flatten()),
    }
}

/// Without a core, who leads instead.
fn answer(status: &Status, value: Option<Value>) -> Response {
    match value {
        Some(value) => Json(value).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, status.role()).into_response(),
    }
}
