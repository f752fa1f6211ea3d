//! The executor API: `POST /api/v1/executor`. Checks in the order of Apache Mesos, then the effects.

use std::{collections::BTreeSet, time::Duration};

use km_mesos_proto::v1::{
    self, TaskState,
    executor::{Call, Event, call, event},
    task_status::{Reason, Source},
};

use super::{Action, Agent, Phase, Refusal, executor::State, kill::shutdown_event, timers::Timer};
use crate::link::AgentMessage;

/// How often an idle executor stream shows life.
const HEARTBEAT: Duration = Duration::from_secs(30 * 60);

impl Agent {
    /// Whether a call would be taken now; if not, how to answer it.
    pub fn check(&self, call: &Call) -> Result<(), Refusal> {
        validate(call).map_err(|why| Refusal::new(400, format!("Failed to validate Executor::Call: {why}")))?;
        let kind = call.r#type();
        match kind {
            call::Type::Heartbeat => return Ok(()),
            call::Type::Unknown => return Err(Refusal::new(501, "501 Not Implemented.")),
            _ => {}
        }
        if self.phase == Phase::Recovering && kind != call::Type::Subscribe {
            return Err(Refusal::new(503, "Agent has not finished recovery"));
        }
        let framework = self.frameworks.get(&call.framework_id.value);
        let framework = framework.ok_or_else(|| Refusal::new(400, "Framework cannot be found"))?;
        let executor = framework.executors.get(&call.executor_id.value).filter(|executor| !executor.is_built_in());
        let executor = executor.ok_or_else(|| Refusal::new(400, "Executor cannot be found"))?;
        if executor.state == State::Registering && kind != call::Type::Subscribe {
            return Err(Refusal::new(403, "Executor is not subscribed"));
        }
        Ok(())
    }

    pub(super) fn subscribe(&mut self, connection: u64, call: Call) {
        let (framework_id, executor_id) = (call.framework_id.value, call.executor_id.value);
        let subscribe = call.subscribe.unwrap_or_default();
        let Some(executor) = self.executor_mut(&framework_id, &executor_id) else {
            self.act(Action::CloseStream { connection });
            return;
        };
        executor.launched = true;
        let old = executor.connection.replace(connection);
        let terminating = executor.state == State::Terminating;
        if !terminating {
            executor.state = State::Running;
        }
        if let Some(connection) = old {
            self.act(Action::CloseStream { connection });
        }
        if terminating {
            self.tell(&framework_id, &executor_id, shutdown_event());
            return;
        }
        self.timers.cancel(&Timer::Executor(framework_id.clone(), executor_id.clone()));
        if !self.shut_down_when_idle(&framework_id, &executor_id) {
            self.welcome(&framework_id, &executor_id, subscribe);
        }
        if self.phase == Phase::Recovering && self.unsubscribed().is_empty() {
            self.end_recovery();
        }
    }

    fn welcome(&mut self, framework_id: &str, executor_id: &str, subscribe: call::Subscribe) {
        if let Some(event) = self.subscribed_event(framework_id, executor_id) {
            self.tell(framework_id, executor_id, event);
        }
        for update in subscribe.unacknowledged_updates {
            self.executor_update(framework_id, executor_id, update.status);
        }
        let kept: BTreeSet<&str> =
            subscribe.unacknowledged_tasks.iter().map(|task| task.task_id.value.as_str()).collect();
        for task_id in self.live_tasks(framework_id, executor_id) {
            let Some(task) = self.task(framework_id, &task_id) else { continue };
            if task.delivered && task.state == TaskState::TaskStaging && !kept.contains(task_id.as_str()) {
                let Some(state) = self.frameworks.get(framework_id).map(|framework| framework.dropped()) else {
                    return;
                };
                let message = "Task launched during agent restart";
                let status = self.status(&task_id, state, Some(Reason::AgentRestarted), message);
                self.update(framework_id, executor_id, status);
            }
        }
        if self.shut_down_when_idle(framework_id, executor_id) {
            return;
        }
        self.deliver(framework_id, executor_id);
        self.deliver_kills(framework_id, executor_id);
        if !self.timers.is_set(&Timer::Heartbeat) {
            self.timers.set(Timer::Heartbeat, self.now + HEARTBEAT);
        }
    }

    fn subscribed_event(&self, framework_id: &str, executor_id: &str) -> Option<Event> {
        let framework = self.frameworks.get(framework_id)?;
        let executor = framework.executors.get(executor_id)?;
        Some(Event {
            r#type: Some(event::Type::Subscribed.into()),
            subscribed: Some(event::Subscribed {
                executor_info: executor.info.clone(),
                framework_info: framework.info.clone(),
                // As the agent was started: reservations that came later are not in it.
                agent_info: v1::AgentInfo { resources: self.config.info.resources.clone(), ..self.info.clone() },
                container_id: Some(v1::ContainerId { value: executor.container.clone(), parent: None }),
            }),
            ..Default::default()
        })
    }

    pub(super) fn executor_call(&mut self, call: Call) {
        let (framework_id, executor_id) = (call.framework_id.clone(), call.executor_id.clone());
        match call.r#type() {
            call::Type::Update => {
                if let Some(update) = call.update {
                    self.executor_update(&framework_id.value, &executor_id.value, update.status);
                }
            }
            call::Type::Message => {
                let data = call.message.map(|message| message.data).unwrap_or_default();
                self.send(AgentMessage::FrameworkMessage { framework_id, executor_id, data });
            }
            call::Type::Unknown | call::Type::Subscribe | call::Type::Heartbeat => {}
        }
    }

    /// An update of an executor: kept, then confirmed to the executor, which may forget it.
    fn executor_update(&mut self, framework_id: &str, executor_id: &str, status: v1::TaskStatus) {
        if status.agent_id.as_ref().is_some_and(|id| *id != self.agent_id()) {
            tracing::warn!(task = status.task_id.value, "ignoring an update that names another agent");
            return;
        }
        let acknowledged =
            event::Acknowledged { task_id: status.task_id.clone(), uuid: status.uuid.clone().unwrap_or_default() };
        self.update(framework_id, executor_id, status);
        let event = Event {
            r#type: Some(event::Type::Acknowledged.into()),
            acknowledged: Some(acknowledged),
            ..Default::default()
        };
        self.tell(framework_id, executor_id, event);
    }

    pub(super) fn message_to_executor(&mut self, framework: &str, executor: &str, data: Vec<u8>) {
        let message = Some(event::Message { data });
        let event = Event { r#type: Some(event::Type::Message.into()), message, ..Default::default() };
        self.tell(framework, executor, event);
    }

    pub(super) fn stream_closed(&mut self, connection: u64) {
        let executors = self.frameworks.values_mut().flat_map(|framework| framework.executors.values_mut());
        for executor in executors.filter(|executor| executor.connection == Some(connection)) {
            executor.connection = None;
        }
    }

    pub(super) fn heartbeat(&mut self) {
        let executors = self.frameworks.values().flat_map(|framework| framework.executors.values());
        let connections: Vec<u64> = executors.filter_map(|executor| executor.connection).collect();
        if connections.is_empty() {
            return;
        }
        for connection in connections {
            let event = Event { r#type: Some(event::Type::Heartbeat.into()), ..Default::default() };
            self.act(Action::SendEvent { connection, event: Box::new(event) });
        }
        self.timers.set(Timer::Heartbeat, self.now + HEARTBEAT);
    }
}

/// What a call must hold regardless of what the agent knows.
fn validate(call: &Call) -> Result<(), String> {
    if call.r#type.is_none() {
        return Err("Expecting 'type' to be present".to_owned());
    }
    let missing = |name: &str| Err(format!("Expecting '{name}' to be present"));
    match call.r#type() {
        call::Type::Subscribe if call.subscribe.is_none() => missing("subscribe"),
        call::Type::Message if call.message.is_none() => missing("message"),
        call::Type::Update => match &call.update {
            Some(update) => validate_status(&update.status, call),
            None => missing("update"),
        },
        _ => Ok(()),
    }
}

fn validate_status(status: &v1::TaskStatus, call: &Call) -> Result<(), String> {
    match &status.uuid {
        None => return Err("Expecting 'uuid' to be present".to_owned()),
        Some(uuid) if uuid.len() != 16 => return Err("Not a valid UUID".to_owned()),
        Some(_) => {}
    }
    let own = &call.executor_id.value;
    if let Some(other) = status.executor_id.as_ref().filter(|id| **id != call.executor_id) {
        return Err(format!("ExecutorID in Call: {own} does not match ExecutorID in TaskStatus: {}", other.value));
    }
    let who = format!("executor {own} of framework {}", call.framework_id.value);
    if status.source != Some(Source::Executor.into()) {
        return Err(format!("Received Call from {who} with invalid source, expecting 'SOURCE_EXECUTOR'"));
    }
    if status.state() == TaskState::TaskStaging {
        return Err(format!("Received TASK_STAGING from {who} which is not allowed"));
    }
    Ok(())
}
