//! `POST /api/v1/scheduler`, with the checks in the order of Apache Mesos.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use km_mesos_core::master::{Event, validation};
use km_mesos_proto::v1::scheduler::{self, call::Type};

use super::{auth::Realm, operator_api::to_response, routes::Call, shell::Shell};
use crate::wire::{Encoding, Refusal, only, parse, refuse};

const STREAM_ID: &str = "mesos-stream-id";

pub(super) fn serve(shell: &Arc<Shell>, call: Call) -> Response<Body> {
    judge(shell, call).unwrap_or_else(|refusal| *refusal)
}

fn judge(shell: &Arc<Shell>, request: Call) -> Result<Response<Body>, Refusal> {
    let headers = &request.parts.headers;
    let principal = shell.auth.principal(Realm::Scheduler, headers)?;
    if request.parts.method != Method::POST {
        return Err(Box::new(only("POST", &request.parts.method)));
    }
    let call: scheduler::Call = parse(headers, &request.body)?;
    validation::call::validate(&call)
        .map_err(|reason| refuse(StatusCode::BAD_REQUEST, format!("Failed to validate scheduler::Call: {reason}")))?;
    if call.r#type() == Type::Subscribe {
        return subscribe(shell, headers, principal, call);
    }
    if call.r#type() == Type::ReconcileOperations {
        Encoding::accepted(headers)?;
    }
    let stream_id = stream_id(headers);
    let event = Event::SchedulerCall { stream_id, principal, call: Box::new(call) };
    Ok(to_response(shell.handle(event), Encoding::Json))
}

fn subscribe(
    shell: &Arc<Shell>,
    headers: &HeaderMap,
    principal: Option<String>,
    call: scheduler::Call,
) -> Result<Response<Body>, Refusal> {
    let encoding = Encoding::accepted(headers)?;
    if stream_id(headers).is_some() {
        return Err(refuse(StatusCode::BAD_REQUEST, "Subscribe calls should not include the 'Mesos-Stream-Id' header"));
    }
    let Some(subscribe) = call.subscribe else {
        return Err(refuse(StatusCode::BAD_REQUEST, "Expecting 'subscribe' to be present"));
    };
    let named = subscribe.framework_info.principal.as_deref();
    if let (Some(principal), Some(named)) = (principal.as_deref(), named)
        && principal != named
    {
        let reason = format!(
            "Failed to validate scheduler::Call: Authenticated principal '{principal}' does not match principal '{named}' set in `FrameworkInfo`"
        );
        return Err(refuse(StatusCode::BAD_REQUEST, reason));
    }
    let connection = shell.new_connection();
    let stream_id = uuid::Uuid::new_v4().to_string();
    let body = shell.streams.open(shell, connection, encoding, String::new());
    let mut response = streaming(body, encoding.content_type());
    if let Ok(value) = HeaderValue::from_str(&stream_id) {
        response.headers_mut().insert(STREAM_ID, value);
    }
    let subscribe = Box::new(subscribe);
    shell.handle(Event::Subscribe { connection, stream_id, principal, subscribe });
    Ok(response)
}

fn stream_id(headers: &HeaderMap) -> Option<String> {
    headers.get(STREAM_ID).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// 200 with an endless body.
pub(super) fn streaming(body: Body, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
