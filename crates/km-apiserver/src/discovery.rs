//! What is served, told in both forms: one document per group version, and all in one.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    registry::{self, KINDS, Kind},
    render,
};

/// The content type of the all-in-one form, which clients compare to the letter.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Answers a discovery path; `None` for any other.
pub fn respond(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let aggregated = wants_aggregated(headers);
    let document = match parts.as_slice() {
        ["api"] if aggregated => return Some(aggregated_response(true, headers)),
        ["apis"] if aggregated => return Some(aggregated_response(false, headers)),
        ["api"] => json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [],
        }),
        ["apis"] => json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups() }),
        ["api", version] => resources("", version)?,
        ["apis", group] => {
            let mut found = groups().into_iter().find(|one| one["name"] == *group)?;
            found["kind"] = "APIGroup".into();
            found["apiVersion"] = "v1".into();
            found
        }
        ["apis", group, version] => resources(group, version)?,
        _ => return None,
    };
    Some(render::json_response(StatusCode::OK, document.to_string()))
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|range| {
        let parameters: Vec<&str> = range.split(';').map(str::trim).collect();
        parameters.contains(&"as=APIGroupDiscoveryList") && parameters.contains(&"v=v2")
    })
}

fn aggregated_response(core: bool, headers: &HeaderMap) -> Response<Body> {
    let body = aggregated(core).to_string();
    let etag = format!("\"{}\"", hash(body.as_bytes()));
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let mut response = Response::new(if known { Body::empty() } else { Body::from(body) });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    response
}

/// The hex SHA-256 of a document, by which clients tell whether it changed.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02X}")).collect()
}

fn aggregated(core: bool) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for (group, version) in registry::group_versions().into_iter().filter(|(group, _)| group.is_empty() == core) {
        let resources: Vec<Value> = of(group, version).map(aggregated_resource).collect();
        let entry = json!({ "version": version, "freshness": "Current", "resources": resources });
        match items.iter_mut().find(|item| item["metadata"]["name"] == group) {
            Some(item) => {
                if let Some(versions) = item["versions"].as_array_mut() {
                    versions.push(entry);
                }
            }
            None => items.push(json!({
                "metadata": { "name": group, "creationTimestamp": null }, "versions": [entry],
            })),
        }
    }
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let group_version_kind =
        |(group, version, kind): (&str, &str, &str)| json!({ "group": group, "version": version, "kind": kind });
    let subresources: Vec<Value> = kind
        .subresources
        .iter()
        .map(|one| json!({ "subresource": one.name, "responseKind": group_version_kind(one.kind), "verbs": one.verbs }))
        .collect();
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": group_version_kind((kind.group, kind.version, kind.kind)),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": VERBS,
    });
    for (field, values) in [("shortNames", kind.short), ("categories", kind.categories)] {
        if !values.is_empty() {
            resource[field] = json!(values);
        }
    }
    if !subresources.is_empty() {
        resource["subresources"] = subresources.into();
    }
    resource
}

fn of<'a>(group: &'a str, version: &'a str) -> impl Iterator<Item = &'static Kind> + use<'a> {
    KINDS.iter().filter(move |kind| kind.group == group && kind.version == version)
}

fn groups() -> Vec<Value> {
    let named = registry::group_versions().into_iter().filter(|(group, _)| !group.is_empty());
    named
        .map(|(group, version)| {
            let entry = json!({ "groupVersion": format!("{group}/{version}"), "version": version });
            json!({ "name": group, "versions": [entry], "preferredVersion": entry })
        })
        .collect()
}

fn resources(group: &str, version: &str) -> Option<Value> {
    let mut list: Vec<Value> = Vec::new();
    for kind in of(group, version) {
        let mut resource = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
            "verbs": VERBS, "storageVersionHash": &hash(kind.storage.as_bytes())[..11],
        });
        for (field, values) in [("shortNames", kind.short), ("categories", kind.categories)] {
            if !values.is_empty() {
                resource[field] = json!(values);
            }
        }
        list.push(resource);
        for one in kind.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", kind.plural, one.name), "singularName": "", "namespaced": kind.namespaced,
                "kind": one.kind.2, "verbs": one.verbs,
            });
            if one.kind.0 != kind.group {
                entry["group"] = one.kind.0.into();
                entry["version"] = one.kind.1.into();
            }
            list.push(entry);
        }
    }
    if list.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list,
    }))
}
