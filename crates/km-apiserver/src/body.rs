//! Request bodies: reading, decoding, and checking them against the kind's schema.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use crate::{failure::Failure, protobuf, query::FieldValidation, registry::Kind};

/// As large as the stock server takes.
pub const LIMIT: usize = 3 << 20;
/// A client that sends more slowly than this is cut off.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// A decoded body and what was odd about it.
pub struct Decoded {
    pub value: Value,
    /// Messages as in `strict decoding error: …`.
    pub problems: Vec<String>,
}

/// Reads a body to its end.
pub async fn read(body: Body) -> Result<Bytes, Failure> {
    let collected = tokio::time::timeout(PATIENCE, Limited::new(body, LIMIT).collect()).await;
    match collected {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::too_large(LIMIT)),
        Ok(Err(error)) => Err(Failure::bad_request(format!("cannot read the request's body: {error}"))),
        Err(_) => Err(Failure::bad_request("the request's body did not arrive in time")),
    }
}

/// The content type without parameters.
pub fn content_type(headers: &HeaderMap) -> &str {
    let whole = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    whole.split(';').next().unwrap_or_default().trim()
}

/// Decodes an object sent as JSON, YAML or protobuf.
pub fn decode(headers: &HeaderMap, body: &[u8]) -> Result<Decoded, Failure> {
    match content_type(headers) {
        "" | "application/json" | "*/*" => decode_json(body),
        "application/yaml" | "application/x-yaml" | "text/yaml" => decode_yaml(body),
        "application/vnd.kubernetes.protobuf" => {
            let value = protobuf::decode(body).map_err(|error| Failure::bad_request(error.to_string()))?;
            Ok(Decoded { value, problems: Vec::new() })
        }
        _ => Err(Failure::unsupported_media_type(
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Decodes JSON, noting duplicate keys.
pub fn decode_json(body: &[u8]) -> Result<Decoded, Failure> {
    let value = serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("couldn't get version/kind; json parse error: {error}")))?;
    let problems = km_kube::schema::duplicate_fields(body);
    Ok(Decoded { value, problems })
}

fn decode_yaml(body: &[u8]) -> Result<Decoded, Failure> {
    let text = std::str::from_utf8(body).map_err(|_| Failure::bad_request("the body is no UTF-8"))?;
    let value = serde_saphyr::from_str(text)
        .map_err(|error| Failure::bad_request(format!("yaml: cannot decode the body: {error}")))?;
    Ok(Decoded { value, problems: Vec::new() })
}

/// Checks that the object is of this kind and fills in kind and version where the body leaves them out.
pub fn expect_kind(kind: (&str, &str), value: &mut Value) -> Result<(), Failure> {
    let Some(object) = value.as_object_mut() else {
        return Err(Failure::bad_request("the body must be a JSON object"));
    };
    let (api_version, name) = kind;
    let found_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or(api_version);
    let found_kind = object.get("kind").and_then(Value::as_str).unwrap_or(name);
    if found_version != api_version {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({found_version}) does not match the expected API version ({api_version})"
        )));
    }
    if found_kind != name {
        return Err(Failure::bad_request(format!(
            "the kind in the data ({found_kind}) does not match the expected kind ({name})"
        )));
    }
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), name.into());
    Ok(())
}

/// Checks an object against the schema of its kind and removes what the schema doesn't know.
///
/// Returns warnings for the `Warning` header.
pub fn check_fields(
    kind: &Kind,
    value: &mut Value,
    mut problems: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, Failure> {
    if let Some(schema) = km_kube::schema::lookup(kind.group, kind.version, kind.kind) {
        let found = km_kube::schema::check(schema, value);
        if !found.wrong.is_empty() {
            return Err(Failure::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: {}",
                kind.kind,
                kind.version,
                kind.kind,
                found.wrong.join(", ")
            )));
        }
        if !found.unknown.is_empty() {
            km_kube::schema::prune(schema, value);
            problems.extend(found.unknown);
        }
    }
    match validation {
        FieldValidation::Strict if !problems.is_empty() => {
            Err(Failure::bad_request(format!("strict decoding error: {}", problems.join(", "))))
        }
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn | FieldValidation::Strict => Ok(problems),
    }
}
