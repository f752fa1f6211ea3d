//! Agents register, re-register, are pinged and lose their connection.

use std::time::Duration;

use km_mesos_proto::{
    resources::Resources,
    v1::{
        self, TaskState,
        task_status::{Reason, Source},
    },
};

use super::{
    ConnectionId, Master, Peer, RegisteredAgent,
    agent::Agent,
    calls,
    event::Timer,
    task::{Task, master_status, terminal},
    validation,
};
use crate::link::MasterMessage;

/// What an agent brings along.
pub(super) struct Registration {
    pub info: v1::AgentInfo,
    /// As reservations and volumes have shaped them.
    pub resources: Vec<v1::Resource>,
    pub version: String,
    pub ip: String,
    pub frameworks: Vec<v1::FrameworkInfo>,
    pub executors: Vec<(v1::FrameworkId, v1::ExecutorInfo)>,
    pub tasks: Vec<v1::Task>,
    pub operations: Vec<v1::Operation>,
}

impl Master {
    pub(super) fn register(&mut self, connection: ConnectionId, mut registration: Registration) {
        let again = registration.info.id.is_some();
        self.counters.count(if again { "messages_reregister_slave" } else { "messages_register_slave" });
        if registration.resources.is_empty() {
            registration.resources = registration.info.resources.clone();
        }
        let lists = [&registration.info.resources, &registration.resources];
        if let Some(reason) = lists.into_iter().find_map(|list| validation::resource::list(list).err()) {
            self.refuse_agent(connection, format!("Invalid agent resources: {reason}"));
            return;
        }
        if self.is_down(&registration.info.hostname, &registration.ip) {
            self.refuse_agent(connection, "Machine is DOWN for maintenance".to_owned());
            return;
        }
        let id = registration.info.id.as_ref().map(|id| id.value.clone()).filter(|id| !id.is_empty());
        let id = match id {
            Some(id) if self.gone.contains_key(&id) => {
                self.refuse_agent(connection, "Agent has been marked gone".to_owned());
                return;
            }
            Some(id) => id,
            None => self.new_agent_id(),
        };
        registration.info.id = Some(v1::AgentId { value: id.clone() });
        let disconnected_twin = self.twin_of(&id, &registration);
        if let Some(twin) = disconnected_twin {
            self.counters.count("slave_removals/reason_registered");
            self.remove_agent(&twin, Reason::AgentRemoved, "a new agent registered at the same address");
        }
        if self.agents.contains_key(&id) {
            self.reregister_known(connection, &id, registration);
        } else {
            self.add_agent(connection, &id, registration);
        }
        self.check_drains();
    }

    fn new_agent_id(&mut self) -> String {
        let id = format!("{}-S{}", self.config.info.id, self.next_agent);
        self.next_agent += 1;
        id
    }

    fn refuse_agent(&mut self, connection: ConnectionId, message: String) {
        let message = Box::new(MasterMessage::Refused { message });
        self.out.push(super::Action::ToAgent { connection, message });
        self.out.push(super::Action::Close(connection));
    }

    /// Another, disconnected agent at the same address: that one lost its memory and will never come back (X108).
    fn twin_of(&self, id: &str, registration: &Registration) -> Option<String> {
        let port = registration.info.port.unwrap_or(5051);
        let twin = |agent: &&Agent| {
            agent.id != id
                && !agent.connected()
                && agent.ip == registration.ip
                && agent.info.hostname == registration.info.hostname
                && agent.info.port.unwrap_or(5051) == port
        };
        let mut on_host = self.hosts.on(&registration.info.hostname).filter_map(|id| self.agents.get(id));
        on_host.find(twin).map(|agent| agent.id.clone())
    }

    /// An agent that the master has on its books connects anew.
    fn reregister_known(&mut self, connection: ConnectionId, id: &str, mut registration: Registration) {
        self.rescind_offers_of_agent(id);
        let Some(agent) = self.agents.get_mut(id) else { return };
        let old = agent.connection.replace(connection);
        agent.missed_pings = 0;
        agent.reregistered = Some(self.now);
        agent.version = registration.version.clone();
        agent.ip = registration.ip.clone();
        let changed = agent.info != registration.info;
        self.hosts.remove(&agent.info.hostname, id);
        self.hosts.add(&registration.info.hostname, id);
        agent.info = registration.info.clone();
        agent.total = validation::resource::read(&registration.resources);
        if let Some(old) = old.filter(|old| *old != connection) {
            self.close(old);
        }
        self.peers.insert(connection, Peer::Agent(id.to_owned()));
        self.greet_agent(id);
        self.merge_executors(id, &registration);
        self.merge_operations(id, std::mem::take(&mut registration.operations));
        self.merge_tasks(id, registration);
        self.resync_agent(id);
        if changed {
            self.persist_agent(id);
        }
    }

    /// An agent that is new, comes back from being unreachable, or is back after the master's restart.
    fn add_agent(&mut self, connection: ConnectionId, id: &str, mut registration: Registration) {
        let was_recovered = self.recovered.remove(id);
        let was_unreachable = self.unreachable.remove(id);
        let memory = was_recovered.or_else(|| self.unreachable_drains.remove(id));
        let returns = was_unreachable.is_some() || memory.is_some() || !registration.tasks.is_empty();
        let info = registration.info.clone();
        let mut agent =
            Agent::new(id.to_owned(), info, registration.version.clone(), registration.ip.clone(), self.now);
        agent.connection = Some(connection);
        agent.total = validation::resource::read(&registration.resources);
        agent.reregistered = returns.then_some(self.now);
        if let Some(memory) = memory {
            agent.deactivated = memory.deactivated;
            agent.drain = memory.drain;
            agent.drain_start = memory.drain_start;
            self.draining.insert(id.to_owned());
        }
        self.hosts.add(&agent.info.hostname, id);
        self.agents.insert(id.to_owned(), agent);
        self.peers.insert(connection, Peer::Agent(id.to_owned()));
        self.counters.count(if returns { "slave_reregistrations" } else { "slave_registrations" });
        self.persist_agent(id);
        self.greet_agent(id);
        self.agent_added_event(id);
        self.merge_executors(id, &registration);
        self.merge_operations(id, std::mem::take(&mut registration.operations));
        self.merge_tasks(id, registration);
        self.resync_agent(id);
        self.arm(self.config.agent_ping_timeout, Timer::Ping(id.to_owned()));
    }

    fn greet_agent(&mut self, id: &str) {
        let silence = self.config.agent_ping_timeout * self.config.max_agent_ping_timeouts.max(1);
        let ping_timeout_ms = u64::try_from(silence.as_millis()).unwrap_or(u64::MAX);
        self.tell_agent(
            id,
            MasterMessage::Registered { agent_id: v1::AgentId { value: id.to_owned() }, ping_timeout_ms },
        );
    }

    /// The executors that the agent lists are those that are there.
    fn merge_executors(&mut self, id: &str, registration: &Registration) {
        for framework in &registration.frameworks {
            self.recover_framework(framework.clone());
        }
        let known = |framework: &str| self.frameworks.contains_key(framework);
        let listed: Vec<_> = registration.executors.iter().filter(|(framework, _)| known(&framework.value)).collect();
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.executors.clear();
        for (framework, executor) in listed {
            let executors = agent.executors.entry(framework.value.clone()).or_default();
            executors.insert(executor.executor_id.value.clone(), executor.clone());
        }
    }

    /// The tasks that the agent lists are those that are there; what the master launched and the agent never got is
    /// lost, and what belongs to frameworks that are gone is ended.
    fn merge_tasks(&mut self, id: &str, registration: Registration) {
        let listed: std::collections::BTreeSet<(String, String)> = registration
            .tasks
            .iter()
            .map(|task| (task.framework_id.value.clone(), task.task_id.value.clone()))
            .collect();
        let booked = self.agents.get(id).map(|agent| agent.tasks.clone()).unwrap_or_default();
        for (framework, task) in booked.difference(&listed) {
            let task = self.detach_task(framework, task);
            self.lose_undelivered(framework, task);
        }
        for (framework, task) in self.unreachable_on(id) {
            if !listed.contains(&(framework.clone(), task.clone())) {
                let found = self.frameworks.get_mut(&framework);
                let task = found.and_then(|found| found.unreachable_tasks.remove(&task));
                self.lose_undelivered(&framework, task);
            }
        }
        let mut orphans = std::collections::BTreeSet::new();
        for task in registration.tasks {
            if self.frameworks.contains_key(&task.framework_id.value) {
                self.merge_task(id, task);
            } else {
                orphans.insert(task.framework_id.value.clone());
            }
        }
        let foreign = registration.executors.iter().map(|(framework, _)| framework.value.clone());
        orphans.extend(foreign.filter(|framework| !self.frameworks.contains_key(framework)));
        for framework in orphans {
            self.tell_agent(id, MasterMessage::ShutdownFramework { framework_id: calls::framework_id(&framework) });
        }
    }

    /// The master launched it, but the agent does not know it: the message never arrived (M255).
    fn lose_undelivered(&mut self, framework: &str, task: Option<v1::Task>) {
        let (Some(mut task), Some(found)) = (task, self.frameworks.get(framework)) else { return };
        let state = found.lost_state(TaskState::TaskDropped);
        if terminal(super::task::state_of(task.state)) {
            // Its terminal status was acknowledged on the agent's side, and only the master's word of it got lost; or
            // it was called lost when the agent was.
            self.keep_completed(framework, task);
            return;
        }
        let message = "Task is unknown to the agent";
        let mut status =
            master_status(&task.task_id, Some(&task.agent_id), state, Reason::Reconciliation, message, self.now);
        status.source = Some(Source::Agent as i32);
        task.state = state as i32;
        super::task::remember_status(&mut task, &status);
        self.counters.count_status(&status);
        self.task_updated_event(framework, &status, state);
        self.send_update(framework, status);
        self.keep_completed(framework, task);
    }

    pub(super) fn keep_completed(&mut self, framework: &str, task: v1::Task) {
        let limit = self.config.max_completed_tasks_per_framework;
        if let Some(framework) = self.frameworks.get_mut(framework) {
            framework.complete(task, limit);
        }
    }

    fn merge_task(&mut self, agent_id: &str, reported: v1::Task) {
        let (framework_id, task_id) = (reported.framework_id.value.clone(), reported.task_id.value.clone());
        let Some(framework) = self.frameworks.get_mut(&framework_id) else { return };
        let was_unreachable = framework.unreachable_tasks.remove(&task_id);
        let known = framework.tasks.contains_key(&task_id);
        if known {
            // What changed meanwhile comes as updates.
            if let Some(agent) = self.agents.get_mut(agent_id) {
                agent.tasks.insert((framework_id, task_id));
            }
            return;
        }
        let task = framework.tasks.entry(task_id.clone()).or_insert_with(|| {
            let mut info = reported.clone();
            if let Some(old) = &was_unreachable {
                info.statuses = old.statuses.clone();
            }
            Task::known(info)
        });
        if was_unreachable.is_some() {
            // The state to tell is the agent's, not the one the master made up when it lost sight.
            task.info.status_update_state = reported.status_update_state.or(Some(reported.state));
        }
        let told = task.clone();
        if let Some(agent) = self.agents.get_mut(agent_id) {
            agent.tasks.insert((framework_id.clone(), task_id));
        }
        if was_unreachable.is_some() {
            let status = self.retold(&told, Reason::AgentReregistered, "Unreachable agent re-reregistered");
            let state = super::task::state_of(status.state);
            if let Some(task) =
                self.frameworks.get_mut(&framework_id).and_then(|found| found.tasks.get_mut(&told.info.task_id.value))
            {
                super::task::remember_status(&mut task.info, &status);
            }
            self.task_updated_event(&framework_id, &status, state);
            self.send_update(&framework_id, status);
        } else {
            self.task_added_event(told.info);
        }
    }

    /// After the books were merged: what is used is counted anew, the allocator learns it, kills are repeated.
    fn resync_agent(&mut self, id: &str) {
        let Some(agent) = self.agents.get(id) else { return };
        let (before, kills) = (agent.used.clone(), agent.killed.clone());
        let used = self.used_on(id);
        self.allocator.remove_agent(id, &before);
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.used = used;
        self.allocator.add_agent(id, &agent.info, &agent.total, &agent.used);
        let offerable = agent.offerable();
        self.allocator.set_agent_active(id, offerable);
        let frameworks: Vec<String> = agent.executors.keys().cloned().collect();
        for framework in frameworks {
            if let Some(framework) = self.frameworks.get(&framework).filter(|found| !found.recovered) {
                let framework = framework.info.clone();
                self.tell_agent(id, MasterMessage::UpdateFramework { framework });
            }
        }
        for ((framework, task), kill_policy) in kills {
            let (framework_id, task_id) = (calls::framework_id(&framework), v1::TaskId { value: task });
            self.tell_agent(id, MasterMessage::KillTask { framework_id, task_id, kill_policy });
        }
        self.drain_again(id);
    }

    /// What tasks that are not over and executors hold on an agent.
    fn used_on(&self, id: &str) -> std::collections::BTreeMap<String, Resources> {
        let mut used = std::collections::BTreeMap::<String, Resources>::new();
        let Some(agent) = self.agents.get(id) else { return used };
        for (framework, task) in &agent.tasks {
            let task = self.frameworks.get(framework).and_then(|found| found.tasks.get(task));
            if let Some(task) = task.filter(|task| !task.terminal()) {
                *used.entry(framework.clone()).or_default() += &task.resources;
            }
        }
        for (framework, executors) in &agent.executors {
            for executor in executors.values() {
                *used.entry(framework.clone()).or_default() += validation::resource::read(&executor.resources);
            }
        }
        used
    }

    pub(super) fn ping(&mut self, id: &str) {
        let limit = self.config.max_agent_ping_timeouts;
        let Some(agent) = self.agents.get_mut(id) else { return };
        if agent.missed_pings >= limit {
            self.mark_unreachable(id, "health check timed out");
            return;
        }
        agent.missed_pings += 1;
        self.tell_agent(id, MasterMessage::Ping);
        self.arm(self.config.agent_ping_timeout, Timer::Ping(id.to_owned()));
    }

    /// The stream broke. The agent stays on the books; its pings go on missing until it is back or unreachable.
    pub(super) fn agent_disconnected(&mut self, id: &str) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.connection = None;
        self.allocator.set_agent_active(id, false);
        self.rescind_offers_of_agent(id);
        self.lose_unchecked_frameworks(id);
    }

    /// An agent known from the registry did not come back in time.
    pub(super) fn recovered_agent_lost(&mut self, id: &str) {
        let Some(agent) = self.recovered.remove(id) else { return };
        self.counters.count("recovery_slave_removals");
        self.remember_unreachable(id, agent);
        self.counters.count("slave_unreachable_completed");
        self.tell_agent_lost(id);
    }

    /// The registry's record of an agent.
    pub(super) fn record_of(agent: &Agent) -> RegisteredAgent {
        RegisteredAgent {
            info: agent.info.clone(),
            deactivated: agent.deactivated,
            drain: agent.drain,
            drain_start: agent.drain_start,
        }
    }

    /// How long an agent may be silent.
    pub fn agent_silence_limit(&self) -> Duration {
        self.config.agent_ping_timeout * self.config.max_agent_ping_timeouts
    }
}
