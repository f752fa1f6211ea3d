//! `GET /containerLogs/{namespace}/{pod}/{container}`.

use std::path::PathBuf;

use axum::{
    body::Body,
    extract::{Path, Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use km_pod::container_id;

use super::{Served, follow, select::Options};

/// A refusal: status and text.
type Refusal = (StatusCode, String);

pub async fn handle(
    State(served): State<Served>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    match open(&served, (&namespace, &pod, &container), &query).await {
        Ok(body) => ([(header::CONTENT_TYPE, "text/plain")], body).into_response(),
        Err((status, text)) => (status, text).into_response(),
    }
}

async fn open(
    served: &Served,
    (namespace, name, container): (&str, &str, &str),
    query: &[(String, String)],
) -> Result<Body, Refusal> {
    let options = Options::parse(query).map_err(|text| (StatusCode::BAD_REQUEST, text))?;
    let handle = served.table.find(namespace, name);
    let missing = || (StatusCode::NOT_FOUND, format!("pod {name:?} does not exist on this node"));
    let handle = handle.ok_or_else(missing)?;
    let pod = handle.view.borrow().clone();
    let attempt = attempt(&pod, container, options.previous)?;
    let id = container_id(&handle.key.uid, container, attempt);
    let file = match served.runtime.container_status(&id).await {
        Ok(status) => status.log_path,
        // Its sandbox is gone; the log was kept if the pod ended by itself.
        Err(_) => kept(&handle.logs_dir, container, attempt),
    };
    let runtime = served.runtime.clone();
    follow::stream(file, options, runtime, id).await.map_err(|error| {
        let text = format!("the log of container {container:?} cannot be read: {error}");
        (StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}

fn kept(dir: &std::path::Path, container: &str, attempt: u32) -> PathBuf {
    dir.join(container).join(format!("{attempt}.log"))
}

/// Which attempt's log is asked for.
fn attempt(pod: &Pod, container: &str, previous: bool) -> Result<u32, Refusal> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let bad = |text: String| (StatusCode::BAD_REQUEST, text);
    let status = pod.status.clone().unwrap_or_default();
    let statuses = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    let mut known = statuses.filter(|status| status.name == container);
    let Some(status) = known.next() else {
        let spec = pod.spec.as_ref();
        let all = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        if all.into_iter().any(|one| one.name == container) {
            return Err(bad(waits(name, container, "ContainerCreating")));
        }
        return Err((StatusCode::NOT_FOUND, format!("container {container:?} not found in pod {name:?}")));
    };
    let current = u32::try_from(status.restart_count).unwrap_or_default();
    if status.container_id.is_none() {
        return Err(bad(waits(name, container, reason(&status))));
    }
    if !previous {
        return Ok(current);
    }
    let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
    // While it waits for its restart, the last attempt is the previous one, as the kubelet sees it.
    let waiting = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
    match (waiting, current) {
        (true, current) => Ok(current),
        (false, 1..) => Ok(current - 1),
        (false, 0) => {
            let what = if running { "previous terminated container" } else { "previous container" };
            Err(bad(format!("{what} {container:?} in pod {name:?} not found")))
        }
    }
}

fn waits(pod: &str, container: &str, reason: &str) -> String {
    format!("container {container:?} in pod {pod:?} is waiting to start: {reason}")
}

fn reason(status: &ContainerStatus) -> &str {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or("ContainerCreating")
}
