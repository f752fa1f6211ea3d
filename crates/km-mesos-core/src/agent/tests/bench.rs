//! An agent with everything around it played by the test.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_proto::v1::{
    self, TaskState,
    executor::{Call, call, event},
    framework_info::{Capability, capability},
    task_status::{Reason, Source},
};

use super::super::{Action, Agent, Config, Event, Recovered, Refusal};
use crate::link::{AgentMessage, MasterMessage};

pub const FRAMEWORK: &str = "fw";
pub const AGENT: &str = "S0";

pub struct Bench {
    pub agent: Agent,
    pub now: Duration,
    /// The checkpoint directory.
    pub files: BTreeMap<String, Vec<u8>>,
    pub link: u64,
    pub framework: v1::FrameworkInfo,
    restarts: u64,
}

/// What an update says: task, state, who says it, and why.
pub type Said = (String, TaskState, Source, Option<Reason>);

pub fn config(seed: u64) -> Config {
    Config {
        info: v1::AgentInfo { hostname: "host".to_owned(), port: Some(5051), ..Default::default() },
        version: "test".to_owned(),
        ip: "127.0.0.1".to_owned(),
        work_dir: "/work".to_owned(),
        executor_registration_timeout: Duration::from_secs(60),
        executor_reregistration_timeout: Duration::from_secs(2),
        executor_shutdown_grace_period: Duration::from_secs(5),
        recovery_timeout: Duration::from_secs(900),
        registration_backoff_factor: Duration::from_secs(1),
        seed,
    }
}

impl Bench {
    /// An agent that has started and is not yet registered.
    pub fn started() -> Self {
        let framework = v1::FrameworkInfo {
            id: Some(v1::FrameworkId { value: FRAMEWORK.to_owned() }),
            checkpoint: Some(true),
            ..Default::default()
        };
        let agent = Agent::new(config(0), Recovered::default());
        let now = Duration::from_secs(1_000_000);
        let mut bench = Self { agent, now, files: BTreeMap::new(), link: 0, framework, restarts: 0 };
        bench.feed(Event::Start);
        bench
    }

    pub fn registered() -> Self {
        let mut bench = Self::started();
        bench.register();
        bench
    }

    pub fn with_capability(mut self, capability: capability::Type) -> Self {
        self.framework.capabilities.push(Capability { r#type: Some(capability.into()) });
        self
    }

    pub fn without_checkpoint(mut self) -> Self {
        self.framework.checkpoint = Some(false);
        self
    }

    pub fn register(&mut self) -> Vec<Action> {
        let agent_id = v1::AgentId { value: AGENT.to_owned() };
        self.master(MasterMessage::Registered { agent_id, ping_timeout_ms: 75_000 })
    }

    pub fn feed(&mut self, event: Event) -> Vec<Action> {
        let actions = self.agent.handle(self.now, event);
        for action in &actions {
            match action {
                Action::Connect { link, .. } => self.link = *link,
                Action::Write { path, content } => {
                    self.files.insert(path.clone(), content.clone());
                }
                Action::Remove { path } => {
                    self.files
                        .retain(|name, _| !(path.is_empty() || name == path || name.starts_with(&format!("{path}/"))));
                }
                _ => {}
            }
        }
        actions
    }

    pub fn master(&mut self, message: MasterMessage) -> Vec<Action> {
        self.feed(Event::Master { link: self.link, message })
    }

    /// Lets time pass, in one leap.
    pub fn pass(&mut self, time: Duration) -> Vec<Action> {
        self.now += time;
        self.feed(Event::Tick)
    }

    /// The agent's process dies, and a new one starts on what is on disk. `dead` containers died with it.
    pub fn restart(&mut self, dead: &[String]) -> Vec<Action> {
        let files: Vec<_> = self.files.clone().into_iter().collect();
        self.restarts += 1;
        self.agent = Agent::new(config(self.restarts), Recovered::read(&files).unwrap());
        let mut actions = Vec::new();
        for container in dead {
            actions.extend(self.feed(Event::Exited { container: container.clone(), status: None }));
        }
        actions.extend(self.feed(Event::Start));
        actions
    }

    pub fn run(&mut self, tasks: Vec<v1::TaskInfo>) -> Vec<Action> {
        self.master(MasterMessage::RunTasks { framework: self.framework.clone(), tasks })
    }

    pub fn run_group(&mut self, executor: &str, tasks: &[&str]) -> Vec<Action> {
        let tasks = tasks.iter().map(|task| v1::TaskInfo { executor: None, ..custom(task, executor) }).collect();
        let executor = executor_info(executor);
        let group = v1::TaskGroupInfo { tasks };
        self.master(MasterMessage::RunTaskGroup { framework: self.framework.clone(), executor, group })
    }

    pub fn kill(&mut self, task: &str) -> Vec<Action> {
        let framework_id = v1::FrameworkId { value: FRAMEWORK.to_owned() };
        let task_id = v1::TaskId { value: task.to_owned() };
        self.master(MasterMessage::KillTask { framework_id, task_id, kill_policy: None })
    }

    pub fn acknowledge(&mut self, task: &str, uuid: Vec<u8>) -> Vec<Action> {
        let framework_id = v1::FrameworkId { value: FRAMEWORK.to_owned() };
        self.master(MasterMessage::Acknowledge { framework_id, task_id: v1::TaskId { value: task.to_owned() }, uuid })
    }

    /// Acknowledges the update in flight, and then the next ones, of one task, until there is none. Returns their states.
    pub fn acknowledge_all(&mut self, task: &str, actions: &[Action]) -> Vec<TaskState> {
        let mut states = Vec::new();
        let mut next = statuses(actions).into_iter().find(|status| status.task_id.value == task);
        while let Some(status) = next {
            states.push(status.state());
            let actions = self.acknowledge(task, status.uuid.unwrap());
            next = statuses(&actions).into_iter().find(|status| status.task_id.value == task);
        }
        states
    }

    /// A call of an executor, checked first as the shell does.
    pub fn call(&mut self, call: Call, connection: Option<u64>) -> Result<Vec<Action>, Refusal> {
        self.agent.check(&call)?;
        Ok(match connection {
            Some(connection) => self.feed(Event::Subscribe { connection, call }),
            None => self.feed(Event::ExecutorCall(call)),
        })
    }

    pub fn subscribe(&mut self, executor: &str, connection: u64) -> Vec<Action> {
        self.call(subscribe_call(executor, call::Subscribe::default()), Some(connection)).unwrap()
    }

    pub fn update(&mut self, executor: &str, task: &str, state: TaskState, uuid: u8) -> Vec<Action> {
        self.call(update_call(executor, task, state, uuid), None).unwrap()
    }
}

pub fn executor_info(id: &str) -> v1::ExecutorInfo {
    v1::ExecutorInfo {
        executor_id: v1::ExecutorId { value: id.to_owned() },
        command: Some(v1::CommandInfo { value: Some("run".to_owned()), ..Default::default() }),
        ..Default::default()
    }
}

/// A task for a custom executor.
pub fn custom(task: &str, executor: &str) -> v1::TaskInfo {
    v1::TaskInfo {
        task_id: v1::TaskId { value: task.to_owned() },
        agent_id: v1::AgentId { value: AGENT.to_owned() },
        executor: Some(executor_info(executor)),
        ..Default::default()
    }
}

/// A task with a command.
pub fn command(task: &str) -> v1::TaskInfo {
    let command = v1::CommandInfo { value: Some("sleep 1".to_owned()), ..Default::default() };
    v1::TaskInfo { executor: None, command: Some(command), ..custom(task, "") }
}

fn executor_call(executor: &str, kind: call::Type) -> Call {
    Call {
        executor_id: v1::ExecutorId { value: executor.to_owned() },
        framework_id: v1::FrameworkId { value: FRAMEWORK.to_owned() },
        r#type: Some(kind.into()),
        ..Default::default()
    }
}

pub fn subscribe_call(executor: &str, subscribe: call::Subscribe) -> Call {
    Call { subscribe: Some(subscribe), ..executor_call(executor, call::Type::Subscribe) }
}

pub fn update_call(executor: &str, task: &str, state: TaskState, uuid: u8) -> Call {
    let status = status(task, state, uuid);
    Call { update: Some(call::Update { status }), ..executor_call(executor, call::Type::Update) }
}

pub fn message_call(executor: &str, data: &[u8]) -> Call {
    Call { message: Some(call::Message { data: data.to_vec() }), ..executor_call(executor, call::Type::Message) }
}

pub fn status(task: &str, state: TaskState, uuid: u8) -> v1::TaskStatus {
    v1::TaskStatus {
        task_id: v1::TaskId { value: task.to_owned() },
        state: state.into(),
        source: Some(Source::Executor.into()),
        uuid: Some(vec![uuid; 16]),
        ..Default::default()
    }
}

/// The updates among the actions.
pub fn statuses(actions: &[Action]) -> Vec<v1::TaskStatus> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send(message) => Some(message.as_ref()),
        _ => None,
    });
    sent.filter_map(|message| match message {
        AgentMessage::Update { status, .. } => Some(status.clone()),
        _ => None,
    })
    .collect()
}

pub fn said(actions: &[Action]) -> Vec<Said> {
    let short = |status: v1::TaskStatus| {
        (status.task_id.value.clone(), status.state(), status.source(), status.reason.map(|_| status.reason()))
    };
    statuses(actions).into_iter().map(short).collect()
}

/// The executor events among the actions, as connection and type.
pub fn told(actions: &[Action]) -> Vec<(u64, event::Type)> {
    let events = actions.iter().filter_map(|action| match action {
        Action::SendEvent { connection, event } => Some((*connection, event.r#type())),
        _ => None,
    });
    events.collect()
}

/// The containers that are launched.
pub fn launched(actions: &[Action]) -> Vec<String> {
    let launches = actions.iter().filter_map(|action| match action {
        Action::Launch(launch) => Some(launch.container.clone()),
        _ => None,
    });
    launches.collect()
}

/// The containers that are destroyed.
pub fn destroyed(actions: &[Action]) -> Vec<String> {
    let destroys = actions.iter().filter_map(|action| match action {
        Action::Destroy { container } => Some(container.clone()),
        _ => None,
    });
    destroys.collect()
}

/// The statuses of executors that the master hears have ended.
pub fn exits(actions: &[Action]) -> Vec<(String, i32)> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send(message) => Some(message.as_ref()),
        _ => None,
    });
    sent.filter_map(|message| match message {
        AgentMessage::ExecutorExited { executor_id, status, .. } => Some((executor_id.value.clone(), *status)),
        _ => None,
    })
    .collect()
}

pub fn ended(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::End { .. }))
}
