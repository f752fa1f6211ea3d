//! What controllers want done, and what came of it.

use super::Resource;
use serde_json::Value;

/// One call to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// POST of an object.
    Create { resource: Resource, namespace: String, object: Value },
    /// PUT of an object or subresource; its resourceVersion guards against overwriting.
    Replace { resource: Resource, namespace: String, name: String, subresource: Option<&'static str>, object: Value },
    /// Merge patch. With `metadata.uid` or `metadata.resourceVersion` in it the API refuses it for another object.
    Patch { resource: Resource, namespace: String, name: String, subresource: Option<&'static str>, patch: Value },
    /// DELETE with the uid as precondition.
    Delete { resource: Resource, namespace: String, name: String, uid: String, propagation: Option<&'static str> },
    /// GET: whether the object with this uid is still there.
    Get { resource: Resource, namespace: String, name: String, uid: String },
    /// All objects of a namespace, from the API server itself.
    List { resource: Resource, namespace: String },
}

impl Action {
    /// The HTTP verb, for logs and metrics.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Replace { .. } => "update",
            Self::Patch { .. } => "patch",
            Self::Delete { .. } => "delete",
            Self::Get { .. } => "get",
            Self::List { .. } => "list",
        }
    }

    #[must_use]
    pub fn resource(&self) -> &Resource {
        match self {
            Self::Create { resource, .. }
            | Self::Replace { resource, .. }
            | Self::Patch { resource, .. }
            | Self::Delete { resource, .. }
            | Self::Get { resource, .. }
            | Self::List { resource, .. } => resource,
        }
    }
}

/// What the API server said.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The object, or a Status, as the call returned it.
    Object(Value),
    /// The items of a list.
    Objects(Vec<Value>),
}

/// Why an action did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("not found")]
    NotFound,
    #[error("already exists")]
    AlreadyExists,
    /// Somebody else changed the object meanwhile.
    #[error("conflict")]
    Conflict,
    /// The API server refused: bad object, quota, terminating namespace.
    #[error("refused: {0}")]
    Refused(String),
    /// No answer in time, or a broken connection: it may have happened or not.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// An earlier action of the same plan failed.
    #[error("skipped after an earlier failure")]
    Skipped,
}

/// Result of one action.
pub type Outcome = Result<Answer, Failure>;
