//! One container's life, as a task: prepare, fetch, start, wait, clean up.

use std::{os::unix::process::ExitStatusExt, sync::Arc, time::Duration};

use km_mesos_core::agent::{Event, Launch};
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

use super::{super::volumes, World, fetch, processes::Tree, records::Record, sandbox, spawn};

/// How often an adopted process, which is no child of this agent, is looked at.
const POLL: Duration = Duration::from_millis(200);

impl World {
    fn report(&self, event: Event) {
        if self.events.send(event).is_err() {
            tracing::debug!("the agent has ended");
        }
    }
}

pub(super) async fn run(world: Arc<World>, launch: Launch, destroy: CancellationToken) {
    let container = launch.container.clone();
    let prepared = tokio::select! {
        prepared = prepare(&world, &launch) => prepared,
        () = destroy.cancelled() => Err(anyhow::anyhow!("destroyed while it was prepared")),
    };
    let child = match prepared.and_then(|()| spawn::spawn(&launch)) {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(container, error = format!("{error:#}"), "cannot launch a container");
            world.report(Event::LaunchFailed { container, message: format!("{error:#}") });
            return;
        }
    };
    // A child that nobody waited for has an id.
    let pid = child.id().unwrap_or_default();
    if let Err(error) = world.records.write(&container, &Record::of(pid, &launch.sandbox)) {
        tracing::error!(container, %error, "cannot record a container: a restarted agent will not find it");
    }
    world.report(Event::Launched { container: container.clone(), pid });
    let status = wait(child, &launch.sandbox, pid, &destroy).await;
    Tree::of(&launch.sandbox, None).kill().await;
    world.records.remove(&container);
    world.report(Event::Exited { container, status });
    destroy.cancel();
}

async fn prepare(world: &World, launch: &Launch) -> anyhow::Result<()> {
    sandbox::create(launch).await?;
    launch.volumes.iter().for_each(volumes::link);
    fetch::fetch(launch, &world.cache).await?;
    sandbox::hand_over(launch).await
}

async fn wait(mut child: Child, sandbox: &str, pid: u32, destroy: &CancellationToken) -> Option<i32> {
    let ended = tokio::select! {
        ended = child.wait() => ended,
        () = destroy.cancelled() => {
            let tree = Tree::of(sandbox, Some(pid));
            let (ended, ()) = tokio::join!(child.wait(), tree.kill());
            ended
        }
    };
    match ended {
        Ok(status) => Some(status.into_raw()),
        Err(error) => {
            tracing::error!(pid, %error, "cannot wait for a container's process");
            None
        }
    }
}

/// Watches a process that an earlier agent started.
pub(super) async fn watch(world: Arc<World>, container: String, record: Record, destroy: CancellationToken) {
    while record.is_alive() && !destroy.is_cancelled() {
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = destroy.cancelled() => {}
        }
    }
    Tree::of(&record.sandbox, record.is_alive().then_some(record.pid)).kill().await;
    world.records.remove(&container);
    world.report(Event::Exited { container, status: None });
    destroy.cancel();
}
