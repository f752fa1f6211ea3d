//! What people ask the core: its tasks, offers and executors, and why a pod waits.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use km_podtask::PodKey;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::status::Status;
use crate::core::Core;

/// A question, and where its answer goes.
pub struct Question {
    about: About,
    answer: oneshot::Sender<Option<Value>>,
}

enum About {
    Tasks,
    Offers,
    Executors,
    Pod(PodKey),
}

impl Question {
    /// Answers it from the core as it is now.
    pub fn answer(self, core: &mut Core, now: Duration) {
        let value = match &self.about {
            About::Tasks => Some(json!({ "tasks": core.task_lines() })),
            About::Offers => Some(json!(core.offers_page(now))),
            About::Executors => Some(json!({ "executors": core.executor_lines() })),
            About::Pod(key) => core.explain_page(now, key).map(|page| json!(page)),
        };
        // Who asked may have gone.
        let _gone = self.answer.send(value);
    }
}

/// The routes of the answers, all JSON.
pub fn router(status: Arc<Status>) -> Router {
    Router::new()
        .route("/debug/inspect/tasks", get(async |state| ask(state, About::Tasks).await))
        .route("/debug/inspect/offers", get(async |state| ask(state, About::Offers).await))
        .route("/debug/inspect/executors", get(async |state| ask(state, About::Executors).await))
        .route("/debug/explain", get(explain))
        .with_state(status)
}

#[derive(serde::Deserialize)]
struct Which {
    pod: Option<String>,
}

async fn explain(state: State<Arc<Status>>, Query(which): Query<Which>) -> Response {
    let pod = which.pod.unwrap_or_default();
    match pod.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            ask(state, About::Pod(PodKey::new(namespace, name))).await
        }
        _ => (StatusCode::BAD_REQUEST, "give ?pod=NAMESPACE/NAME").into_response(),
    }
}

async fn ask(State(status): State<Arc<Status>>, about: About) -> Response {
    let missing = match &about {
        About::Pod(key) => format!("there is no pod {key}"),
        _ => String::new(),
    };
    let (answer, answered) = oneshot::channel();
    if status.ask(Question { about, answer }).await
        && let Ok(value) = answered.await
    {
        return match value {
            Some(value) => Json(value).into_response(),
            None => (StatusCode::NOT_FOUND, missing).into_response(),
        };
    }
    (StatusCode::SERVICE_UNAVAILABLE, status.role()).into_response()
}
