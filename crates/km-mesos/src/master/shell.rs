//! The core with its clock, its streams and its registry file.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use km_mesos_core::master::{Action, Answer, ConnectionId, Event, Master, RegistryChange};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{auth::Auth, flags::Flags, registry_file::RegistryFile, streams::Streams};

/// Everything that requests share.
pub(super) struct Shell {
    core: Mutex<Master>,
    pub streams: Streams,
    pub auth: Auth,
    registry: Option<Mutex<RegistryFile>>,
    wake: Notify,
    started: (Duration, Instant),
    next_connection: AtomicU64,
}

impl Shell {
    pub fn open(flags: &Flags, address: SocketAddr) -> anyhow::Result<Self> {
        let mut registry = flags.work_dir.as_deref().map(RegistryFile::open).transpose()?;
        let known = registry.as_ref().map(RegistryFile::read).transpose()?.unwrap_or_default();
        // A new id for each run: ids that it gives out then never repeat those of earlier runs.
        let config = flags.config(uuid::Uuid::new_v4().to_string(), address)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let core = Master::new(config, known, now);
        if let Some(file) = &mut registry {
            file.replace(&core.registry()).context("--work_dir: the registry can't be written")?;
        }
        Ok(Self {
            core: Mutex::new(core),
            streams: Streams::default(),
            auth: Auth::from_flags(flags)?,
            registry: registry.map(Mutex::new),
            wake: Notify::new(),
            started: (now, Instant::now()),
            next_connection: AtomicU64::new(1),
        })
    }

    /// Time since the epoch that never goes back.
    fn now(&self) -> Duration {
        self.started.0 + self.started.1.elapsed()
    }

    pub fn new_connection(&self) -> ConnectionId {
        ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed))
    }

    /// The core, for reading.
    pub fn core(&self) -> MutexGuard<'_, Master> {
        // A panic inside the core has been reported where it happened; its state is still the best there is.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the core handle an event and does what it says. Gives its answer when the event was a request.
    pub fn handle(&self, event: Event) -> Option<Answer> {
        // The lock is held until all is sent, so that every stream sees events in the core's order.
        let mut core = self.core();
        let before = core.next_deadline();
        let actions = core.handle(self.now(), event);
        let mut answer = None;
        for action in actions {
            match action {
                Action::Answer(given) => answer = Some(given),
                Action::ToScheduler { connection, event } => self.streams.send(connection, &*event),
                Action::ToOperator { connection, event } => self.streams.send(connection, &*event),
                Action::ToAgent { connection, message } => self.streams.send_record(connection, &message.to_record()),
                Action::Close(connection) => self.streams.close(connection),
                Action::Persist(change) => self.persist(&core, &change),
            }
        }
        if core.next_deadline() != before {
            self.wake.notify_one();
        }
        answer
    }

    fn persist(&self, core: &Master, change: &RegistryChange) {
        let Some(file) = &self.registry else { return };
        // What a panic left half written is found out by the next start.
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write(change, || core.registry()) {
            tracing::error!(%error, "the registry can't be written; a restart will not know its newest state");
        }
    }

    /// Wakes the core at its deadlines.
    pub async fn run_timers(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let due = self.core().next_deadline();
            let wait = due.map_or(Duration::from_secs(60), |due| due.saturating_sub(self.now()));
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.wake.notified() => {}
                () = tokio::time::sleep(wait) => {
                    self.handle(Event::Tick);
                }
            }
        }
    }
}
