//! The simulated executor: binds pods, runs them, ends them, and speaks the executor API with its agent.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_mesos_core::agent::{self, Launch};
use km_mesos_proto::v1::{
    TaskInfo, TaskState, TaskStatus,
    executor::{Call, Event, call, event},
    task_status::Source,
};
use km_podtask::{PodKey, thousandths};
use rand::Rng;

use crate::{
    api::{task_of, uid_of},
    world::{Delivery, World},
};

/// How often executors look for deletions.
const SCAN: Duration = Duration::from_secs(1);

/// One executor process.
pub(crate) struct Executor {
    framework_id: String,
    executor_id: String,
    /// The stream from the agent, when there is one.
    pub connection: Option<u64>,
    pub tasks: BTreeMap<String, Task>,
}

/// One pod's task in it.
pub(crate) struct Task {
    info: TaskInfo,
    pub pod: Pod,
    state: TaskState,
    /// The agent hasn't shown yet that it knows the task's updates.
    unacknowledged: bool,
    updates: Vec<TaskStatus>,
}

impl Task {
    pub fn is_over(&self) -> bool {
        !matches!(self.state, TaskState::TaskStaging | TaskState::TaskStarting | TaskState::TaskRunning)
    }

    pub fn is_bound(&self) -> bool {
        matches!(self.state, TaskState::TaskStarting | TaskState::TaskRunning)
    }

    pub fn is_running(&self) -> bool {
        self.state == TaskState::TaskRunning
    }

    pub fn milli_cpu(&self) -> i64 {
        let cpus = self.info.resources.iter().filter(|one| one.name == "cpus");
        cpus.map(|one| one.scalar.as_ref().map_or(0, |scalar| thousandths(scalar.value))).sum()
    }
}

impl World {
    pub(crate) fn launch_executor(&mut self, agent: usize, launch: Launch) {
        let executor = Executor {
            framework_id: launch.framework_id,
            executor_id: launch.executor_id,
            connection: None,
            tasks: BTreeMap::new(),
        };
        let container = launch.container;
        self.note(|| format!("agent {agent} launches executor {container}"));
        self.agents[agent].executors.insert(container.clone(), executor);
        let delay = self.around(Duration::from_millis(300));
        self.at(delay, Delivery::Started { agent, container });
    }

    pub(crate) fn executor_starts(&mut self, agent: usize, container: &str) {
        if self.agents[agent].executors.contains_key(container) {
            self.agent_event(agent, agent::Event::Launched { container: container.to_owned(), pid: 1 });
            self.executor_subscribes(agent, container);
        }
    }

    pub(crate) fn executor_subscribes(&mut self, agent: usize, container: &str) {
        let connection = self.connection().0;
        let Some(executor) = self.agents[agent].executors.get_mut(container) else { return };
        if executor.connection.is_some() {
            return;
        }
        let tasks = executor.tasks.values().filter(|task| task.unacknowledged).map(|task| task.info.clone());
        let updates = executor.tasks.values().flat_map(|task| &task.updates);
        let subscribe = call::Subscribe {
            unacknowledged_tasks: tasks.collect(),
            unacknowledged_updates: updates.map(|status| call::Update { status: status.clone() }).collect(),
        };
        let call = Call {
            executor_id: executor.executor_id.as_str().into(),
            framework_id: executor.framework_id.as_str().into(),
            r#type: Some(call::Type::Subscribe as i32),
            subscribe: Some(subscribe),
            ..Call::default()
        };
        let checked = self.agents[agent].core.as_ref().is_some_and(|core| core.check(&call).is_ok());
        if checked {
            if let Some(executor) = self.agents[agent].executors.get_mut(container) {
                executor.connection = Some(connection);
            }
            self.agent_event(agent, agent::Event::Subscribe { connection, call });
        } else {
            let container = container.to_owned();
            self.at(Duration::from_millis(500), Delivery::ExecutorSubscribes { agent, container });
        }
    }

    pub(crate) fn send_to_executor(&mut self, agent: usize, connection: u64, event: Box<Event>) {
        let executors = &self.agents[agent].executors;
        let of = executors.iter().find(|(_, executor)| executor.connection == Some(connection));
        if let Some(container) = of.map(|(container, _)| container.clone()) {
            let channel = format!("executor{connection}");
            self.send(channel, Delivery::ToExecutor { agent, container, connection, event });
        }
    }

    pub(crate) fn close_executor_stream(&mut self, agent: usize, connection: u64) {
        let executors = &self.agents[agent].executors;
        let of = executors.iter().find(|(_, executor)| executor.connection == Some(connection));
        if let Some(container) = of.map(|(container, _)| container.clone()) {
            let channel = format!("executor{connection}");
            self.send(channel, Delivery::ExecutorStreamClosed { agent, container, connection });
        }
    }

    pub(crate) fn executor_stream_closes(&mut self, agent: usize, container: &str, connection: u64) {
        let Some(executor) = self.agents[agent].executors.get_mut(container) else { return };
        if executor.connection == Some(connection) {
            executor.connection = None;
            self.executor_subscribes(agent, container);
        }
    }

    pub(crate) fn executor_hears(&mut self, agent: usize, container: &str, connection: u64, event: Event) {
        let Some(executor) = self.agents[agent].executors.get_mut(container) else { return };
        if executor.connection != Some(connection) {
            return;
        }
        match event.r#type() {
            event::Type::Launch => {
                let Some(launch) = event.launch else { return };
                self.task_arrives(agent, container, launch.task);
            }
            event::Type::Kill => {
                let Some(kill) = event.kill else { return };
                self.end_task(agent, container, &kill.task_id.value);
            }
            event::Type::Acknowledged => {
                let Some(acknowledged) = event.acknowledged else { return };
                if let Some(task) = executor.tasks.get_mut(&acknowledged.task_id.value) {
                    task.unacknowledged = false;
                    task.updates.retain(|status| status.uuid.as_deref() != Some(acknowledged.uuid.as_slice()));
                }
            }
            event::Type::Shutdown => self.executor_ends(agent, container),
            _ => {}
        }
    }

    fn task_arrives(&mut self, agent: usize, container: &str, info: TaskInfo) {
        let id = info.task_id.value.clone();
        let pod = serde_json::from_slice(info.data.as_deref().unwrap_or_default()).unwrap_or_default();
        let task = Task { info, pod, state: TaskState::TaskStaging, unacknowledged: true, updates: Vec::new() };
        if let Some(executor) = self.agents[agent].executors.get_mut(container) {
            executor.tasks.entry(id.clone()).or_insert(task);
        }
        self.progress_later(agent, container, &id, Duration::from_millis(100));
    }

    fn progress_later(&mut self, agent: usize, container: &str, task: &str, mean: Duration) {
        // Some pods take long: images, slow API servers.
        let slow = self.faulty() && self.rng.random_bool(0.1);
        let delay = self.around(if slow { mean * 30 } else { mean });
        let (container, task) = (container.to_owned(), task.to_owned());
        self.at(delay, Delivery::Progress { agent, container, task });
    }

    /// Binds what is new, runs what is bound.
    pub(crate) fn progress(&mut self, agent: usize, container: &str, id: &str) {
        let hostname = self.agents[agent].hostname.clone();
        let Some(task) = self.task(agent, container, id) else { return };
        let (state, pod) = (task.state, task.pod.clone());
        if self.api.down {
            self.progress_later(agent, container, id, Duration::from_secs(1));
            return;
        }
        match state {
            TaskState::TaskStaging => {
                if self.api.bind(&pod, &hostname) {
                    self.report(agent, container, id, TaskState::TaskStarting, "create-binding-success");
                    self.progress_later(agent, container, id, Duration::from_millis(500));
                } else {
                    self.report(agent, container, id, TaskState::TaskFailed, "create-binding-failure");
                }
            }
            TaskState::TaskStarting => {
                self.api.set_phase(&PodKey::of(&pod.metadata), &uid_of(&pod), "Running");
                self.report.runs += 1;
                self.report(agent, container, id, TaskState::TaskRunning, "");
            }
            _ => {}
        }
    }

    fn task(&self, agent: usize, container: &str, id: &str) -> Option<&Task> {
        self.agents[agent].executors.get(container)?.tasks.get(id)
    }

    /// Tells the agent a task's new state.
    fn report(&mut self, agent: usize, container: &str, id: &str, state: TaskState, message: &str) {
        let uuid: [u8; 16] = self.rng.random();
        self.note(|| format!("executor {container} on {agent}: {id} {state:?} {message}"));
        let Some(executor) = self.agents[agent].executors.get_mut(container) else { return };
        let Some(task) = executor.tasks.get_mut(id) else { return };
        task.state = state;
        let status = TaskStatus {
            task_id: id.into(),
            state: state as i32,
            source: Some(Source::Executor as i32),
            message: Some(message.to_owned()),
            executor_id: Some(executor.executor_id.as_str().into()),
            uuid: Some(uuid.to_vec()),
            ..TaskStatus::default()
        };
        task.updates.push(status.clone());
        let call = Call {
            executor_id: executor.executor_id.as_str().into(),
            framework_id: executor.framework_id.as_str().into(),
            r#type: Some(call::Type::Update as i32),
            update: Some(call::Update { status }),
            ..Call::default()
        };
        // Without a stream the update goes with the next SUBSCRIBE.
        if executor.connection.is_some() {
            let container = container.to_owned();
            let channel = format!("calls{container}");
            self.send(channel, Delivery::ExecutorCall { agent, container, call: Box::new(call) });
        }
    }

    pub(crate) fn executor_call_arrives(&mut self, agent: usize, container: &str, call: Call) {
        let alive = self.agents[agent].executors.get(container).is_some_and(|one| one.connection.is_some());
        let checked = self.agents[agent].core.as_ref().is_some_and(|core| core.check(&call).is_ok());
        if alive && checked {
            self.agent_event(agent, agent::Event::ExecutorCall(call));
        }
    }

    /// Ends a pod that is to end: stopped, deleted from the API server, reported.
    fn end_task(&mut self, agent: usize, container: &str, id: &str) {
        let Some(task) = self.task(agent, container, id).filter(|task| !task.is_over()) else { return };
        let key = PodKey::of(&task.pod.metadata);
        if self.api.down && task.is_bound() {
            // Tried again with the next KILL or scan.
            return;
        }
        if self.api.pods.get(&key).is_some_and(|pod| task_of(pod).as_deref() == Some(id)) {
            self.api.remove(&key);
        }
        self.report(agent, container, id, TaskState::TaskKilled, "");
    }

    /// A pod's program ends by itself.
    pub(crate) fn program_ends(&mut self, agent: usize, container: &str, id: &str, phase: &'static str) {
        let Some(task) = self.task(agent, container, id) else { return };
        let (key, uid) = (PodKey::of(&task.pod.metadata), uid_of(&task.pod));
        self.api.set_phase(&key, &uid, phase);
        let state = if phase == "Succeeded" { TaskState::TaskFinished } else { TaskState::TaskFailed };
        self.report(agent, container, id, state, "");
    }

    /// Executors see that pods of theirs are to be deleted.
    pub(crate) fn scan(&mut self) {
        self.at(SCAN, Delivery::Scan);
        if self.api.down {
            return;
        }
        let deleting: Vec<String> = self
            .api
            .pods
            .values()
            .filter(|pod| pod.metadata.deletion_timestamp.is_some())
            .filter_map(task_of)
            .collect();
        let mut doomed = Vec::new();
        for (agent, host) in self.agents.iter().enumerate() {
            for (container, executor) in &host.executors {
                let mine = executor.tasks.keys().filter(|id| deleting.contains(id));
                doomed.extend(mine.map(|id| (agent, container.clone(), id.clone())));
            }
        }
        for (agent, container, id) in doomed {
            self.end_task(agent, &container, &id);
        }
    }

    /// The process ends with all its pods.
    pub(crate) fn executor_ends(&mut self, agent: usize, container: &str) {
        if self.agents[agent].executors.remove(container).is_some() {
            self.note(|| format!("executor {container} on {agent} ends"));
            let container = container.to_owned();
            self.agent_event(agent, agent::Event::Exited { container, status: Some(9) });
        }
    }

    pub(crate) fn executors_crash(&mut self, agent: usize) {
        let containers: Vec<String> = self.agents[agent].executors.keys().cloned().collect();
        for container in containers {
            self.executor_ends(agent, &container);
        }
    }
}
