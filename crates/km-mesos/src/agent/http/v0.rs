//! The older GET endpoints: `/state`, `/flags`, `/version`, `/health`, `/containers`, `/metrics/snapshot`, `/files/…`.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json,
    body::Body,
    extract::Query,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use km_mesos_core::agent::duration_text;
use km_mesos_proto::v1;
use serde_json::{Value, json};

use super::{
    super::{MESOS_VERSION, shared::Shared},
    files, metrics, state,
};
use crate::wire::{Refusal, only, refuse};

/// Answers a GET of that endpoint, if there is one.
pub(super) async fn get(shared: &Arc<Shared>, path: &str, method: &Method, uri: &Uri) -> Option<Response> {
    let known = matches!(
        path,
        "/state"
            | "/flags"
            | "/version"
            | "/health"
            | "/containers"
            | "/monitor/statistics"
            | "/metrics/snapshot"
            | "/files/browse"
            | "/files/read"
            | "/files/download"
    );
    if !known {
        return None;
    }
    if method != Method::GET && method != Method::HEAD {
        return Some(only("GET", method));
    }
    Some(match path {
        "/state" => Json(state::state(shared)).into_response(),
        "/flags" => Json(json!({ "flags": flags(shared).into_iter().collect::<HashMap<_, _>>() })).into_response(),
        "/version" => Json(json!({ "version": MESOS_VERSION })).into_response(),
        "/health" => StatusCode::OK.into_response(),
        "/containers" | "/monitor/statistics" => Json(containers(shared)).into_response(),
        "/metrics/snapshot" => Json(metrics::metrics(shared).into_iter().collect::<HashMap<_, _>>()).into_response(),
        _ => serve_file(shared, path, uri).await.unwrap_or_else(|refusal| *refusal),
    })
}

async fn serve_file(shared: &Arc<Shared>, endpoint: &str, uri: &Uri) -> Result<Response, Refusal> {
    let bad = |why: &str| refuse(StatusCode::BAD_REQUEST, why);
    let Ok(Query(query)) = Query::<HashMap<String, String>>::try_from_uri(uri) else {
        return Err(bad("Malformed query"));
    };
    let path = query.get("path").cloned().ok_or_else(|| bad("Expecting 'path=value' in query.\n"))?;
    let number = |name: &str| match query.get(name) {
        None => Ok(None),
        Some(text) => text.parse::<i64>().map(Some).map_err(|_| bad(&format!("Failed to parse {name}: {text:?}"))),
    };
    match endpoint {
        "/files/browse" => {
            let infos = files::list(shared, path).await.map_err(files::Problem::into_refusal)?;
            Ok(Json(infos.iter().map(file).collect::<Vec<_>>()).into_response())
        }
        "/files/download" => {
            let name = path.rsplit('/').next().unwrap_or_default().replace('"', "");
            let data = files::download(shared, path).await.map_err(files::Problem::into_refusal)?;
            let disposition = format!("attachment; filename=\"{name}\"");
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (header::CONTENT_DISPOSITION, disposition.as_str()),
            ];
            Ok((headers, Body::from(data)).into_response())
        }
        _ => {
            // An offset of -1 asks for the size alone.
            let offset = number("offset")?.unwrap_or(-1);
            let length =
                if offset < 0 { Some(0) } else { number("length")?.and_then(|length| u64::try_from(length).ok()) };
            let start = u64::try_from(offset).unwrap_or(0);
            let (size, data) = files::read(shared, path, start, length).await.map_err(files::Problem::into_refusal)?;
            let shown = if offset < 0 { size } else { start };
            Ok(Json(json!({ "offset": shown, "data": String::from_utf8_lossy(&data) })).into_response())
        }
    }
}

fn file(info: &v1::FileInfo) -> Value {
    let mode = info.mode.unwrap_or_default();
    let kind = if mode & 0o170_000 == 0o040_000 { 'd' } else { '-' };
    let bits = ["---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx"];
    let bits = [6, 3, 0].map(|shift| bits[(mode >> shift & 7) as usize]);
    json!({
        "path": info.path,
        "nlink": info.nlink,
        "size": info.size,
        "mtime": info.mtime.map(|time| time.nanoseconds / 1_000_000_000),
        "mode": format!("{kind}{}", bits.concat()),
        "uid": info.uid,
        "gid": info.gid,
    })
}

/// The flags as Apache Mesos names and writes them.
pub(super) fn flags(shared: &Shared) -> Vec<(String, String)> {
    let flags = &shared.flags;
    let mut all = vec![
        ("master", flags.master.clone()),
        ("ip", flags.ip.to_string()),
        ("port", shared.address.port().to_string()),
        ("work_dir", shared.work_dir.display().to_string()),
        ("executor_registration_timeout", duration_text(flags.executor_registration_timeout)),
        ("executor_reregistration_timeout", duration_text(flags.executor_reregistration_timeout)),
        ("executor_shutdown_grace_period", duration_text(flags.executor_shutdown_grace_period)),
        ("recovery_timeout", duration_text(flags.recovery_timeout)),
        ("registration_backoff_factor", duration_text(flags.registration_backoff_factor)),
        ("hostname", shared.core().info().hostname.clone()),
    ];
    let optional = [("resources", &flags.resources), ("attributes", &flags.attributes)];
    all.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn containers(shared: &Shared) -> Value {
    let containers = shared.core().get_containers().containers;
    let describe = |container: &v1::agent::response::get_containers::Container| {
        json!({
            "container_id": container.container_id.value,
            "executor_id": container.executor_id.as_ref().map(|id| &id.value),
            "executor_name": container.executor_name,
            "framework_id": container.framework_id.as_ref().map(|id| &id.value),
        })
    };
    Value::Array(containers.iter().map(describe).collect())
}
