//! Containers: a process in a session of its own, with a sandbox, and everything it starts.
//!
//! Processes are not bound to the agent's life: they go on when it dies, and the next agent finds them by the records
//! kept here (process id and start time, so that a reused id is not mistaken).

mod fetch;
mod processes;
mod records;
mod run;
mod sandbox;
mod spawn;

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use anyhow::Context;
use km_mesos_core::agent::{Event, Launch};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use processes::Tree;
use records::{Record, Records};

/// All containers of an agent.
pub(super) struct Containers {
    world: Arc<World>,
    running: HashMap<String, Handle>,
}

/// What every container's task needs.
struct World {
    records: Records,
    cache: PathBuf,
    events: UnboundedSender<Event>,
}

struct Handle {
    sandbox: String,
    destroy: CancellationToken,
}

impl Containers {
    /// `records` is the directory of the containers' records, `cache` that of cached downloads.
    pub fn new(records: PathBuf, cache: Option<PathBuf>, events: UnboundedSender<Event>) -> Self {
        let cache = cache.unwrap_or_else(|| records.with_file_name("fetch"));
        let world = Arc::new(World { records: Records::new(records), cache, events });
        Self { world, running: HashMap::new() }
    }

    /// Takes over what an earlier agent started: those expected go on, all others are ended. Returns the expected ones
    /// that are gone.
    pub async fn recover(&mut self, expected: &[String]) -> anyhow::Result<Vec<String>> {
        let mut gone: Vec<String> = expected.to_vec();
        for (container, record) in self.world.records.read().context("cannot read the containers' records")? {
            let wanted = expected.contains(&container) && record.is_alive();
            if wanted {
                gone.retain(|name| *name != container);
                self.adopt(container, record);
            } else {
                Tree::of(&record.sandbox, record.is_alive().then_some(record.pid)).kill().await;
                self.world.records.remove(&container);
            }
        }
        Ok(gone)
    }

    fn adopt(&mut self, container: String, record: Record) {
        let destroy = CancellationToken::new();
        let handle = Handle { sandbox: record.sandbox.clone(), destroy: destroy.clone() };
        self.running.insert(container.clone(), handle);
        tokio::spawn(run::watch(self.world.clone(), container, record, destroy));
    }

    pub fn launch(&mut self, launch: Launch) {
        self.running.retain(|_, handle| !handle.destroy.is_cancelled());
        let destroy = CancellationToken::new();
        let handle = Handle { sandbox: launch.sandbox.clone(), destroy: destroy.clone() };
        self.running.insert(launch.container.clone(), handle);
        tokio::spawn(run::run(self.world.clone(), launch, destroy));
    }

    /// SIGTERM to all of the container's processes.
    pub fn signal(&self, container: &str) {
        let Some(handle) = self.running.get(container) else { return };
        let record = self.world.records.get(container);
        Tree::of(&handle.sandbox, record.map(|record| record.pid)).terminate();
    }

    pub fn destroy(&mut self, container: &str) {
        if let Some(handle) = self.running.get(container) {
            handle.destroy.cancel();
        }
    }
}
