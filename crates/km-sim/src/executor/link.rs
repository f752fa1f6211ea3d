//! An executor and its agent: the stream, the calls, and updates that are sent until they are stored.

use std::time::Duration;

use km_executor::tasks::Event;
use km_mesos_core::agent;
use km_mesos_proto::v1::{
    TaskStatus,
    executor::{self, Call, call, event},
};
use rand::Rng;

use super::Executor;
use crate::{
    delivery::{Delivery, ToExecutor},
    queue::Channel,
    world::World,
};

impl Executor {
    fn call(&self, kind: call::Type) -> Call {
        Call {
            executor_id: self.executor_id.as_str().into(),
            framework_id: self.framework_id.as_str().into(),
            r#type: Some(kind as i32),
            ..Call::default()
        }
    }
}

impl World {
    pub(super) fn executor_subscribes(&mut self, agent: usize, container: &str) {
        self.next_connection += 1;
        let stream = self.next_connection;
        let Some(executor) = self.hosts[agent].executors.get_mut(container) else { return };
        if executor.connection.is_some() {
            return;
        }
        let subscribe = call::Subscribe {
            unacknowledged_tasks: executor.pending.tasks(),
            unacknowledged_updates: executor.pending.updates(),
        };
        let call = Call { subscribe: Some(subscribe), ..executor.call(call::Type::Subscribe) };
        let core = self.hosts[agent].core.as_ref();
        if core.is_none_or(|core| core.check(&call).is_err()) {
            self.at_executor(agent, container, Duration::from_millis(500), ToExecutor::Subscribe);
            return;
        }
        if let Some(executor) = self.hosts[agent].executors.get_mut(container) {
            executor.connection = Some(stream);
        }
        self.streams.insert(stream, (agent, container.to_owned()));
        self.agent_event(agent, agent::Event::Subscribe { connection: stream, call });
        self.at_executor(agent, container, Duration::ZERO, ToExecutor::Deliver);
    }

    pub(crate) fn send_to_executor(&mut self, stream: u64, event: Box<executor::Event>) {
        if let Some((agent, container)) = self.streams.get(&stream).cloned() {
            let what = ToExecutor::FromAgent(stream, event);
            self.travel(Channel::FromAgent(stream), Delivery::Executor(agent, container, what));
        }
    }

    pub(crate) fn close_executor_stream(&mut self, stream: u64) {
        if let Some((agent, container)) = self.streams.get(&stream).cloned() {
            let what = ToExecutor::StreamClosed(stream);
            self.travel(Channel::FromAgent(stream), Delivery::Executor(agent, container, what));
        }
    }

    /// The stream breaks; both sides find out. What is on its way to the executor is lost.
    pub(crate) fn break_executor_stream(&mut self, agent: usize) {
        let executors = self.hosts[agent].executors.iter();
        let open: Vec<(String, u64)> =
            executors.filter_map(|(container, one)| Some((container.clone(), one.connection?))).collect();
        for (container, stream) in open {
            self.agent_event(agent, agent::Event::StreamClosed { connection: stream });
            self.executor_stream_closes(agent, &container, stream);
        }
    }

    pub(super) fn executor_stream_closes(&mut self, agent: usize, container: &str, stream: u64) {
        let Some(executor) = self.hosts[agent].executors.get_mut(container) else { return };
        if executor.connection == Some(stream) {
            executor.connection = None;
            self.streams.remove(&stream);
            let pause = self.around(Duration::from_millis(200));
            self.at_executor(agent, container, pause, ToExecutor::Subscribe);
        }
    }

    pub(super) fn executor_hears(&mut self, agent: usize, container: &str, stream: u64, event: executor::Event) {
        let Some(executor) = self.hosts[agent].executors.get_mut(container) else { return };
        if executor.connection != Some(stream) {
            return;
        }
        match event.r#type() {
            event::Type::Launch => {
                let Some(launch) = event.launch else { return };
                executor.pending.launched(launch.task.clone());
                self.task_arrives(agent, container, &launch.task);
                self.executor_event(agent, container, Event::Launch(Box::new(launch.task)));
            }
            event::Type::Kill => {
                let Some(kill) = event.kill else { return };
                self.executor_event(agent, container, Event::Kill { task: kill.task_id.value, grace: None });
            }
            event::Type::Acknowledged => {
                let Some(acknowledged) = event.acknowledged else { return };
                executor.pending.acknowledged(&acknowledged.task_id, &acknowledged.uuid);
                self.leave_when_done(agent, container);
            }
            event::Type::Message => {
                let Some(message) = event.message else { return };
                self.executor_event(agent, container, Event::Message(message.data));
            }
            event::Type::Shutdown => self.executor_event(agent, container, Event::Shutdown),
            _ => {}
        }
    }

    /// Sends a status, as often as it takes.
    pub(super) fn send_status(&mut self, agent: usize, container: &str, mut status: TaskStatus) {
        let uuid: [u8; 16] = self.rng.random();
        status.uuid = Some(uuid.to_vec());
        let (id, state) = (status.task_id.value.clone(), status.state());
        self.note(|| format!("executor {container} on {agent}: {id} {state:?} {}", status.message()));
        let Some(executor) = self.hosts[agent].executors.get_mut(container) else { return };
        executor.pending.sending(status.clone());
        executor.outgoing.push_back(status);
        if executor.outgoing.len() == 1 {
            self.at_executor(agent, container, Duration::ZERO, ToExecutor::Deliver);
        }
    }

    pub(super) fn send_first_update(&mut self, agent: usize, container: &str) {
        let Some(executor) = self.hosts[agent].executors.get_mut(container) else { return };
        let open = executor.pending.updates();
        while let Some(first) = executor.outgoing.front()
            && !open.iter().any(|update| update.status.uuid == first.uuid)
        {
            executor.outgoing.pop_front();
        }
        // Without a stream it goes on with the next subscription.
        let Some(status) = executor.outgoing.front().cloned().filter(|_| executor.connection.is_some()) else { return };
        let stream = executor.connection.unwrap_or_default();
        let call = Call { update: Some(call::Update { status }), ..executor.call(call::Type::Update) };
        if self.mishap(0.02) {
            // It arrives, but its answer doesn't: it is sent again.
            let what = ToExecutor::Call(Box::new(call));
            self.travel(Channel::ToAgent(stream), Delivery::Executor(agent, container.to_owned(), what));
            self.at_executor(agent, container, Duration::from_secs(1), ToExecutor::Deliver);
            return;
        }
        if let Some(executor) = self.hosts[agent].executors.get_mut(container) {
            executor.outgoing.pop_front();
        }
        let what = ToExecutor::Call(Box::new(call));
        self.travel(Channel::ToAgent(stream), Delivery::Executor(agent, container.to_owned(), what));
        self.travel(Channel::ToAgent(stream), Delivery::Executor(agent, container.to_owned(), ToExecutor::Deliver));
    }

    pub(super) fn executor_call_arrives(&mut self, agent: usize, call: Call) {
        if self.hosts[agent].core.as_ref().is_some_and(|core| core.check(&call).is_ok()) {
            self.agent_event(agent, agent::Event::ExecutorCall(call));
        }
    }
}
