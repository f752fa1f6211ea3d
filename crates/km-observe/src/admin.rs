//! The HTTP endpoints that every role serves: `/livez`, `/readyz`, `/healthz`, `/metrics`, `/version`.

use std::{fmt::Write, sync::Arc};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde::Deserialize;

/// A named readiness check: `Err` says what is missing.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Something worth knowing beside the checks.
type Note = Arc<dyn Fn() -> String + Send + Sync>;

/// Collects a role's checks and metrics and turns them into routes.
#[derive(Default)]
pub struct Admin {
    checks: Vec<(&'static str, Check)>,
    notes: Vec<(&'static str, Note)>,
    registry: Arc<Registry>,
}

impl Admin {
    /// `registry` is encoded at every scrape.
    pub fn new(registry: Registry) -> Self {
        Self { checks: Vec::new(), notes: Vec::new(), registry: Arc::new(registry) }
    }

    /// Adds a readiness check, e.g. `subscribed` or `caches-synced`.
    #[must_use]
    pub fn check(mut self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.checks.push((name, Arc::new(check)));
        self
    }

    /// Adds a line to `/readyz?verbose` that fails nothing, e.g. which of several roles it is.
    #[must_use]
    pub fn note(mut self, name: &'static str, note: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.notes.push((name, Arc::new(note)));
        self
    }

    /// The routes, to be merged into a role's own router.
    pub fn router(self) -> Router {
        Router::new()
            .route("/livez", get(async || "ok"))
            .route("/healthz", get(async || "ok"))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .route("/version", get(async || Json(serde_json::json!({ "km": crate::VERSION }))))
            .with_state(Arc::new(self))
    }
}

#[derive(Deserialize)]
struct Verbosity {
    verbose: Option<String>,
}

async fn ready(State(admin): State<Arc<Admin>>, Query(query): Query<Verbosity>) -> Response {
    let mut text = String::new();
    let mut failed = false;
    for (name, check) in &admin.checks {
        let line = match check() {
            Ok(()) => format!("[+]{name} ok\n"),
            Err(reason) => {
                failed = true;
                format!("[-]{name} failed: {reason}\n")
            }
        };
        text.push_str(&line);
    }
    for (name, note) in &admin.notes {
        let _infallible = writeln!(text, "[i]{name}: {}", note());
    }
    if failed {
        let _infallible = write!(text, "readyz check failed");
        return (StatusCode::INTERNAL_SERVER_ERROR, text).into_response();
    }
    if query.verbose.is_some() {
        (StatusCode::OK, text + "readyz check passed").into_response()
    } else {
        "ok".into_response()
    }
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &admin.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
