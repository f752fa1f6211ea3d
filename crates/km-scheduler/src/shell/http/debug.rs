//! Pages and actions for debugging, below `/debug/`.

use std::{fmt::Write, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;

use crate::{
    core::{Event, Request},
    shell::{profile::Profile, status::Status},
};

/// Longest profile.
const LONGEST: u64 = 300;

#[derive(Clone)]
struct Debug {
    status: Arc<Status>,
    patience: Duration,
}

/// `patience`: how long an action may wait for the core.
pub fn router(status: Arc<Status>, patience: Duration) -> Router {
    Router::new()
        .route("/debug/registry/tasks", get(tasks))
        .route("/debug/scheduler/podqueue", get(queue))
        .route("/debug/scheduler/podstore", get(store))
        .route("/debug/scheduler/offers", get(offers))
        .route("/debug/actions/requestExplicit", get(async |state| request(state, Request::Explicit).await))
        .route("/debug/actions/requestImplicit", get(async |state| request(state, Request::Implicit).await))
        .route("/debug/actions/kamikaze", get(kamikaze))
        .with_state(Debug { status, patience })
}

/// Where the scheduler's time goes. Only with `--profiling`.
pub fn profiles(profile: Profile) -> Router {
    const INDEX: &str = "profile?seconds=N\tmicroseconds that each kind of event took in N seconds, as folded stacks\n";
    Router::new()
        .route("/debug/pprof/", get(async || INDEX))
        .route("/debug/pprof/profile", get(folded))
        .with_state(profile)
}

async fn tasks(State(debug): State<Debug>) -> String {
    let tasks = debug.status.look(|core, _| core.task_lines()).await.unwrap_or_default();
    let mut text = format!("task_count={}\n", tasks.len());
    for task in tasks {
        // The original's numbers: 0 pending, 1 running, 2 finished.
        let _infallible = writeln!(text, "{}\t{}\t{}\t{}", task.id, task.pod, task.state as u8, task.offer);
    }
    text
}

async fn queue(State(debug): State<Debug>) -> String {
    let lines = debug.status.look(|core, now| core.queue_lines(now)).await.unwrap_or_default();
    let mut text = String::new();
    for line in lines {
        let next = line.next_ms.map_or_else(|| "<none>".to_owned(), |next| format!("in {next} ms"));
        let reason = line.reason.unwrap_or_default();
        let _infallible = writeln!(text, "{}\t{next}\t{} ms\t{reason}", line.pod, line.pause_ms);
    }
    text
}

async fn store(State(debug): State<Debug>) -> String {
    let lines = debug.status.look(|core, _| core.pod_lines()).await.unwrap_or_default();
    let mut text = String::new();
    for line in lines {
        let node = line.node.as_deref().unwrap_or("<none>");
        let _infallible = writeln!(text, "{}\t{}\t{node}\t{}", line.pod, line.uid, line.phase);
    }
    text
}

async fn offers(State(debug): State<Debug>) -> Response {
    let lines = debug.status.look(|core, now| core.offer_lines(now)).await.unwrap_or_default();
    Json(lines).into_response()
}

async fn request(State(debug): State<Debug>, request: Request) -> StatusCode {
    if !debug.status.is_subscribed() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match tokio::time::timeout(debug.patience, debug.status.tell(Event::Request(request))).await {
        Ok(true) => StatusCode::NO_CONTENT,
        Ok(false) | Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Tells every executor to end with its pods, and says to whom that was said.
async fn kamikaze(State(debug): State<Debug>) -> Response {
    let executors = debug.status.look(|core, _| core.executor_ids()).await.unwrap_or_default();
    match request(State(debug), Request::Kamikaze).await {
        StatusCode::NO_CONTENT => {
            let sent = executors.iter().map(|(agent, executor)| format!("sent to {executor} on {agent}\n"));
            (sent.collect::<String>() + "OK\n").into_response()
        }
        other => other.into_response(),
    }
}

#[derive(Deserialize)]
struct Span {
    seconds: Option<u64>,
}

async fn folded(State(profile): State<Profile>, Query(span): Query<Span>) -> Response {
    let seconds = span.seconds.unwrap_or(30);
    if !(1..=LONGEST).contains(&seconds) {
        return (StatusCode::BAD_REQUEST, format!("seconds: must be from 1 to {LONGEST}\n")).into_response();
    }
    let before = profile.taken();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    profile.folded_since(&before).into_response()
}
