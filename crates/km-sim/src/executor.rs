//! Executors: their core and their pods' machines, over a simulated container runtime.

mod api;
mod link;
mod pods;
mod tasks;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use km_executor::tasks::{Event, Settings, Tasks};
use km_mesos_client::Unacknowledged;
use km_mesos_core::agent::{self, Launch};
use km_mesos_proto::v1::TaskStatus;

use crate::{
    delivery::{Delivery, ToExecutor},
    world::World,
};
use pods::Running;

/// How often an executor sees to its Node.
const NODE_INTERVAL: Duration = Duration::from_secs(10);

/// One executor process.
pub(crate) struct Executor {
    framework_id: String,
    executor_id: String,
    /// The stream from the agent, when there is one.
    pub connection: Option<u64>,
    tasks: Tasks,
    /// What the agent has not stored yet.
    pending: Unacknowledged,
    /// Updates to be sent, one after the other.
    outgoing: VecDeque<TaskStatus>,
    /// Pods that run, by UID.
    pods: BTreeMap<String, Running>,
    /// The number of its watch, and whether that has listed.
    watch: Option<u64>,
    watching: bool,
    /// It is to end once its updates are stored.
    leaving: bool,
}

impl World {
    pub(crate) fn launch_executor(&mut self, agent: usize, launch: Launch) {
        let settings = Settings { suicide_timeout: Duration::ZERO, shutdown_grace: Duration::from_secs(3) };
        let executor = Executor {
            framework_id: launch.framework_id,
            executor_id: launch.executor_id,
            connection: None,
            tasks: Tasks::new(settings),
            pending: Unacknowledged::default(),
            outgoing: VecDeque::new(),
            pods: BTreeMap::new(),
            watch: None,
            watching: false,
            leaving: false,
        };
        let container = launch.container;
        self.note(|| format!("agent {agent} launches executor {container}"));
        self.hosts[agent].executors.insert(container.clone(), executor);
        let delay = self.around(Duration::from_millis(300));
        self.at_executor(agent, &container, delay, ToExecutor::Register);
    }

    pub(crate) fn at_executor(&mut self, agent: usize, container: &str, delay: Duration, what: ToExecutor) {
        self.at(delay, Delivery::Executor(agent, container.to_owned(), what));
    }

    pub(crate) fn bring_to_executor(&mut self, agent: usize, container: &str, what: ToExecutor) {
        match what {
            ToExecutor::Register => self.register_node(agent, container),
            ToExecutor::Subscribe => self.executor_subscribes(agent, container),
            ToExecutor::FromAgent(stream, event) => self.executor_hears(agent, container, stream, *event),
            ToExecutor::StreamClosed(stream) => self.executor_stream_closes(agent, container, stream),
            ToExecutor::Call(call) => self.executor_call_arrives(agent, *call),
            ToExecutor::Deliver => self.send_first_update(agent, container),
            ToExecutor::Bind(task, pod) => self.try_to_bind(agent, container, task, pod),
            ToExecutor::Bound(task, result) => self.executor_event(agent, container, Event::Bound { task, result }),
            ToExecutor::Watch(number, change) => self.pod_watch_delivers(agent, container, number, &change),
            ToExecutor::Relist(number) => self.pod_watch_lists(agent, container, number),
            ToExecutor::Machine(uid, event) => self.machine_event(agent, container, &uid, *event),
            ToExecutor::PodTimer(uid, at) => self.pod_timer(agent, container, &uid, at),
            ToExecutor::WriteStatus(uid) => self.try_to_write_status(agent, container, &uid),
            ToExecutor::DeletePod(key, then) => self.try_to_delete(agent, container, key, then),
        }
    }

    /// The executor sees to it that its Node exists. The first time it starts its work.
    fn register_node(&mut self, agent: usize, container: &str) {
        let Some(executor) = self.hosts[agent].executors.get(container) else { return };
        if executor.watch.is_none() && executor.connection.is_none() {
            self.agent_event(agent, agent::Event::Launched { container: container.to_owned(), pid: 1 });
            self.executor_subscribes(agent, container);
            self.open_pod_watch(agent, container, Duration::ZERO);
        }
        if !self.api.down && !self.mishap(0.02) {
            let name = self.hosts[agent].hostname.clone();
            let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            self.api.create_node(Node { metadata, ..Node::default() });
        }
        self.at_executor(agent, container, NODE_INTERVAL, ToExecutor::Register);
    }

    /// The process ends with all its pods.
    pub(crate) fn executor_ends(&mut self, agent: usize, container: &str) {
        let Some(executor) = self.hosts[agent].executors.remove(container) else { return };
        self.note(|| format!("executor {container} on {agent} ends"));
        if let Some(stream) = executor.connection {
            self.streams.remove(&stream);
        }
        self.hosts[agent].executor_ended = Some(self.now);
        self.runs.executor_ended(agent, container);
        self.agent_event(agent, agent::Event::Exited { container: container.to_owned(), status: Some(9) });
    }

    pub(crate) fn executors_crash(&mut self, agent: usize) {
        let containers: Vec<String> = self.hosts[agent].executors.keys().cloned().collect();
        for container in containers {
            self.executor_ends(agent, &container);
        }
    }
}
