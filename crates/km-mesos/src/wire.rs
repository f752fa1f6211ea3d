//! What the master's and the agent's HTTP endpoints have in common: bodies in JSON or protobuf, paths, plain errors.
//!
//! Check order and texts are those of Apache Mesos 1.11.

#![expect(clippy::result_large_err, reason = "a refusal is the HTTP answer itself")]

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use km_mesos_proto::{Message, decode_checked, json};

/// How a message is written in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/x-protobuf",
        }
    }

    pub fn encode<M: Message>(self, message: &M) -> Vec<u8> {
        match self {
            Self::Json => json::to_vec(message),
            Self::Protobuf => message.encode_to_vec(),
        }
    }
}

/// Reads a call by its Content-Type, which is compared exactly: case counts, and parameters are not allowed.
pub(crate) fn read_call<M: Message>(headers: &HeaderMap, body: &[u8]) -> Result<M, Response> {
    let Some(content_type) = headers.get(header::CONTENT_TYPE) else {
        return Err(plain(StatusCode::BAD_REQUEST, "Expecting 'Content-Type' to be present"));
    };
    let bad = |error: String| plain(StatusCode::BAD_REQUEST, error);
    match content_type.as_bytes() {
        b"application/json" => {
            json::from_slice(body).map_err(|error| bad(format!("Failed to convert JSON into Call protobuf: {error}")))
        }
        b"application/x-protobuf" => {
            decode_checked(body).map_err(|error| bad(format!("Failed to parse body into Call protobuf: {error}")))
        }
        _ => Err(plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Expecting 'Content-Type' of application/json or application/x-protobuf",
        )),
    }
}

/// The encoding of an answer by the Accept header: JSON when that is acceptable, else protobuf, else 406.
pub(crate) fn answer_encoding(headers: &HeaderMap) -> Result<Encoding, Response> {
    let Some(accept) = headers.get(header::ACCEPT) else { return Ok(Encoding::Json) };
    let accept = accept.to_str().unwrap_or_default();
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        if accepts(accept, encoding.content_type()) {
            return Ok(encoding);
        }
    }
    Err(plain(StatusCode::NOT_ACCEPTABLE, "Expecting 'Accept' to allow application/json or application/x-protobuf"))
}

fn accepts(accept: &str, content_type: &str) -> bool {
    let (kind, _) = content_type.split_once('/').unwrap_or((content_type, ""));
    accept.split(',').any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default();
        let refused = parts.filter_map(|part| part.strip_prefix("q=")).any(|q| q.parse() == Ok(0.0));
        let fits = range == content_type || range == "*/*" || range == format!("{kind}/*");
        fits && !refused
    })
}

/// A plain-text answer.
pub(crate) fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

/// 405, naming the one method that is allowed.
pub(crate) fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, format!("Expecting one of {{ '{allowed}' }}"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// One message as an answer.
pub(crate) fn message<M: Message>(encoding: Encoding, message: &M) -> Response {
    ([(header::CONTENT_TYPE, encoding.content_type())], Body::from(encoding.encode(message))).into_response()
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
        HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).unwrap())])
    }

    #[test]
    fn json_wins_when_it_is_acceptable() {
        assert_eq!(answer_encoding(&HeaderMap::new()).unwrap(), Encoding::Json);
        for accept in ["*/*", "application/json", "application/x-protobuf, application/*", "text/html, */*;q=0.8"] {
            assert_eq!(answer_encoding(&headers(accept)).unwrap(), Encoding::Json, "{accept}");
        }
        for accept in ["application/x-protobuf", "application/json;q=0, application/x-protobuf"] {
            assert_eq!(answer_encoding(&headers(accept)).unwrap(), Encoding::Protobuf, "{accept}");
        }
        for accept in ["foo", "text/html", "application/json;q=0"] {
            assert_eq!(answer_encoding(&headers(accept)).unwrap_err().status(), StatusCode::NOT_ACCEPTABLE, "{accept}");
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
