//! Master and agent together: a framework launches tasks over HTTP, sees them run, and kills them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails, in its helpers too")]

use std::{collections::HashMap, fs, path::PathBuf, time::Duration};

use futures::StreamExt;
use km_mesos::{agent, master};
use km_mesos_client::{
    ExecutorClient,
    scheduler::{self, EventStream, Options, Session},
};
use km_mesos_proto::{
    resources::Resources,
    v1::{
        self, TaskState, executor,
        offer::{self, operation},
        scheduler::{Call, call, event},
        task_status::Source,
    },
};
use tokio_util::sync::CancellationToken;

/// How long anything may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster {
    directory: tempfile::TempDir,
    stop: CancellationToken,
    roles: Vec<km_observe::Started>,
    session: Session,
    events: EventStream,
}

impl Cluster {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let flags = master::Flags { port: 0, allocation_interval: Duration::from_millis(50), ..Default::default() };
        let master = master::start(flags, stop.clone()).await.unwrap();
        let flags = agent::Flags {
            master: master.address.to_string(),
            port: 0,
            hostname: Some("one".to_owned()),
            resources: Some("cpus:4;mem:1024;disk:1024".to_owned()),
            executor_shutdown_grace_period: Duration::from_millis(100),
            ..agent::Flags::new(directory.path().join("agent"))
        };
        let client = scheduler::connect(Options::new(master.address.to_string().parse().unwrap())).unwrap();
        let agent = agent::start(flags, stop.clone()).await.unwrap();
        let framework = v1::FrameworkInfo {
            user: "root".to_owned(),
            name: "test".to_owned(),
            roles: vec!["*".to_owned()],
            checkpoint: Some(true),
            capabilities: vec![v1::framework_info::Capability {
                r#type: Some(v1::framework_info::capability::Type::MultiRole.into()),
            }],
            ..Default::default()
        };
        let (session, events) = client.subscribe(framework, Vec::new()).await.unwrap();
        Self { directory, stop, roles: vec![agent, master], session, events }
    }

    async fn event(&mut self, kind: event::Type) -> v1::scheduler::Event {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.events.next()).await.expect("no event comes");
            let event = event.unwrap().unwrap();
            if event.r#type() == kind {
                return event;
            }
        }
    }

    /// The next update, acknowledged.
    async fn update(&mut self) -> v1::TaskStatus {
        let status = self.event(event::Type::Update).await.update.unwrap().status;
        if let Some(uuid) = status.uuid.clone() {
            let (agent_id, task_id) = (status.agent_id.clone().unwrap(), status.task_id.clone());
            let acknowledge = Some(call::Acknowledge { agent_id, task_id, uuid });
            self.call(Call { r#type: Some(call::Type::Acknowledge.into()), acknowledge, ..Default::default() }).await;
        }
        status
    }

    async fn call(&self, call: Call) {
        self.session.call(call).await.unwrap();
    }

    /// Launches a task on the next offer.
    async fn launch(&mut self, mut task: v1::TaskInfo) {
        let offer = self.event(event::Type::Offers).await.offers.unwrap().offers.remove(0);
        task.agent_id = offer.agent_id;
        task.resources = Resources::parse("cpus:0.5;mem:64", "*").unwrap().to_protos();
        let launch = offer::Operation {
            r#type: Some(operation::Type::Launch.into()),
            launch: Some(operation::Launch { task_infos: vec![task] }),
            ..Default::default()
        };
        let accept = call::Accept { offer_ids: vec![offer.id], operations: vec![launch], filters: None };
        self.call(Call { r#type: Some(call::Type::Accept.into()), accept: Some(accept), ..Default::default() }).await;
    }

    async fn kill(&self, task: &str) {
        let kill = call::Kill { task_id: task.into(), agent_id: None, kill_policy: None };
        self.call(Call { r#type: Some(call::Type::Kill.into()), kill: Some(kill), ..Default::default() }).await;
    }

    /// A file in the sandbox of an executor, once it is there.
    async fn sandbox_file(&self, executor: &str, name: &str) -> String {
        let started = std::time::Instant::now();
        loop {
            for agent in children(&self.directory.path().join("agent/slaves")) {
                for framework in children(&agent.join("frameworks")) {
                    let path = framework.join(format!("executors/{executor}/runs/latest/{name}"));
                    if let Ok(text) = fs::read_to_string(path) {
                        return text;
                    }
                }
            }
            assert!(started.elapsed() < PATIENCE, "{name} does not appear");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        for role in self.roles {
            role.join().await.unwrap();
        }
    }
}

fn children(directory: &PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn shell(command: &str) -> v1::CommandInfo {
    v1::CommandInfo { value: Some(command.to_owned()), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_task_runs_and_is_killed() {
    let mut cluster = Cluster::start().await;
    let command = Some(shell("exec sleep 1000"));
    cluster.launch(v1::TaskInfo { name: "t".to_owned(), task_id: "t".into(), command, ..Default::default() }).await;
    for state in [TaskState::TaskStarting, TaskState::TaskRunning] {
        let status = cluster.update().await;
        assert_eq!((status.state(), status.source()), (state, Source::Executor), "{status:?}");
    }
    cluster.kill("t").await;
    assert_eq!(cluster.update().await.state(), TaskState::TaskKilled);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_custom_executor_runs_and_is_killed() {
    let mut cluster = Cluster::start().await;
    let executor = v1::ExecutorInfo {
        r#type: Some(v1::executor_info::Type::Custom.into()),
        executor_id: "e".into(),
        command: Some(shell("env > new; mv new environment; exec sleep 1000")),
        ..Default::default()
    };
    let task = v1::TaskInfo {
        name: "t".to_owned(),
        task_id: "t".into(),
        executor: Some(executor),
        data: Some(b"payload".to_vec()),
        ..Default::default()
    };
    cluster.launch(task).await;
    let environment = cluster.sandbox_file("e", "environment").await;
    let variables = environment.lines().filter_map(|line| line.split_once('='));
    let variables: HashMap<_, _> = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let client = ExecutorClient::from_env(&variables).unwrap();
    let (session, mut events) = client.subscribe(Vec::new(), Vec::new()).await.unwrap();
    let mut launched = None;
    while launched.is_none() {
        launched = events.next().await.unwrap().unwrap().launch;
    }
    let task = launched.unwrap().task;
    assert_eq!(task.data(), b"payload");

    for (state, number) in [(TaskState::TaskRunning, 1), (TaskState::TaskKilled, 2)] {
        // The master takes only uuids of a version that there is.
        let mut uuid = vec![number; 16];
        uuid[6] = 0x40;
        let status = v1::TaskStatus {
            task_id: task.task_id.clone(),
            state: state.into(),
            source: Some(Source::Executor.into()),
            uuid: Some(uuid),
            ..Default::default()
        };
        let update = executor::Call {
            r#type: Some(executor::call::Type::Update.into()),
            update: Some(executor::call::Update { status }),
            ..Default::default()
        };
        session.call(update).await.unwrap();
        let status = cluster.update().await;
        assert_eq!((status.state(), status.task_id.value), (state, "t".to_owned()));
        if state == TaskState::TaskRunning {
            cluster.kill("t").await;
            let mut kill = None;
            while kill.is_none() {
                kill = events.next().await.unwrap().unwrap().kill;
            }
        }
    }
    cluster.stop().await;
}
