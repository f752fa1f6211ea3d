//! The HTTP port: health, metrics, debugging, and the files that agents fetch.

mod debug;

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use km_observe::Admin;
use tokio_util::io::ReaderStream;

use super::{
    artifacts::{Artifacts, Content},
    inspect,
    metrics::Metrics,
    profile::Profile,
    status::Status,
};
use crate::Flags;

/// All routes of the scheduler.
pub fn router(
    flags: &Flags,
    status: Arc<Status>,
    metrics: &Metrics,
    profile: &Profile,
    artifacts: &Artifacts,
) -> Router {
    let [subscribed, synced, role] = [(); 3].map(|()| Arc::clone(&status));
    let said = |yes: bool, no: &str| if yes { Ok(()) } else { Err(no.to_owned()) };
    let admin = Admin::new(metrics.registry())
        .check("subscribed", move || {
            said(subscribed.stands_by() || subscribed.is_subscribed(), "not subscribed to a Mesos master")
        })
        .check("caches-synced", move || said(synced.is_synced(), "pods and nodes are not listed yet"))
        .note("role", move || role.role());
    let inspecting = inspect::router(Arc::clone(&status));
    let files = artifacts.files.iter().fold(Router::new(), |router, (name, content)| {
        let content = content.clone();
        router.route(&format!("/{name}"), get(move || artifact(content.clone())))
    });
    let router =
        admin.router().merge(inspecting).merge(debug::router(status, flags.tuning.http_handler_timeout)).merge(files);
    if flags.profiling { router.merge(debug::profiles(profile.clone())) } else { router }
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
