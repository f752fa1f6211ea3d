//! Errors as clients expect them: a `Status` object with a reason that programs read and a message for people.

use axum::body::Body;
use http::{Response, StatusCode, header};
use km_store::StoreError;
use serde_json::{Value, json};

use crate::registry::Kind;

/// A refusal or failure, on its way to the client.
#[derive(Debug)]
pub struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
}

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null }
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        let mut details = json!({ "kind": kind.plural });
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !kind.group.is_empty() {
            details["group"] = kind.group.into();
        }
        self.details = details;
        self
    }

    fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        if !self.details.is_object() {
            self.details = json!({});
        }
        let mut cause = json!({ "reason": reason, "message": message });
        if !field.is_empty() {
            cause["field"] = field.into();
        }
        match self.details["causes"].as_array_mut() {
            Some(causes) => causes.push(cause),
            None => self.details["causes"] = json!([cause]),
        }
        self
    }

    fn retry_after(mut self, seconds: u64) -> Self {
        if !self.details.is_object() {
            self.details = json!({});
        }
        self.details["retryAfterSeconds"] = seconds.into();
        self
    }

    pub fn code(&self) -> StatusCode {
        self.code
    }

    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.qualified());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(kind, name)
    }

    pub fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = format!("namespace {namespace} is being terminated");
        Self::forbidden(kind, name, &why).with_cause("NamespaceTerminating", &cause, "metadata.namespace")
    }

    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(kind, name)
    }

    /// Its details are empty, but there: kubectl reads them without looking.
    pub fn no_such_path() -> Self {
        let mut failure =
            Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource");
        failure.details = json!({});
        failure
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub fn not_yet(what: &str) -> Self {
        let message = format!("{what} is not served by the embedded API server yet");
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(kind, name)
    }

    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(kind, name)
    }

    /// The resource version that came with the request is not the stored one.
    pub fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// A list that cannot be continued at its own version, with the token that continues it at the latest.
    pub fn expired_continue(token: String) -> (Self, String) {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start \
                       a new list without the continue parameter, or use the continue token in this response to \
                       retrieve the remainder of the results. Continuing with the provided token results in an \
                       inconsistent list - objects that were created, modified, or deleted between the time the \
                       first chunk was returned and now may show up in the list.";
        (Self::expired(message), token)
    }

    pub fn future_version(requested: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {requested}, current: {current}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
            .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
            .retry_after(1)
    }

    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// Each problem: reason (`FieldValueInvalid`…), message and field.
    pub fn invalid(kind: &Kind, name: &str, problems: &[(String, String, String)]) -> Self {
        let texts: Vec<String> = problems.iter().map(|(_, message, field)| format!("{field}: {message}")).collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified =
            if kind.group.is_empty() { kind.kind.to_owned() } else { format!("{}.{}", kind.kind, kind.group) };
        let message = format!("{qualified} \"{name}\" is invalid: {list}");
        let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(kind, name);
        failure.details["kind"] = kind.kind.into();
        for (reason, message, field) in problems {
            failure = failure.with_cause(reason, message, field);
        }
        failure
    }

    /// As [`Failure::invalid`] for one field value.
    pub fn invalid_value(kind: &Kind, name: &str, field: &str, value: &str, why: &str) -> Self {
        let message = format!("Invalid value: {value}: {why}");
        Self::invalid(kind, name, &[("FieldValueInvalid".to_owned(), message, field.to_owned())])
    }

    /// A request parameter combination that the API forbids.
    pub fn invalid_options(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    pub fn too_many_requests(message: impl Into<String>, cause: (&str, &str)) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).with_cause(cause.0, cause.1, "")
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", format!("Internal error occurred: {message}"))
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message).retry_after(1)
    }

    /// What a failed store operation on an object means to the client.
    pub fn from_store(error: StoreError, kind: &Kind, name: &str) -> Self {
        match error {
            StoreError::AlreadyExists => Self::already_exists(kind, name),
            StoreError::NotFound => Self::not_found(kind, name),
            StoreError::Conflict { .. } => Self::modified(kind, name),
            StoreError::Compacted { .. } => Self::expired(error.to_string()),
            StoreError::Future { requested, current } => Self::future_version(requested, current),
            StoreError::Closed => Self::unavailable("the server is shutting down"),
            StoreError::Unstorable(_) => Self::bad_request(error.to_string()),
            StoreError::Full { .. } => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "InternalError", error.to_string()).about(kind, name)
            }
            StoreError::InUse { .. } | StoreError::Damaged { .. } | StoreError::Io { .. } => Self::internal(error),
        }
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    /// The whole response.
    pub fn response(&self) -> Response<Body> {
        respond_status(self.code, &self.status())
    }
}

/// A response with a `Status` object.
pub fn respond_status(code: StatusCode, status: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    if let Some(seconds) = status.pointer("/details/retryAfterSeconds").and_then(Value::as_u64) {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
    }
    response
}
