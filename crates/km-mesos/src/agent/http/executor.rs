//! `POST /api/v1/executor`.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use km_mesos_core::agent::Event;
use km_mesos_proto::v1::executor::{Call, call};
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::shared::Shared;
use crate::wire::{Encoding, Refusal, empty, parse, refuse};

pub(super) fn call(shared: &Arc<Shared>, headers: &HeaderMap, body: &[u8]) -> Response {
    take(shared, headers, body).unwrap_or_else(|refusal| *refusal)
}

fn take(shared: &Arc<Shared>, headers: &HeaderMap, body: &[u8]) -> Result<Response, Refusal> {
    let call: Call = parse(headers, body)?;
    let subscribes = call.r#type() == call::Type::Subscribe;
    // Apache Mesos validates before it looks at Accept, and looks at Accept before it looks for the executor.
    let checked = shared.core().check(&call);
    let invalid = |refusal: &km_mesos_core::agent::Refusal| refusal.message.starts_with("Failed to validate");
    let encoding = match &checked {
        Err(refusal) if invalid(refusal) => Encoding::Json,
        _ if subscribes => Encoding::accepted(headers)?,
        _ => Encoding::Json,
    };
    checked.map_err(|refusal| {
        refuse(StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST), refusal.message)
    })?;
    if subscribes {
        return Ok(subscribe(shared, call, encoding));
    }
    send(shared, Event::ExecutorCall(call))?;
    Ok(empty(StatusCode::ACCEPTED))
}

fn send(shared: &Shared, event: Event) -> Result<(), Refusal> {
    shared.events.send(event).map_err(|_| refuse(StatusCode::SERVICE_UNAVAILABLE, "Agent is ending"))
}

fn subscribe(shared: &Arc<Shared>, call: Call, encoding: Encoding) -> Response {
    let connection = shared.next_connection();
    let records = shared.streams.open(connection, encoding);
    let guard = Guard { shared: shared.clone(), connection };
    if let Err(refusal) = send(shared, Event::Subscribe { connection, call }) {
        return *refusal;
    }
    let body = Body::from_stream(stream::unfold((records, guard), next).map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, encoding.content_type())], body).into_response()
}

async fn next(
    (mut records, guard): (UnboundedReceiver<Bytes>, Guard),
) -> Option<(Bytes, (UnboundedReceiver<Bytes>, Guard))> {
    let record = records.recv().await?;
    Some((record, (records, guard)))
}

/// Tells the core when the stream is gone, for whatever reason.
struct Guard {
    shared: Arc<Shared>,
    connection: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.streams.close(self.connection);
        if self.shared.events.send(Event::StreamClosed { connection: self.connection }).is_err() {
            tracing::debug!("the agent has ended");
        }
    }
}
