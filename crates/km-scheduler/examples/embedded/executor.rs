//! The executor: reads the pod's YAML from the task and runs the commands of its containers as processes.

use std::{collections::BTreeMap, process::Stdio};

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use km_mesos_client::{
    ExecutorClient,
    executor::{EventStream, Session},
};
use km_mesos_proto::v1::{
    self, TaskState,
    executor::{Call, call, event},
};
use serde_json::json;
use tokio::{process::Child, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Runs until the agent says SHUTDOWN or goes away. Processes end with it.
pub async fn run() -> anyhow::Result<()> {
    let client = ExecutorClient::from_env(&std::env::vars().collect())?;
    let (session, mut events) = client.subscribe(Vec::new(), Vec::new()).await?;
    let mut executor = Executor { session, kills: BTreeMap::new(), running: JoinSet::new() };
    executor.serve(&mut events).await
}

struct Executor {
    session: Session,
    /// Cancelled to end a task.
    kills: BTreeMap<String, CancellationToken>,
    /// Tasks with how they end.
    running: JoinSet<(v1::TaskId, TaskState)>,
}

impl Executor {
    async fn serve(&mut self, events: &mut EventStream) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                event = events.next() => {
                    let Some(event) = event else { return Ok(()) };
                    let event = event?;
                    match event.r#type() {
                        event::Type::Launch => {
                            let task = event.launch.context("LAUNCH without a task")?.task;
                            self.launch(task).await?;
                        }
                        event::Type::Kill => {
                            let id = event.kill.context("KILL without a task")?.task_id;
                            if let Some(kill) = self.kills.get(&id.value) {
                                kill.cancel();
                            }
                        }
                        event::Type::Shutdown => return Ok(()),
                        _ => {}
                    }
                }
                Some(ended) = self.running.join_next() => {
                    let (task, state) = ended?;
                    self.kills.remove(&task.value);
                    self.report(task, state, None, None).await?;
                }
            }
        }
    }

    async fn launch(&mut self, task: v1::TaskInfo) -> anyhow::Result<()> {
        let (pod, processes) = match start(task.data()) {
            Ok(started) => started,
            Err(error) => {
                let message = format!("{error:#}");
                return self.report(task.task_id, TaskState::TaskFailed, Some(message), None).await;
            }
        };
        let data = serde_json::to_vec(&json!({ "metadata": pod.metadata, "status": running(&pod) }))?;
        self.report(task.task_id.clone(), TaskState::TaskRunning, None, Some(data)).await?;
        let kill = CancellationToken::new();
        self.kills.insert(task.task_id.value.clone(), kill.clone());
        self.running.spawn(async move { (task.task_id, watch(processes, kill).await) });
        Ok(())
    }

    async fn report(
        &self,
        task_id: v1::TaskId,
        state: TaskState,
        message: Option<String>,
        data: Option<Vec<u8>>,
    ) -> anyhow::Result<()> {
        let status = v1::TaskStatus {
            task_id,
            state: state as i32,
            source: Some(v1::task_status::Source::Executor as i32),
            uuid: Some(uuid::Uuid::new_v4().as_bytes().to_vec()),
            message,
            data,
            ..v1::TaskStatus::default()
        };
        let update = Some(call::Update { status });
        self.session.call(Call { r#type: Some(call::Type::Update as i32), update, ..Call::default() }).await?;
        Ok(())
    }
}

fn start(manifest: &[u8]) -> anyhow::Result<(Pod, Vec<Child>)> {
    let pod: Pod = serde_saphyr::from_str(std::str::from_utf8(manifest)?).context("the task's data is no pod")?;
    let mut processes = Vec::new();
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        let words = container.command.iter().chain(&container.args).flatten().collect::<Vec<_>>();
        let (program, arguments) = words.split_first().with_context(|| format!("{} has no command", container.name))?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        processes.push(command.spawn().with_context(|| format!("container {}", container.name))?);
    }
    Ok((pod, processes))
}

fn running(pod: &Pod) -> PodStatus {
    let names = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| container.name.clone());
    let status = |name| ContainerStatus { name, ready: true, ..ContainerStatus::default() };
    PodStatus { container_statuses: Some(names.map(status).collect()), ..PodStatus::default() }
}

/// Waits for all processes of a pod, or for its kill.
async fn watch(processes: Vec<Child>, kill: CancellationToken) -> TaskState {
    let mut state = TaskState::TaskFinished;
    for mut process in processes {
        let ended = tokio::select! {
            ended = process.wait() => ended.is_ok_and(|status| status.success()),
            // What is dropped is killed.
            () = kill.cancelled() => return TaskState::TaskKilled,
        };
        if !ended {
            state = TaskState::TaskFailed;
        }
    }
    state
}
