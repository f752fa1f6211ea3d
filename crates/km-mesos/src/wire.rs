//! What the master's and the agent's HTTP endpoints have in common: bodies in JSON or protobuf (of requests by
//! `Content-Type`, of answers by `Accept`), paths, plain answers.
//!
//! Check order and texts are those of Apache Mesos 1.11.

use axum::body::Body;
use http::{HeaderMap, Response, StatusCode, header};
use km_mesos_proto::{
    Message, decode_checked,
    json::{self, JsonError},
};

/// A refused request's answer.
pub(crate) type Refusal = Box<Response<Body>>;

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

impl Encoding {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => PROTOBUF,
        }
    }

    pub fn encode<M: Message>(self, message: &M) -> Vec<u8> {
        match self {
            Self::Json => json::to_vec(message),
            Self::Protobuf => message.encode_to_vec(),
        }
    }

    /// The encoding of an answer: JSON if that is acceptable, else protobuf, else 406.
    pub fn accepted(headers: &HeaderMap) -> Result<Self, Refusal> {
        let values = values(headers, header::ACCEPT);
        if values.is_empty() || accepts(&values, JSON) {
            return Ok(Self::Json);
        }
        if accepts(&values, PROTOBUF) {
            return Ok(Self::Protobuf);
        }
        Err(refuse(StatusCode::NOT_ACCEPTABLE, format!("Expecting 'Accept' to allow '{PROTOBUF}' or '{JSON}'")))
    }
}

/// All values of a header.
pub(crate) fn values(headers: &HeaderMap, name: impl header::AsHeaderName) -> Vec<&str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
}

/// Whether any range of an `Accept` header takes the media type.
pub(crate) fn accepts(values: &[&str], media: &str) -> bool {
    let ranges = values.iter().flat_map(|value| value.split(','));
    ranges.into_iter().any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let refused = parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        !refused && (kind == media || kind == "*/*" || kind == "application/*")
    })
}

/// Reads a request's message; the error is the answer. Content types are compared whole: parameters are refused.
pub(crate) fn parse<M: Message>(headers: &HeaderMap, body: &[u8]) -> Result<M, Refusal> {
    let bad = |reason: String| refuse(StatusCode::BAD_REQUEST, reason);
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return Err(bad("Expecting 'Content-Type' to be present".to_owned()));
    };
    match kind.as_bytes() {
        kind if kind == JSON.as_bytes() => json::from_slice(body).map_err(|error| bad(json_refusal(&error))),
        kind if kind == PROTOBUF.as_bytes() => {
            decode_checked(body).map_err(|error| bad(format!("Failed to parse body into Call protobuf: {error}")))
        }
        _ => {
            Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("Expecting 'Content-Type' of {JSON} or {PROTOBUF}")))
        }
    }
}

/// Text that is no JSON is told from JSON that is no call.
fn json_refusal(error: &JsonError) -> String {
    match error {
        JsonError::Syntax(error) => format!("Failed to parse body into JSON: {error}"),
        other => format!("Failed to convert JSON into Call protobuf: {other}"),
    }
}

/// A plain text answer as an error.
pub(crate) fn refuse(status: StatusCode, reason: impl Into<String>) -> Refusal {
    Box::new(text(status, reason))
}

/// A plain text answer.
pub(crate) fn text(status: StatusCode, reason: impl Into<String>) -> Response<Body> {
    answer(status, "text/plain; charset=utf-8", reason.into().into_bytes())
}

/// An answer with a body. An empty one says so by its length, as clients with kept connections need it.
pub(crate) fn answer(status: StatusCode, content_type: &str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    if let Ok(value) = header::HeaderValue::from_str(content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_LENGTH, header::HeaderValue::from_static("0"));
    response
}

/// 405 with the method that would be right.
pub(crate) fn only(method: &'static str, used: &http::Method) -> Response<Body> {
    let reason = format!("405 Method Not Allowed. Expecting one of {{ '{method}' }}, but received '{used}'.");
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, reason);
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(method));
    response
}

/// One message as an answer.
pub(crate) fn message<M: Message>(encoding: Encoding, message: &M) -> Response<Body> {
    answer(StatusCode::OK, encoding.content_type(), encoding.encode(message))
}

/// The candidates for an endpoint's name, longest first: without the process id (`/master/…`, `/slave(1)/…`), without
/// a trailing slash, then shorter and shorter, as libprocess does.
pub(crate) fn candidates<'a>(path: &'a str, process: &str) -> impl Iterator<Item = &'a str> {
    let whole = path.trim_end_matches('/');
    let own = whole.strip_prefix('/').and_then(|rest| rest.strip_prefix(process));
    let path = own.filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or(whole);
    std::iter::successors(Some(path), |path| path.rfind('/').map(|end| &path[..end])).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, header::HeaderValue::from_str(accept).unwrap())])
    }

    #[test]
    fn json_wins_when_it_is_acceptable() {
        assert_eq!(Encoding::accepted(&HeaderMap::new()).unwrap(), Encoding::Json);
        for accept in ["*/*", "application/json", "application/x-protobuf, application/*", "text/html, */*;q=0.8"] {
            assert_eq!(Encoding::accepted(&headers(accept)).unwrap(), Encoding::Json, "{accept}");
        }
        for accept in ["application/x-protobuf", "application/json;q=0, application/x-protobuf"] {
            assert_eq!(Encoding::accepted(&headers(accept)).unwrap(), Encoding::Protobuf, "{accept}");
        }
        for accept in ["foo", "text/html", "application/json;q=0"] {
            assert_eq!(
                Encoding::accepted(&headers(accept)).unwrap_err().status(),
                StatusCode::NOT_ACCEPTABLE,
                "{accept}"
            );
        }
    }

    #[test]
    fn endpoints_are_found_by_their_longest_prefix() {
        let all = |path| candidates(path, "slave(1)").collect::<Vec<_>>();
        assert_eq!(all("/slave(1)/api/v1/"), ["/api/v1", "/api"]);
        assert_eq!(all("/api/v1/executor"), ["/api/v1/executor", "/api/v1", "/api"]);
        assert_eq!(all("/slave(1)"), Vec::<&str>::new());
        assert_eq!(all("/slave(1)x/y"), ["/slave(1)x/y", "/slave(1)x"]);
    }
}
