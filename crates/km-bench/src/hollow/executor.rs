//! The executor of hollow agents: binds the pod, as the real one does, and says that it runs.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use km_mesos_proto::v1;
use km_podtask::messages;
use kube::Client;
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc::UnboundedSender};

use super::agent::Report;
use crate::api;

/// Bindings under way at once, as with the null scheduler: thousands of agents are one process here, and each request
/// beyond the open connections would be a TLS handshake that no cluster has.
const PARALLEL: usize = 64;

/// The executor of all agents.
pub struct Executor {
    client: Client,
    slots: Arc<Semaphore>,
}

/// A task to be run.
pub struct Launch {
    pub framework: v1::FrameworkId,
    pub task: v1::TaskInfo,
    pub node: String,
}

impl Executor {
    pub fn new(client: Client) -> Self {
        Self { client, slots: Arc::new(Semaphore::new(PARALLEL)) }
    }

    /// Binds the task's pod in the background and reports.
    pub fn launch(&self, launch: Launch, reports: UnboundedSender<Report>) {
        let (client, slots) = (self.client.clone(), Arc::clone(&self.slots));
        tokio::spawn(async move {
            // The semaphore is never closed.
            let Ok(_slot) = slots.acquire().await else { return };
            let (states, message) = match bind(&client, &launch).await {
                Ok(()) => {
                    (vec![v1::TaskState::TaskStarting, v1::TaskState::TaskRunning], messages::CREATE_BINDING_SUCCESS)
                }
                Err(error) => {
                    tracing::warn!(task = launch.task.task_id.value, %error, "a pod can't be bound");
                    (vec![v1::TaskState::TaskFailed], messages::CREATE_BINDING_FAILURE)
                }
            };
            let report = Report {
                framework: launch.framework,
                task: launch.task.task_id,
                executor: launch.task.executor.map(|executor| executor.executor_id).unwrap_or_default(),
                states,
                message: Some(message.to_owned()),
            };
            if reports.send(report).is_err() {
                tracing::debug!("the agent has ended");
            }
        });
    }
}

async fn bind(client: &Client, launch: &Launch) -> anyhow::Result<()> {
    /// All that a binding takes of a pod.
    #[derive(Deserialize)]
    struct Bound {
        metadata: ObjectMeta,
    }
    let pod: Bound = serde_json::from_slice(launch.task.data())?;
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    Ok(api::bind(client, &pod.metadata, &launch.node, annotations).await?)
}
