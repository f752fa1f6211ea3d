//! The HTTP port: health, metrics, debugging, and the files that agents fetch.

use std::{fmt::Write, path::PathBuf, sync::Arc};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use km_observe::Admin;
use tokio_util::io::ReaderStream;

use super::{
    artifacts::{Artifacts, Content},
    metrics::Metrics,
    status::Status,
};
use crate::core::{Event, Request};

#[derive(Clone)]
struct Debug {
    status: Arc<Status>,
}

/// All routes of the scheduler.
pub fn router(status: Arc<Status>, metrics: &Metrics, artifacts: &Artifacts) -> Router {
    let [subscribed, synced, role] = [(); 3].map(|()| Arc::clone(&status));
    let said = |yes: bool, no: &str| if yes { Ok(()) } else { Err(no.to_owned()) };
    let admin = Admin::new(metrics.registry())
        .check("subscribed", move || {
            said(subscribed.stands_by() || subscribed.lock().subscribed, "not subscribed to a Mesos master")
        })
        .check("caches-synced", move || said(synced.is_synced(), "pods and nodes are not listed yet"))
        .note("role", move || role.role());
    let debug = Router::new()
        .route("/debug/registry/tasks", get(tasks))
        .route("/debug/scheduler/podqueue", get(queue))
        .route("/debug/scheduler/offers", get(offers))
        .route("/debug/actions/requestExplicit", get(async |state| request(state, Request::Explicit).await))
        .route("/debug/actions/requestImplicit", get(async |state| request(state, Request::Implicit).await))
        .route("/debug/actions/kamikaze", get(kamikaze))
        .with_state(Debug { status });
    let files = artifacts.files.iter().fold(Router::new(), |router, (name, content)| {
        let content = content.clone();
        router.route(&format!("/{name}"), get(move || artifact(content.clone())))
    });
    admin.router().merge(debug).merge(files)
}

async fn tasks(State(debug): State<Debug>) -> String {
    let tasks = debug.status.lock().tasks.clone();
    let mut text = format!("task_count={}\n", tasks.len());
    for task in tasks {
        let _infallible = writeln!(text, "{}\t{}\t{}\t{}", task.id, task.pod, task.state, task.offer);
    }
    text
}

async fn queue(State(debug): State<Debug>) -> String {
    let lines = debug.status.lock().queue.clone();
    let mut text = String::new();
    for line in lines {
        let reason = line.reason.unwrap_or_default();
        let _infallible = writeln!(text, "{}\t{} ms\t{reason}", line.pod, line.waits_ms);
    }
    text
}

async fn offers(State(debug): State<Debug>) -> Response {
    Json(debug.status.lock().offers.clone()).into_response()
}

async fn request(State(debug): State<Debug>, request: Request) -> StatusCode {
    if !debug.status.lock().subscribed {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    if debug.status.tell(Event::Request(request)).await {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

async fn kamikaze(state: State<Debug>) -> Response {
    match request(state, Request::Kamikaze).await {
        StatusCode::NO_CONTENT => "OK".into_response(),
        other => other.into_response(),
    }
}

async fn artifact(content: Content) -> Response {
    match content {
        Content::File(path) => file(path).await,
        Content::Text(text) => text.to_string().into_response(),
    }
}

/// Sends a file without holding it in memory.
async fn file(path: PathBuf) -> Response {
    let opened = async {
        let file = tokio::fs::File::open(&path).await?;
        let length = file.metadata().await?.len();
        Ok::<_, std::io::Error>((file, length))
    };
    match opened.await {
        Ok((file, length)) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
                (header::CONTENT_LENGTH, length.to_string()),
            ];
            (headers, Body::from_stream(ReaderStream::new(file))).into_response()
        }
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "an artifact can't be served");
            (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
        }
    }
}
