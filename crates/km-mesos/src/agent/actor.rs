//! The agent's loop: events to the core, actions to the world.

use std::{sync::Arc, time::Duration};

use anyhow::bail;
use km_mesos_core::agent::{Action, Event};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::{
    checkpoints::{Change, Checkpoints},
    containers::Containers,
    link::Link,
    shared::Shared,
    volumes,
};

/// How many events are taken in one go, so that their checkpoints are written together.
const BATCH: usize = 256;
/// How often a failed write is tried, and how long between.
const WRITE_ATTEMPTS: u32 = 3;
const WRITE_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Actor {
    shared: Arc<Shared>,
    events: UnboundedReceiver<Event>,
    link: Link,
    containers: Containers,
    checkpoints: Checkpoints,
}

impl Actor {
    pub fn new(
        shared: Arc<Shared>,
        events: UnboundedReceiver<Event>,
        link: Link,
        containers: Containers,
        checkpoints: Checkpoints,
    ) -> Self {
        Self { shared, events, link, containers, checkpoints }
    }

    /// Runs until the agent has ended. It is an error when that was not `stop`'s wish.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut told_to_stop = false;
        loop {
            let event = tokio::select! {
                event = self.events.recv() => event.unwrap_or(Event::Tick),
                () = deadline(&self.shared) => Event::Tick,
                () = stop.cancelled(), if !told_to_stop => {
                    told_to_stop = true;
                    Event::Shutdown
                }
            };
            if let Some(reason) = self.take_in(event).await {
                self.link.flush().await;
                if told_to_stop {
                    return Ok(());
                }
                bail!(reason);
            }
        }
    }

    /// Handles an event and those that wait behind it. Returns the reason when the agent has ended.
    async fn take_in(&mut self, first: Event) -> Option<String> {
        let mut actions = self.handle(first);
        for _ in 0..BATCH {
            let Ok(event) = self.events.try_recv() else { break };
            actions.extend(self.handle(event));
        }
        // Writing more first than was asked for is safe: nothing is told before it is durable.
        let mut changes = Vec::new();
        let mut others = Vec::new();
        for action in actions {
            match Change::of(action) {
                Ok(change) => changes.push(change),
                Err(action) => others.push(action),
            }
        }
        if !changes.is_empty() {
            self.write(changes).await;
        }
        for action in others {
            if let Action::End { reason } = action {
                return Some(reason);
            }
            self.perform(action);
        }
        None
    }

    fn handle(&self, event: Event) -> Vec<Action> {
        self.shared.core().handle(self.shared.clock.now(), event)
    }

    async fn write(&self, changes: Vec<Change>) {
        let changes: Arc<[Change]> = changes.into();
        for attempt in 1..=WRITE_ATTEMPTS {
            let (checkpoints, batch) = (self.checkpoints.clone(), changes.clone());
            match tokio::task::spawn_blocking(move || checkpoints.apply(&batch)).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => tracing::error!(%error, attempt, "cannot write the agent's checkpoints"),
                Err(error) => tracing::error!(%error, attempt, "cannot write the agent's checkpoints"),
            }
            tokio::time::sleep(WRITE_PAUSE).await;
        }
        tracing::error!("going on without checkpoints: a restart of the agent may lose tasks");
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Connect { link, register } => self.link.connect(link, *register),
            Action::Disconnect => self.link.disconnect(),
            Action::Send(message) => self.link.send(*message),
            Action::SendEvent { connection, event } => self.shared.streams.send(connection, &event),
            Action::CloseStream { connection } => self.shared.streams.close(connection),
            Action::Launch(launch) => self.containers.launch(*launch),
            Action::MakeVolume { path } => volumes::make(&path),
            Action::ClearVolume { path } => volumes::clear(&path),
            Action::LinkVolume(mount) => volumes::link(&mount),
            Action::UnlinkVolume { link } => volumes::unlink(&link),
            Action::Signal { container } => self.containers.signal(&container),
            Action::Destroy { container } => self.containers.destroy(&container),
            // Taken out before, or handled by the caller.
            Action::Write { .. } | Action::Remove { .. } | Action::End { .. } => {}
        }
    }
}

async fn deadline(shared: &Shared) {
    let deadline = shared.core().next_deadline();
    match deadline {
        Some(at) => tokio::time::sleep_until(shared.clock.instant(at)).await,
        None => std::future::pending().await,
    }
}
