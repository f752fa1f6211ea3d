//! `POST /api/v1`.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Response, StatusCode};
use km_mesos_core::master::{Answer, Body as AnswerBody, Event};
use km_mesos_proto::v1::master::{self, call::Type};

use super::{auth::Realm, routes::Call, scheduler_api::streaming, shell::Shell};
use crate::wire::{Encoding, Refusal, answer, empty, only, parse, refuse, text};

pub(super) fn serve(shell: &Arc<Shell>, call: Call) -> Response<Body> {
    judge(shell, call).unwrap_or_else(|refusal| *refusal)
}

fn judge(shell: &Arc<Shell>, request: Call) -> Result<Response<Body>, Refusal> {
    let headers = &request.parts.headers;
    let principal = shell.auth.principal(Realm::ReadWrite, headers)?;
    if request.parts.method != Method::POST {
        return Err(Box::new(only("POST", &request.parts.method)));
    }
    let call: master::Call = parse(headers, &request.body)?;
    if call.r#type.is_none() {
        return Err(refuse(StatusCode::BAD_REQUEST, "Failed to validate master::Call: Expecting 'type' to be present"));
    }
    let encoding = Encoding::accepted(headers)?;
    if call.r#type() == Type::Subscribe {
        let connection = shell.new_connection();
        let body = shell.streams.open(shell, connection, encoding, String::new());
        shell.handle(Event::OperatorSubscribe { connection });
        return Ok(streaming(body, encoding.content_type()));
    }
    let event = Event::OperatorCall { principal, call: Box::new(call) };
    Ok(to_response(shell.handle(event), encoding))
}

/// The core's answer over HTTP.
pub(super) fn to_response(given: Option<Answer>, encoding: Encoding) -> Response<Body> {
    let Some(given) = given else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "The master gave no answer");
    };
    let status = StatusCode::from_u16(given.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match given.body {
        AnswerBody::Empty => empty(status),
        AnswerBody::Text(reason) => text(status, reason),
        AnswerBody::Response(response) => answer(status, encoding.content_type(), encoding.encode(&*response)),
    }
}
