//! Headers of operators' calls: some calls of Apache Mesos' agents stream their request or their answer, as RecordIO.

use axum::http::{HeaderMap, StatusCode, header};

use crate::wire::{Encoding, Refusal, accepts, refuse, values};

const RECORDIO: &str = "application/recordio";
const MESSAGE_CONTENT_TYPE: &str = "Message-Content-Type";
const MESSAGE_ACCEPT: &str = "Message-Accept";
const MESSAGES: [Encoding; 2] = [Encoding::Json, Encoding::Protobuf];

/// How the messages of a request are said to be written: only streams say it apart from the content type.
pub(super) fn check_request(headers: &HeaderMap) -> Result<(), Refusal> {
    let streams = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == RECORDIO.as_bytes());
    let kind = headers.get(MESSAGE_CONTENT_TYPE);
    let unsupported = |reason: &str| Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    match (streams, kind) {
        (true, None) => {
            Err(refuse(StatusCode::BAD_REQUEST, "Expecting 'Message-Content-Type' to be set for streaming requests"))
        }
        (true, Some(kind)) if !MESSAGES.iter().any(|known| kind.as_bytes() == known.content_type().as_bytes()) => {
            unsupported("Expecting 'Message-Content-Type' of application/json or application/x-protobuf")
        }
        (false, Some(_)) => unsupported("Expecting 'Message-Content-Type' to be not set for non-streaming requests"),
        _ => Ok(()),
    }
}

/// The encoding of the answer. None of the calls that are answered here streams.
pub(super) fn answer_encoding(headers: &HeaderMap, call: &str) -> Result<Encoding, Refusal> {
    let wanted = values(headers, header::ACCEPT);
    let refused = |reason: String| Err(refuse(StatusCode::NOT_ACCEPTABLE, reason));
    if let Some(encoding) = MESSAGES.into_iter().find(|known| accepts(&wanted, known.content_type())) {
        return Ok(encoding);
    }
    if wanted.is_empty() {
        return Ok(Encoding::Json);
    }
    if !accepts(&wanted, RECORDIO) {
        return refused(
            "Expecting 'Accept' to allow application/json or application/x-protobuf or application/recordio".to_owned(),
        );
    }
    let messages = values(headers, MESSAGE_ACCEPT);
    if !messages.is_empty() && !MESSAGES.iter().any(|known| accepts(&messages, known.content_type())) {
        return refused("Expecting 'Message-Accept' to allow application/json or application/x-protobuf".to_owned());
    }
    refused(format!("Streaming response is not supported for {call} call"))
}
