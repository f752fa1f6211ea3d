//! The open event streams of executors.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;
use km_mesos_proto::{recordio, v1::executor::Event};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::wire::Encoding;

#[derive(Default)]
pub(super) struct Streams {
    open: Mutex<HashMap<u64, (Encoding, UnboundedSender<Bytes>)>>,
}

impl Streams {
    /// Opens a stream; what is sent on it comes out framed.
    pub fn open(&self, connection: u64, encoding: Encoding) -> UnboundedReceiver<Bytes> {
        let (sender, receiver) = unbounded_channel();
        self.lock().insert(connection, (encoding, sender));
        receiver
    }

    /// Sends an event, if the stream is still open.
    pub fn send(&self, connection: u64, event: &Event) {
        let open = self.lock();
        let Some((encoding, sender)) = open.get(&connection) else { return };
        if sender.send(recordio::encode(&encoding.encode(event))).is_err() {
            tracing::debug!(connection, "the executor's stream is closed");
        }
    }

    /// Ends a stream after what was sent on it.
    pub fn close(&self, connection: u64) {
        self.lock().remove(&connection);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, (Encoding, UnboundedSender<Bytes>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
