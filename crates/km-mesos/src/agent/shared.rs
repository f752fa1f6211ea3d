//! What the agent's loop and its HTTP handlers share.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use km_mesos_core::agent::{Agent, Event};
use tokio::sync::mpsc::UnboundedSender;

use super::{Flags, clock::Clock, streams::Streams};

pub(super) struct Shared {
    core: Mutex<Agent>,
    pub events: UnboundedSender<Event>,
    pub streams: Streams,
    pub flags: Flags,
    pub work_dir: PathBuf,
    pub address: SocketAddr,
    pub clock: Clock,
    connections: AtomicU64,
}

impl Shared {
    pub fn new(
        core: Agent,
        events: UnboundedSender<Event>,
        flags: &Flags,
        work_dir: PathBuf,
        address: SocketAddr,
    ) -> Self {
        Self {
            core: Mutex::new(core),
            events,
            streams: Streams::default(),
            flags: flags.clone(),
            work_dir,
            address,
            clock: Clock::start(),
            connections: AtomicU64::new(1),
        }
    }

    /// The core. A handler that panicked while holding it left it whole: it only reads.
    pub fn core(&self) -> MutexGuard<'_, Agent> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }
}
