//! A stream of events over one response: RecordIO, decoding, and the watch over heartbeats.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, stream};
use km_mesos_proto::{Message, recordio::Decoder};
use reqwest::{Response, header::CONTENT_TYPE};
use tokio::time::timeout;

use crate::{Authority, ClientError, Encoding, http::failure};

/// After so many missed heartbeats the connection counts as dead.
pub(crate) const MAX_MISSED_HEARTBEATS: u32 = 5;

/// Events in order. The first error is also the end; dropping the stream closes its connection.
pub struct EventStream<E> {
    inner: Pin<Box<dyn Stream<Item = Result<E, ClientError>> + Send>>,
}

impl<E> Stream for EventStream<E> {
    type Item = Result<E, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.inner.as_mut().poll_next(context)
    }
}

impl<E> fmt::Debug for EventStream<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventStream")
    }
}

/// Reads events off a response.
pub(crate) struct Reader {
    server: Authority,
    response: Response,
    encoding: Encoding,
    decoder: Decoder,
    heartbeat: Option<Duration>,
}

impl Reader {
    /// `asked` is the encoding in which events come unless the response says otherwise.
    pub fn new(server: Authority, response: Response, asked: Encoding, max_record: usize) -> Result<Self, ClientError> {
        let encoding = match response.headers().get(CONTENT_TYPE) {
            None => asked,
            Some(value) => value.to_str().ok().and_then(Encoding::of_content_type).ok_or_else(|| {
                ClientError::Decode(format!("events come as {value:?}, expected {}", asked.content_type()))
            })?,
        };
        Ok(Self { server, response, encoding, decoder: Decoder::new(max_record), heartbeat: None })
    }

    /// From now on an event must come at least every few `interval`s.
    pub fn expect_heartbeats(&mut self, interval: Duration) {
        self.heartbeat = Some(interval);
    }

    pub async fn next<E: Message>(&mut self) -> Result<E, ClientError> {
        loop {
            if let Some(record) = self.decoder.next()? {
                return self.encoding.decode(&record);
            }
            let chunk = match self.heartbeat {
                None => self.response.chunk().await,
                Some(interval) => {
                    let silence = interval * MAX_MISSED_HEARTBEATS;
                    let missed = MAX_MISSED_HEARTBEATS;
                    let chunk = timeout(silence, self.response.chunk()).await;
                    chunk.map_err(|_| ClientError::HeartbeatsMissed { silence, missed })?
                }
            };
            match chunk {
                Ok(Some(chunk)) => self.decoder.push(&chunk),
                Ok(None) => return Err(ClientError::Closed),
                Err(error) => return Err(failure(&self.server, &error)),
            }
        }
    }

    /// All further events, after `first`.
    pub fn into_stream<E: Message + 'static>(self, first: Option<E>) -> EventStream<E> {
        let rest = stream::unfold(Some(self), |reader| async {
            let mut reader = reader?;
            match reader.next().await {
                Ok(event) => Some((Ok(event), Some(reader))),
                Err(error) => Some((Err(error), None)),
            }
        });
        EventStream { inner: Box::pin(futures::StreamExt::chain(stream::iter(first.map(Ok)), rest)) }
    }
}
