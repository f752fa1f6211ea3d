//! The link of the embedded agents.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, Method, Response, StatusCode};
use km_mesos_core::{
    link::{AgentMessage, LINK_ID_HEADER},
    master::Event,
};

use super::{routes::Call, scheduler_api::streaming, shell::Shell};
use crate::wire::{Encoding, empty, only, text};

/// Opens a link: the body is the registration, the answer an endless stream of messages.
pub(super) fn connect(shell: &Arc<Shell>, request: Call) -> Response<Body> {
    if request.parts.method != Method::POST {
        return only("POST", &request.parts.method);
    }
    let message = match AgentMessage::from_record(&request.body) {
        Ok(message @ AgentMessage::Register { .. }) => message,
        Ok(_) => return text(StatusCode::BAD_REQUEST, "The first message of a link must be a registration"),
        Err(error) => return text(StatusCode::BAD_REQUEST, format!("The message can't be read: {error}")),
    };
    let connection = shell.new_connection();
    let link_id = format!("{}-{}", connection.0, uuid::Uuid::new_v4());
    let body = shell.streams.open(shell, connection, Encoding::Json, link_id.clone());
    let mut response = streaming(body, "application/json");
    if let Ok(value) = HeaderValue::from_str(&link_id) {
        response.headers_mut().insert(LINK_ID_HEADER, value);
    }
    let ip = request.peer.ip().to_string();
    shell.handle(Event::Agent { connection, ip, message: Box::new(message) });
    response
}

/// Any later message of a link.
pub(super) fn message(shell: &Arc<Shell>, request: Call) -> Response<Body> {
    if request.parts.method != Method::POST {
        return only("POST", &request.parts.method);
    }
    let link_id = request.parts.headers.get(LINK_ID_HEADER).and_then(|value| value.to_str().ok());
    let connection = link_id.and_then(|link_id| shell.streams.link(link_id));
    let Some(connection) = connection.filter(|connection| shell.core().is_agent_link(*connection)) else {
        return text(StatusCode::FORBIDDEN, "This is not the agent's current link");
    };
    match AgentMessage::from_record(&request.body) {
        Ok(AgentMessage::Register { .. }) => text(StatusCode::BAD_REQUEST, "A registration opens a new link"),
        Ok(message) => {
            let ip = request.peer.ip().to_string();
            shell.handle(Event::Agent { connection, ip, message: Box::new(message) });
            empty(StatusCode::ACCEPTED)
        }
        Err(error) => text(StatusCode::BAD_REQUEST, format!("The message can't be read: {error}")),
    }
}
