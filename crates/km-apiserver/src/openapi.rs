//! `/openapi/v3`: the schemas, and the operations from which kubectl reads what the server can do.

use std::sync::OnceLock;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::{
    discovery::hash,
    failure::Failure,
    query::Query,
    registry::{self, KINDS, Kind},
    render,
};

/// The documents, each made when it is first asked for: most runs of a server never are.
#[derive(Default)]
pub struct Documents {
    made: OnceLock<Vec<Document>>,
}

struct Document {
    /// `api/v1`, `apis/apps/v1`.
    path: String,
    body: Bytes,
    hash: String,
}

impl Documents {
    /// Answers paths under `/openapi`; `None` for any other.
    pub fn respond(&self, path: &str, query: &Query, headers: &HeaderMap) -> Option<Response<Body>> {
        let rest = path.strip_prefix("/openapi/")?.trim_end_matches('/');
        if rest == "v3" {
            return Some(self.index());
        }
        if rest == "v2" {
            return Some(version_2(headers));
        }
        let found = rest.strip_prefix("v3/").and_then(|rest| self.documents().iter().find(|one| one.path == rest));
        let Some(document) = found else { return Some(Failure::no_such_path().response()) };
        let etag = format!("\"{}\"", document.hash);
        let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
        let mut response = render::json_response(StatusCode::OK, document.body.clone());
        if known {
            response = render::json_response(StatusCode::NOT_MODIFIED, Body::empty());
        }
        if let Ok(etag) = HeaderValue::from_str(&etag) {
            response.headers_mut().insert(header::ETAG, etag);
        }
        if query.get("hash") == Some(document.hash.as_str()) {
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        }
        Some(response)
    }

    fn index(&self) -> Response<Body> {
        let mut paths = Map::new();
        for document in self.documents() {
            let url = format!("/openapi/v3/{}?hash={}", document.path, document.hash);
            paths.insert(document.path.clone(), json!({ "serverRelativeURL": url }));
        }
        render::json_response(StatusCode::OK, json!({ "paths": paths }).to_string())
    }

    fn documents(&self) -> &[Document] {
        self.made.get_or_init(|| registry::group_versions().into_iter().map(document).collect())
    }
}

/// The second version holds no schemas: the third has them. kubectl asks for it about kinds that the third does not
/// know, and says that it knows no such kind, in place of a broken server, once it has read a document without it.
fn version_2(headers: &HeaderMap) -> Response<Body> {
    /// Field 1 (`swagger`) of `openapi.v2.Document`: the text `2.0`.
    const PROTOBUF: &[u8] = b"\x0a\x032.0";
    const PROTOBUF_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accept.contains("proto-openapi.spec.v2") {
        let info = json!({ "title": "Kubernetes", "version": km_observe::KUBERNETES_VERSION });
        return render::json_response(
            StatusCode::OK,
            json!({ "swagger": "2.0", "info": info, "paths": {} }).to_string(),
        );
    }
    let mut response = Response::new(Body::from(PROTOBUF));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROTOBUF_TYPE));
    response
}

fn document((group, version): (&'static str, &'static str)) -> Document {
    let mut whole = km_kube::schema::openapi_v3(group, version);
    let mut paths = Map::new();
    for kind in KINDS.iter().filter(|kind| kind.group == group && kind.version == version) {
        let (collection, object) = urls(kind);
        paths.insert(
            collection,
            json!({ "get": operation(kind, "list", false), "post": operation(kind, "post", true) }),
        );
        paths.insert(
            object,
            json!({
                "get": operation(kind, "get", false), "put": operation(kind, "put", true),
                "patch": operation(kind, "patch", true), "delete": operation(kind, "delete", false),
            }),
        );
    }
    whole["paths"] = paths.into();
    let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
    let body = Bytes::from(whole.to_string());
    let hash = hash(&body);
    Document { path, body, hash }
}

fn urls(kind: &Kind) -> (String, String) {
    let root =
        if kind.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}/{}", kind.group, kind.version) };
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", kind.plural);
    let object = format!("{collection}/{{name}}");
    (collection, object)
}

fn operation(kind: &Kind, action: &str, writes: bool) -> Value {
    let parameter = |name: &str, of: &str| json!({ "name": name, "in": "query", "schema": { "type": of } });
    let mut parameters = vec![parameter("pretty", "string")];
    if writes {
        parameters.push(parameter("dryRun", "string"));
        parameters.push(parameter("fieldManager", "string"));
        parameters.push(parameter("fieldValidation", "string"));
    }
    if action == "patch" {
        parameters.push(parameter("force", "boolean"));
    }
    json!({
        "operationId": format!("{action}{}{}{}", kind.group.replace('.', ""), kind.version, kind.kind),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": { "group": kind.group, "version": kind.version, "kind": kind.kind },
        "parameters": parameters,
        "responses": { "200": { "description": "OK" } },
    })
}
