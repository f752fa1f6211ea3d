//! Open event streams: each a queue of records behind a chunked HTTP answer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use km_mesos_core::master::{ConnectionId, Event};
use km_mesos_proto::{Message, recordio};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::shell::Shell;
use crate::wire::Encoding;

struct Stream {
    encoding: Encoding,
    /// Names the link in an agent's messages; empty for others.
    link_id: String,
    queue: UnboundedSender<Bytes>,
}

/// All open streams.
#[derive(Default)]
pub(super) struct Streams(Mutex<HashMap<ConnectionId, Stream>>);

impl Streams {
    fn all(&self) -> MutexGuard<'_, HashMap<ConnectionId, Stream>> {
        // Only inserts and removals happen under the lock, so it is whole even after a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to a stream. Nothing happens when it is closed.
    pub fn send<M: Message>(&self, connection: ConnectionId, message: &M) {
        if let Some(stream) = self.all().get(&connection) {
            stream.push(&stream.encoding.encode(message));
        }
    }

    /// As [`Self::send`], with ready bytes.
    pub fn send_record(&self, connection: ConnectionId, record: &[u8]) {
        if let Some(stream) = self.all().get(&connection) {
            stream.push(record);
        }
    }

    /// Ends a stream after all that was sent before.
    pub fn close(&self, connection: ConnectionId) {
        self.all().remove(&connection);
    }

    pub fn close_all(&self) {
        self.all().clear();
    }

    /// The connection of an agent's link.
    pub fn link(&self, link_id: &str) -> Option<ConnectionId> {
        let connection = ConnectionId(link_id.split('-').next()?.parse().ok()?);
        self.all().get(&connection).filter(|stream| stream.link_id == link_id).map(|_| connection)
    }

    /// Opens a stream. The body tells the core when the client is gone.
    pub fn open(&self, shell: &Arc<Shell>, connection: ConnectionId, encoding: Encoding, link_id: String) -> Body {
        let (queue, records) = unbounded_channel();
        self.all().insert(connection, Stream { encoding, link_id, queue });
        let reader = Reader { records, _guard: Guard { shell: Arc::downgrade(shell), connection } };
        Body::from_stream(stream::unfold(reader, |mut reader| async move {
            let record = reader.records.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(record), reader))
        }))
    }
}

impl Stream {
    fn push(&self, record: &[u8]) {
        // A closed queue means that the client is gone; its guard tells the core.
        let _closed = self.queue.send(recordio::encode(record));
    }
}

struct Reader {
    records: UnboundedReceiver<Bytes>,
    /// Held for its drop only.
    _guard: Guard,
}

/// Tells the core when the answer's body is dropped: its connection ended, from whichever side.
struct Guard {
    shell: Weak<Shell>,
    connection: ConnectionId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(shell) = self.shell.upgrade() {
            shell.streams.close(self.connection);
            shell.handle(Event::Disconnected { connection: self.connection });
        }
    }
}
