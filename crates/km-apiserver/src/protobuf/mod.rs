//! Request bodies in the Kubernetes protobuf encoding, turned into JSON.
//!
//! kubectl sends them for `create namespace`, `create deployment` and the like, and typed Go clients for all they
//! write. Answers are JSON, which these clients accept. A table of field numbers drives one generic decoder.

mod fields;
mod wire;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use fields::{Field, Of, Shape};
use wire::{Content, Fields};

/// Every body starts with this.
const MAGIC: &[u8] = b"k8s\0";
const DELETE_OPTIONS: &str = "apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// Messages nest at most so deep in any known type; more is an attack.
const DEEPEST: usize = 64;

/// Zero is different from "not given" for these, and in this encoding only the name can tell: fields that are no
/// pointers in the Go types are always sent.
const ZERO_COUNTS: [&str; 15] = [
    "activeDeadlineSeconds",
    "backoffLimit",
    "defaultMode",
    "expirationSeconds",
    "fsGroup",
    "gracePeriodSeconds",
    "mode",
    "priority",
    "progressDeadlineSeconds",
    "replicas",
    "revisionHistoryLimit",
    "runAsGroup",
    "runAsUser",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
];
/// The same for false.
const FALSE_COUNTS: [&str; 15] = [
    "allocateLoadBalancerNodePorts",
    "allowPrivilegeEscalation",
    "allowVolumeExpansion",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "hostUsers",
    "immutable",
    "optional",
    "orphanDependents",
    "privileged",
    "ready",
    "readOnlyRootFilesystem",
    "runAsNonRoot",
    "serving",
    "shareProcessNamespace",
];
/// The text for which empty means something else than absent: a claim that says so wants a volume without a class.
const EMPTY_COUNTS: &str = "storageClassName";

/// Why a body cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum ProtobufError {
    #[error("the body does not begin as Kubernetes protobuf does")]
    NoEnvelope,
    #[error("the body ends in the middle of a field or holds an unknown wire type")]
    Malformed,
    #[error("{kind} of {api_version} is not known in the protobuf encoding; send JSON")]
    UnknownKind { api_version: String, kind: String },
    #[error("the body nests too deep")]
    TooDeep,
}

/// Decodes a body to the JSON form of its object.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoEnvelope)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields::of(envelope) {
        match field? {
            (1, Content::Bytes(meta)) => {
                for field in Fields::of(meta) {
                    match field? {
                        (1, Content::Bytes(text)) => api_version = lossy(text),
                        (2, Content::Bytes(text)) => kind = lossy(text),
                        _ => {}
                    }
                }
            }
            (2, Content::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let type_name = type_name(&api_version, &kind);
    if fields::of(&type_name).is_none() {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    }
    let mut value = message(&type_name, raw, 0)?;
    if let Some(object) = value.as_object_mut() {
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
    }
    Ok(value)
}

/// `apps/v1`, `Deployment` to `api.apps.v1.Deployment`.
fn type_name(api_version: &str, kind: &str) -> String {
    // Clients send these under the version of what they delete.
    if kind == "DeleteOptions" {
        return DELETE_OPTIONS.to_owned();
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    format!("api.{}.{version}.{kind}", group.split('.').next().unwrap_or(group))
}

fn message(type_name: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    if depth > DEEPEST {
        return Err(ProtobufError::TooDeep);
    }
    match type_name.rsplit('.').next() {
        Some("Time" | "MicroTime") => return time(bytes),
        Some("Quantity") => return Ok(text_field(bytes, 1)?.map_or(Value::Null, Value::from)),
        Some("IntOrString") => return int_or_string(bytes),
        Some("RawExtension" | "FieldsV1") => {
            let text = text_field(bytes, 1)?.unwrap_or_default();
            return Ok(serde_json::from_str(&text).unwrap_or(Value::Null));
        }
        _ => {}
    }
    let mut object = Map::new();
    // A field of a newer API than this table knows is skipped.
    let Some(known) = fields::of(type_name) else { return Ok(Value::Object(object)) };
    for found in Fields::of(bytes) {
        let (number, content) = found?;
        let Some(field) = known.iter().find(|field| field.number == number) else { continue };
        put(&mut object, field, content, depth)?;
    }
    Ok(Value::Object(object))
}

fn put(
    object: &mut Map<String, Value>,
    field: &Field,
    content: Content<'_>,
    depth: usize,
) -> Result<(), ProtobufError> {
    match field.shape {
        Shape::List => {
            let item = value(&field.of, content, depth)?;
            if let Value::Array(list) = object.entry(&field.name).or_insert_with(|| json!([])) {
                list.push(item);
            }
        }
        Shape::Map => {
            let Content::Bytes(entry) = content else { return Err(ProtobufError::Malformed) };
            let (mut key, mut item) = (String::new(), empty(&field.of));
            for part in Fields::of(entry) {
                match part? {
                    (1, Content::Bytes(text)) => key = lossy(text),
                    (2, content) => item = value(&field.of, content, depth)?,
                    _ => {}
                }
            }
            if let Value::Object(map) = object.entry(&field.name).or_insert_with(|| json!({})) {
                map.insert(key, item);
            }
        }
        Shape::One => {
            let one = value(&field.of, content, depth)?;
            if field.name == "-" {
                if let Value::Object(inline) = one {
                    object.extend(inline);
                }
            } else if !is_absent(&field.name, &one) {
                object.insert(field.name.clone(), one);
            }
        }
    }
    Ok(())
}

fn value(of: &Of, content: Content<'_>, depth: usize) -> Result<Value, ProtobufError> {
    match (of, content) {
        (Of::Text, Content::Bytes(bytes)) => Ok(lossy(bytes).into()),
        (Of::Bytes, Content::Bytes(bytes)) => Ok(BASE64.encode(bytes).into()),
        // Negative numbers come as their 64-bit two's complement.
        (Of::Integer, Content::Number(number)) => Ok(number.cast_signed().into()),
        (Of::Flag, Content::Number(number)) => Ok((number != 0).into()),
        (Of::Double, Content::Fixed(bits)) => Ok(f64::from_bits(bits).into()),
        (Of::Message(name), Content::Bytes(bytes)) => message(name, bytes, depth + 1),
        _ => Err(ProtobufError::Malformed),
    }
}

/// The value of a map entry that leaves it out.
fn empty(of: &Of) -> Value {
    match of {
        Of::Text | Of::Bytes => "".into(),
        Of::Integer | Of::Double => 0.into(),
        Of::Flag => false.into(),
        Of::Message(_) => json!({}),
    }
}

fn is_absent(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && name != EMPTY_COUNTS,
        Value::Number(number) => number.as_i64() == Some(0) && !ZERO_COUNTS.contains(&name),
        Value::Bool(flag) => !flag && !FALSE_COUNTS.contains(&name),
        // A status that says nothing, as every new object is sent with.
        Value::Object(fields) => fields.is_empty() && matches!(name, "status" | "metadata" | "resources" | "strategy"),
        Value::Array(_) => false,
    }
}

fn time(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanos, mut given) = (0, 0, false);
    for field in Fields::of(bytes) {
        match field? {
            (1, Content::Number(number)) => (seconds, given) = (number.cast_signed(), true),
            (2, Content::Number(number)) => nanos = i32::try_from(number.cast_signed()).unwrap_or(0),
            _ => {}
        }
    }
    match Timestamp::new(seconds, nanos) {
        Ok(time) if given && nanos == 0 => Ok(crate::time::seconds(time).into()),
        Ok(time) if given => Ok(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into()),
        _ => Ok(Value::Null),
    }
}

/// Type 1 is the text. A number that was not given at all has no JSON form either.
fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in Fields::of(bytes) {
        match field? {
            (1, Content::Number(kind)) => is_text = kind == 1,
            (2, Content::Number(found)) => number = found.cast_signed(),
            (3, Content::Bytes(found)) => text = lossy(found),
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

fn text_field(bytes: &[u8], wanted: u32) -> Result<Option<String>, ProtobufError> {
    for field in Fields::of(bytes) {
        if let (number, Content::Bytes(text)) = field?
            && number == wanted
        {
            return Ok(Some(lossy(text)));
        }
    }
    Ok(None)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
