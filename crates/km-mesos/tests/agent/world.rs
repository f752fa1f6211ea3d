//! An agent and its fake master. The agent has a runtime of its own, so that it can die as a process does.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use km_mesos::agent::Flags;
use km_mesos_core::link::{AgentMessage, MasterMessage};
use km_mesos_proto::v1::{self, TaskState};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::fake_master::FakeMaster;

/// How long anything may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub master: FakeMaster,
    directory: TempDir,
    runtime: Option<Runtime>,
    stop: CancellationToken,
    port: u16,
}

impl World {
    /// An agent that is registered as S0.
    pub async fn start() -> Self {
        let master = FakeMaster::start().await;
        let directory = tempfile::tempdir().unwrap();
        let mut world = Self { master, directory, runtime: None, stop: CancellationToken::new(), port: 0 };
        world.restart().await;
        world.message(|message| matches!(message, AgentMessage::Register { .. })).await;
        world.accept();
        world.registered().await;
        world
    }

    /// Waits until the agent knows that it is accepted.
    pub async fn registered(&self) {
        while !self.get("/metrics/snapshot").await.contains(r#""slave/registered":1"#) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn flags(&self) -> Flags {
        Flags {
            master: self.master.address.to_string(),
            port: self.port,
            resources: Some("cpus:4;mem:512;disk:512".to_owned()),
            executor_shutdown_grace_period: Duration::from_millis(100),
            executor_reregistration_timeout: Duration::from_secs(15),
            registration_backoff_factor: Duration::from_millis(10),
            ..Flags::new(self.directory.path().join("work"))
        }
    }

    pub fn work_dir(&self) -> &'static Path {
        Box::leak(self.directory.path().join("work").canonicalize().unwrap().into_boxed_path())
    }

    /// Starts an agent on what the last one left.
    pub async fn restart(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (flags, stop) = (self.flags(), self.stop.clone());
        let started = runtime.spawn(async move { km_mesos::agent::start(flags, stop).await });
        self.port = started.await.unwrap().unwrap().address.port();
        self.runtime = Some(runtime);
    }

    /// The agent dies on the spot.
    pub fn crash(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // From a thread of its own, as a runtime must not be dropped on another's.
            std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(5))).join().unwrap();
        }
    }

    /// The agent is asked to end, and does so.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.message(|message| *message == AgentMessage::Unregister).await;
        self.crash();
    }

    pub fn accept(&self) {
        let agent_id = v1::AgentId { value: "S0".to_owned() };
        self.master.send(&MasterMessage::Registered { agent_id, ping_timeout_ms: 75_000 });
    }

    pub fn run(&self, tasks: Vec<v1::TaskInfo>) {
        let framework = v1::FrameworkInfo { id: Some(framework_id()), checkpoint: Some(true), ..Default::default() };
        self.master.send(&MasterMessage::RunTasks { framework, tasks });
    }

    /// The next message that is wanted; others are passed over.
    pub async fn message(&mut self, wanted: impl Fn(&AgentMessage) -> bool) -> AgentMessage {
        loop {
            let said = tokio::time::timeout(PATIENCE, self.master.said.recv()).await;
            let message = said.expect("the agent says nothing").unwrap();
            if wanted(&message) {
                return message;
            }
        }
    }

    /// The next update, which is acknowledged.
    pub async fn update(&mut self) -> v1::TaskStatus {
        let message = self.message(|message| matches!(message, AgentMessage::Update { .. })).await;
        let AgentMessage::Update { framework_id, status, .. } = message else { unreachable!() };
        let (task_id, uuid) = (status.task_id.clone(), status.uuid().to_vec());
        self.master.send(&MasterMessage::Acknowledge { framework_id, task_id, uuid });
        status
    }

    /// Takes that many updates, of which the last of each task must be of that state.
    pub async fn states(&mut self, count: usize, state: TaskState) {
        let mut last = std::collections::BTreeMap::new();
        for _ in 0..count {
            let status = self.update().await;
            last.insert(status.task_id.value.clone(), status.state());
        }
        assert!(last.values().all(|last| *last == state), "{last:?}");
    }

    pub async fn get(&self, path: &str) -> String {
        let request = hyper::Request::get(format!("http://127.0.0.1:{}{path}", self.port));
        let (status, text) = send(request.body(Full::default()).unwrap()).await;
        assert_eq!(status, 200, "{path}: {text}");
        text
    }

    pub async fn post(
        &self,
        path: &str,
        content_type: Option<&str>,
        accept: Option<&str>,
        body: &str,
    ) -> (u16, String) {
        let mut request = hyper::Request::post(format!("http://127.0.0.1:{}{path}", self.port));
        for (name, value) in [("content-type", content_type), ("accept", accept)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        send(request.body(Full::from(body.to_owned())).unwrap()).await
    }
}

async fn send(request: hyper::Request<Full<Bytes>>) -> (u16, String) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

impl Drop for World {
    fn drop(&mut self) {
        // A failed test leaves no processes behind either: the agent's checkpoints go when it has killed everything.
        self.stop.cancel();
        let checkpoints = self.directory.path().join("work/meta/agent");
        let patience = std::time::Instant::now() + Duration::from_secs(5);
        while self.runtime.is_some() && checkpoints.exists() && std::time::Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.crash();
    }
}

pub fn framework_id() -> v1::FrameworkId {
    v1::FrameworkId { value: "fw".to_owned() }
}

fn task(id: &str) -> v1::TaskInfo {
    v1::TaskInfo {
        task_id: v1::TaskId { value: id.to_owned() },
        agent_id: v1::AgentId { value: "S0".to_owned() },
        ..Default::default()
    }
}

pub fn command(id: &str, command: &str) -> v1::TaskInfo {
    let command = v1::CommandInfo { value: Some(command.to_owned()), ..Default::default() };
    v1::TaskInfo { command: Some(command), ..task(id) }
}

pub fn custom(id: &str, executor: &str, command: &str) -> v1::TaskInfo {
    let executor = v1::ExecutorInfo {
        executor_id: v1::ExecutorId { value: executor.to_owned() },
        command: Some(v1::CommandInfo { value: Some(command.to_owned()), ..Default::default() }),
        ..Default::default()
    };
    v1::TaskInfo { executor: Some(executor), ..task(id) }
}
