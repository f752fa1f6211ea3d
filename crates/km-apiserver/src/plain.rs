//! Paths that are about the server and not about objects.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::{query::Query, registry, render, server::Server};

/// Whether a path may be read by anyone, so that load balancers and people without certificates can look.
pub fn is_public(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    matches!(path, "/version" | "/healthz" | "/livez" | "/readyz") || path.starts_with("/readyz/")
}

/// Answers a plain path; `None` for any other.
pub fn respond(server: &Server, path: &str, query: &Query) -> Option<Response<Body>> {
    let path = path.trim_end_matches('/');
    match path {
        "" => Some(root()),
        "/version" => Some(version()),
        "/healthz" | "/livez" => Some(alive(path, query)),
        "/readyz" => Some(ready(server, query)),
        "/metrics" => Some(metrics(server)),
        _ => {
            let check = path.strip_prefix("/readyz/")?;
            Some(match check {
                "ping" => text(StatusCode::OK, "ok".to_owned()),
                "store" => match server.writable() {
                    Ok(()) => text(StatusCode::OK, "ok".to_owned()),
                    Err(reason) => text(StatusCode::INTERNAL_SERVER_ERROR, reason),
                },
                _ => text(StatusCode::NOT_FOUND, format!("no such check: {check}")),
            })
        }
    }
}

/// Who answers is alive.
fn alive(path: &str, query: &Query) -> Response<Body> {
    let report = match query.flag("verbose") {
        true => format!("[+]ping ok\n{} check passed\n", path.trim_start_matches('/')),
        false => "ok".to_owned(),
    };
    text(StatusCode::OK, report)
}

fn ready(server: &Server, query: &Query) -> Response<Body> {
    let store = server.writable();
    let mut report = "[+]ping ok\n".to_owned();
    match &store {
        Ok(()) => report.push_str("[+]store ok\n"),
        Err(reason) => report.push_str(&format!("[-]store failed: {reason}\n")),
    }
    match store {
        Ok(()) if !query.flag("verbose") => text(StatusCode::OK, "ok".to_owned()),
        Ok(()) => text(StatusCode::OK, report + "readyz check passed\n"),
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, report + "readyz check failed\n"),
    }
}

fn root() -> Response<Body> {
    let mut paths: Vec<String> = ["/api", "/api/v1", "/apis"].map(str::to_owned).to_vec();
    for (group, version) in registry::group_versions() {
        if !group.is_empty() {
            paths.push(format!("/apis/{group}"));
            paths.push(format!("/apis/{group}/{version}"));
        }
    }
    paths.extend(
        ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
    );
    render::json_response(StatusCode::OK, json!({ "paths": paths }).to_string())
}

/// All fields are strings and all are there: some clients insist. The Kubernetes version is the one whose API is
/// served, the build metadata behind `+` names this project's own.
fn version() -> Response<Body> {
    let kubernetes = km_observe::KUBERNETES_VERSION;
    let mut numbers = kubernetes.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("0"));
    let document = json!({
        "major": major, "minor": minor,
        "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": minor,
        "gitVersion": format!("{kubernetes}+km.{}", km_observe::VERSION),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, platform()),
    });
    render::json_response(StatusCode::OK, document.to_string())
}

/// The architecture in Go's words.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn metrics(server: &Server) -> Response<Body> {
    match server.metrics.encode() {
        Ok(body) => {
            let mut response = text(StatusCode::OK, body);
            let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn text(code: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
