//! The subscription with the master.

use std::{sync::Arc, time::Duration};

use km_mesos_core::master::{self, ConnectionId};
use km_mesos_proto::v1::{
    self, TaskState,
    scheduler::{self, event},
};
use km_scheduler::{
    core::{Event, Subscription},
    wire,
};

use super::Heard;
use crate::{
    delivery::{ToScheduler, Wire},
    framework::Said,
    world::{Peer, World},
};

/// How often the operator API is asked for the agents.
const AGENTS_INTERVAL: Duration = Duration::from_secs(5);
/// The longest time from an executor's end to the answer to an ACCEPT that didn't know of it.
const LATELY: Duration = Duration::from_secs(15);

impl World {
    pub(super) fn subscribe(&mut self, process: usize) {
        let Some(core) = self.schedulers[process].core.as_ref() else { return };
        let said = Said { framework: Arc::clone(core.framework()), suppressed: core.wants_no_offers() };
        let id = self.schedulers[process].framework_id.clone().map(v1::FrameworkId::from);
        let framework_info = v1::FrameworkInfo { id, ..said.framework.info.clone() };
        let subscribe = scheduler::call::Subscribe {
            suppressed_roles: if said.suppressed { framework_info.roles.clone() } else { Vec::new() },
            offer_constraints: wire::some_constraints(said.framework.constraints.clone()),
            framework_info,
        };
        let connection = self.open(Peer::Scheduler(process));
        self.schedulers[process].said = Some(said);
        self.schedulers[process].connection = Some(connection);
        self.send_to_master(connection, Wire::Subscribe(Box::new(subscribe)));
    }

    /// Ends the subscription, and begins another that says what the framework is now.
    pub(super) fn resubscribe(&mut self, process: usize, connection: ConnectionId) {
        if self.schedulers[process].connection == Some(connection) {
            self.closed_by_peer(connection);
            self.scheduler_loses(process, connection);
        }
    }

    /// A SUBSCRIBE of any framework.
    pub(crate) fn subscribe_arrives(
        &mut self,
        connection: ConnectionId,
        mut subscribe: Box<scheduler::call::Subscribe>,
    ) {
        if !self.master_updates(self.master_lives) {
            // An unknown field.
            subscribe.offer_constraints = None;
        }
        if self.master.is_none() {
            self.closed_by_master(connection);
            return;
        }
        let stream_id = stream_id(connection);
        self.master_event(master::Event::Subscribe { connection, stream_id, principal: None, subscribe });
    }

    /// Both sides find out, each in its own time.
    pub(crate) fn break_scheduler_stream(&mut self, process: usize) {
        if let Some(connection) = self.schedulers[process].connection {
            self.break_connection(connection);
        }
    }

    pub(crate) fn scheduler_loses(&mut self, process: usize, connection: ConnectionId) {
        if self.schedulers[process].connection != Some(connection) {
            return;
        }
        self.schedulers[process].connection = None;
        self.schedulers[process].subscribed = false;
        self.offers.forget(process);
        self.scheduler_event(process, Event::Disconnected);
        let pause = self.around(Duration::from_millis(500));
        self.at_scheduler(process, pause, ToScheduler::Subscribe);
    }

    pub(crate) fn scheduler_hears(&mut self, process: usize, connection: ConnectionId, wire: scheduler::Event) {
        if self.schedulers[process].connection != Some(connection) || self.schedulers[process].core.is_none() {
            return;
        }
        match wire.r#type() {
            event::Type::Subscribed => {
                let id = wire.subscribed.map(|subscribed| subscribed.framework_id.value).unwrap_or_default();
                self.subscribed(process, id);
            }
            event::Type::Error => {
                let message = wire.error.map(|error| error.message).unwrap_or_default();
                self.note(|| format!("scheduler {process} hears ERROR: {message}"));
                if message.contains("failed over") {
                    self.scheduler_ends(process);
                } else {
                    self.violate(|| format!("the master refuses the framework: {message}"));
                }
            }
            _ => {
                if let Some(event) = wire::translate(wire) {
                    self.look_at(process, &event);
                    self.scheduler_event(process, event);
                }
            }
        }
    }

    fn subscribed(&mut self, process: usize, id: String) {
        // The id is stored before anything is launched; without an API server that has to wait.
        if self.schedulers[process].framework_id.as_ref() != Some(&id) {
            if !self.reaches_api(process) {
                self.break_scheduler_stream(process);
                return;
            }
            self.api.keep_framework(Some(id.clone()));
            self.schedulers[process].framework_id = Some(id.clone());
        }
        self.schedulers[process].subscribed = true;
        self.note(|| format!("scheduler {process} is subscribed"));
        let life = self.schedulers[process].connection.and_then(|connection| self.life_reached(connection));
        let updates = life.is_some_and(|life| self.master_updates(life));
        let Some(Said { framework, suppressed }) = self.schedulers[process].said.clone() else { return };
        let subscription = Subscription { framework_id: id, suppressed, framework, updates };
        self.scheduler_event(process, Event::Subscribed(Box::new(subscription)));
        if let Some(connection) = self.schedulers[process].connection {
            self.at_scheduler(process, Duration::from_millis(100), ToScheduler::PollAgents(connection));
        }
    }

    /// Keeps the books of what the scheduler hears.
    fn look_at(&mut self, process: usize, event: &Event) {
        match event {
            Event::Offers(offers) => self.offers.received(process, offers),
            Event::Rescinded(id) => self.offers.rescinded(process, &id.value),
            Event::Update(status) => {
                let (id, state, reason) = (&status.task_id.value, status.state(), status.reason());
                let uuid = if status.uuid.is_some() { "to be acknowledged" } else { "" };
                self.note(|| {
                    format!("scheduler {process} hears {id} {state:?} {reason:?} {} {uuid}", status.message())
                });
                if state == TaskState::TaskError && !self.executor_ended_lately(status.agent_id.as_ref()) {
                    self.violate(|| format!("invariant 2: the master refuses {id}: {}", status.message()));
                }
                if let Some(uuid) = status.uuid.clone() {
                    let new = || Heard { task: id.clone(), ending: is_ending(state), open: 0 };
                    self.schedulers[process].heard.entry(uuid).or_insert_with(new).open += 1;
                }
            }
            _ => {}
        }
    }

    /// Whether the executor of an agent may have ended between an offer and its use: then the offer need not hold what a
    /// new one takes, and the master refuses the tasks.
    fn executor_ended_lately(&self, agent_id: Option<&v1::AgentId>) -> bool {
        let id = agent_id.map(|id| id.value.as_str());
        let of_agent = |number: &usize| self.agent_id(*number).as_deref() == id;
        let host = (0..self.hosts.len()).find(of_agent).map(|number| &self.hosts[number]);
        host.is_none_or(|host| host.executor_ended.is_some_and(|ended| self.now < ended + LATELY))
    }

    pub(super) fn poll_agents(&mut self, process: usize, connection: ConnectionId) {
        if self.schedulers[process].connection != Some(connection) {
            return;
        }
        self.at_scheduler(process, AGENTS_INTERVAL, ToScheduler::PollAgents(connection));
        let schedule = self.maintenance_schedule();
        if let Some(agents) = self.list_agents() {
            let agents = agents.into_iter().filter_map(|agent| wire::seen(agent, schedule.as_ref()));
            self.scheduler_event(process, Event::Agents(agents.collect()));
        }
    }
}

fn is_ending(state: TaskState) -> bool {
    use TaskState::{TaskKilling, TaskRunning, TaskStaging, TaskStarting, TaskUnknown, TaskUnreachable};
    !matches!(state, TaskStaging | TaskStarting | TaskRunning | TaskKilling | TaskUnreachable | TaskUnknown)
}

/// The header `Mesos-Stream-Id` of a subscription.
pub(super) fn stream_id(connection: ConnectionId) -> String {
    format!("stream-{}", connection.0)
}
