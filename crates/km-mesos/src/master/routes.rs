//! Paths as libprocess routes them: `/master/…` is an alias, a trailing slash is dropped, and of the rest the longest
//! known prefix wins.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State},
};
use http::{Response, StatusCode, header};
use km_mesos_core::{
    link::{CONNECT_PATH, MESSAGE_PATH},
    master::Page,
};

use super::{
    agent_api,
    forms::{self, Form},
    operator_api, pages, scheduler_api,
    shell::Shell,
};
use crate::wire::{candidates, empty, text};

/// Larger requests are refused.
const LARGEST_BODY: usize = 64 * 1024 * 1024;

/// A request whose body has been read.
pub(super) struct Call {
    pub parts: http::request::Parts,
    pub body: bytes::Bytes,
    pub peer: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Scheduler,
    Operator,
    AgentLink,
    AgentMessage,
    Health,
    Redirect,
    Form(Form),
    Page(Page),
}

pub(super) fn service(shell: Arc<Shell>) -> Router {
    Router::new().fallback(route).with_state(shell)
}

async fn route(
    State(shell): State<Arc<Shell>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Some(endpoint) = find(parts.uri.path()) else {
        return text(StatusCode::NOT_FOUND, "");
    };
    let body = match to_bytes(body, LARGEST_BODY).await {
        Ok(body) => body,
        Err(error) => return text(StatusCode::BAD_REQUEST, format!("Failed to read the request's body: {error}")),
    };
    let call = Call { parts, body, peer };
    match endpoint {
        Endpoint::Scheduler => scheduler_api::serve(&shell, call),
        Endpoint::Operator => operator_api::serve(&shell, call),
        Endpoint::AgentLink => agent_api::connect(&shell, call),
        Endpoint::AgentMessage => agent_api::message(&shell, call),
        Endpoint::Health => empty(StatusCode::OK),
        Endpoint::Redirect => redirect(&shell),
        Endpoint::Form(form) => forms::serve(&shell, &call, form),
        Endpoint::Page(page) => {
            let written = if page == Page::Weights { forms::weights(&shell, &call) } else { None };
            written.unwrap_or_else(|| pages::serve(&shell, &call, page))
        }
    }
}

fn find(path: &str) -> Option<Endpoint> {
    let mut all = candidates(path, "master").map(|path| path.trim_start_matches('/'));
    // The redirection is no part of the master's own paths, so nothing below it is.
    let first = all.next()?;
    if first == "redirect" {
        return Some(Endpoint::Redirect);
    }
    exact(first).or_else(|| all.find_map(exact))
}

fn exact(path: &str) -> Option<Endpoint> {
    match path {
        "api/v1/scheduler" => Some(Endpoint::Scheduler),
        "api/v1" => Some(Endpoint::Operator),
        "health" => Some(Endpoint::Health),
        _ if CONNECT_PATH.strip_prefix('/') == Some(path) => Some(Endpoint::AgentLink),
        _ if MESSAGE_PATH.strip_prefix('/') == Some(path) => Some(Endpoint::AgentMessage),
        _ => Form::of(path).map(Endpoint::Form).or_else(|| Page::of(path).map(Endpoint::Page)),
    }
}

/// To the leading master, which is this one.
fn redirect(shell: &Shell) -> Response<Body> {
    let core = shell.core();
    let info = &core.config().info;
    let host = info.hostname.clone().unwrap_or_default();
    let mut response = empty(StatusCode::TEMPORARY_REDIRECT);
    if let Ok(location) = header::HeaderValue::from_str(&format!("//{host}:{}", info.port)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The parameters of a query or a form.
pub(super) fn parameters(encoded: &str) -> BTreeMap<String, String> {
    let pairs = encoded.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while let Some(byte) = bytes.get(place) {
        let hex = bytes.get(place + 1..place + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                plain.push(value);
                place += 3;
                continue;
            }
            (b'+', _) => plain.push(b' '),
            (other, _) => plain.push(*other),
        }
        place += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_alias_trailing_slash_and_longest_prefix() {
        let cases = [
            ("/api/v1/scheduler", Some(Endpoint::Scheduler)),
            ("/api/v1", Some(Endpoint::Operator)),
            ("/api/v1/", Some(Endpoint::Operator)),
            ("/api/v1/operator", Some(Endpoint::Operator)),
            ("/master/api/v1", Some(Endpoint::Operator)),
            ("/master/frameworks/", Some(Endpoint::Page(Page::Frameworks))),
            ("/slaves", Some(Endpoint::Page(Page::Slaves))),
            ("/metrics/snapshot", Some(Endpoint::Page(Page::Metrics))),
            ("/redirect", Some(Endpoint::Redirect)),
            ("/master/redirect", Some(Endpoint::Redirect)),
            ("/redirect/x", None),
            ("/nothing", None),
            ("/", None),
        ];
        for (path, expected) in cases {
            assert_eq!(find(path), expected, "{path}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let all = parameters("task_id=a%20b&order=asc&x=1+2&flag");
        assert_eq!(all["task_id"], "a b");
        assert_eq!(all["order"], "asc");
        assert_eq!(all["x"], "1 2");
        assert_eq!(all["flag"], "");
    }
}
