//! Frameworks come, fail over, lose their scheduler and go.

use std::time::Duration;

use km_mesos_proto::{
    constraints::Constraints,
    v1::{
        self,
        scheduler::{self, event},
    },
};

use super::{
    Action, ConnectionId, Master, Peer,
    event::Timer,
    framework::Framework,
    task::{master_status, remember_status},
    validation,
};
use crate::{framework_info::roles_of, link::MasterMessage};

impl Master {
    pub(super) fn subscribe(
        &mut self,
        connection: ConnectionId,
        stream_id: String,
        principal: Option<String>,
        subscribe: scheduler::call::Subscribe,
    ) {
        let mut info = subscribe.framework_info;
        info.id = info.id.filter(|id| !id.value.is_empty());
        let again = info.id.is_some();
        self.counters.count(if again { "messages_reregister_framework" } else { "messages_register_framework" });
        if info.principal.is_none() {
            info.principal = principal;
        }
        let constraints = subscribe.offer_constraints;
        if let Err(reason) = self.check_subscribe(&info, &subscribe.suppressed_roles, constraints.as_ref()) {
            self.refuse_stream(connection, reason);
            return;
        }
        let id = info.id.as_ref().map(|id| id.value.clone());
        let known = id.as_ref().is_some_and(|id| self.frameworks.contains_key(id));
        let id = match id {
            Some(id) if known => {
                self.fail_over(&id, info);
                id
            }
            other => self.add_framework(other, info),
        };
        let Some(framework) = self.frameworks.get_mut(&id) else { return };
        framework.suppressed = subscribe.suppressed_roles.into_iter().collect();
        framework.constraints = constraints;
        framework.stream = Some((connection, stream_id));
        self.peers.insert(connection, Peer::Scheduler(id.clone()));
        self.welcome(connection, &id);
        self.sync_allocator(&id);
        self.allocator.set_framework_active(&id, true);
        if known {
            self.update_framework_event(&id);
        } else {
            self.framework_added_event(&id);
        }
    }

    fn check_subscribe(
        &self,
        info: &v1::FrameworkInfo,
        suppressed: &[String],
        constraints: Option<&scheduler::OfferConstraints>,
    ) -> Result<(), String> {
        let whitelist = self.config.roles.as_ref();
        validation::framework::validate(info, suppressed, whitelist, self.config.root_submissions)?;
        if let Some(constraints) = constraints {
            Constraints::compile(constraints)?;
        }
        let Some(id) = &info.id else { return Ok(()) };
        if self.completed.iter().any(|framework| framework.id == id.value) {
            return Err("Framework has been removed".to_owned());
        }
        match self.frameworks.get(&id.value) {
            // A framework known from its agents only has the principal they know.
            Some(framework) => validation::framework::principal(&framework.info, info),
            None => Ok(()),
        }
    }

    /// Answers a SUBSCRIBE with an ERROR event and the stream's end.
    fn refuse_stream(&mut self, connection: ConnectionId, message: String) {
        let error = scheduler::Event { error: Some(event::Error { message }), ..Default::default() };
        self.tell_stream(connection, event::Type::Error, error);
        self.out.push(Action::Close(connection));
    }

    fn add_framework(&mut self, id: Option<String>, mut info: v1::FrameworkInfo) -> String {
        let returns = id.is_some();
        let id = id.unwrap_or_else(|| {
            let number = self.next_framework;
            self.next_framework += 1;
            format!("{}-{number:04}", self.config.info.id)
        });
        info.id = Some(v1::FrameworkId { value: id.clone() });
        let mut framework = Framework::new(id.clone(), info, self.now);
        framework.reregistered = returns.then_some(self.now);
        self.frameworks.insert(id.clone(), framework);
        id
    }

    /// A scheduler takes over a framework that is known: the old stream ends, its offers are void.
    fn fail_over(&mut self, id: &str, mut info: v1::FrameworkInfo) {
        let Some(framework) = self.frameworks.get_mut(id) else { return };
        // User and checkpoint never change; a SUBSCRIBE that tries is not refused.
        info.user = framework.info.user.clone();
        info.checkpoint = framework.info.checkpoint;
        framework.info = info;
        if framework.recovered {
            framework.registered = self.now;
        } else {
            framework.reregistered = Some(self.now);
        }
        framework.recovered = false;
        let old = framework.stream.take();
        if let Some((old, _)) = old {
            let message = "Framework failed over".to_owned();
            let error = scheduler::Event { error: Some(event::Error { message }), ..Default::default() };
            self.tell_stream(old, event::Type::Error, error);
            self.close(old);
        }
        self.discard_offers_of_framework(id);
        self.tell_agents_of_framework(id);
    }

    fn welcome(&mut self, connection: ConnectionId, id: &str) {
        let subscribed = event::Subscribed {
            framework_id: v1::FrameworkId { value: id.to_owned() },
            heartbeat_interval_seconds: Some(self.config.heartbeat_interval.as_secs_f64()),
            master_info: Some(self.config.info.clone()),
        };
        let welcome = scheduler::Event { subscribed: Some(subscribed), ..Default::default() };
        self.tell_stream(connection, event::Type::Subscribed, welcome);
        self.heartbeat(connection);
    }

    /// Brings the allocator's view of a framework up to date.
    pub(super) fn sync_allocator(&mut self, id: &str) {
        let Some(framework) = self.frameworks.get(id) else { return };
        let suppressed = framework.suppressed.clone();
        self.allocator.put_framework(id, &framework.info, framework.constraints.as_ref(), suppressed);
    }

    /// The agents that run the framework's executors learn its new FrameworkInfo.
    pub(super) fn tell_agents_of_framework(&mut self, id: &str) {
        let Some(framework) = self.frameworks.get(id) else { return };
        let info = framework.info.clone();
        for agent in self.agents_of_framework(id) {
            self.tell_agent(&agent, MasterMessage::UpdateFramework { framework: info.clone() });
        }
    }

    /// Agents on which the framework holds something.
    pub(super) fn agents_of_framework(&self, id: &str) -> Vec<String> {
        let holds = |agent: &&super::Agent| {
            agent.executors.contains_key(id) || agent.used.contains_key(id) || agent.tasks_of(id).next().is_some()
        };
        self.agents.values().filter(holds).map(|agent| agent.id.clone()).collect()
    }

    pub(super) fn framework_disconnected(&mut self, id: &str) {
        let Some(framework) = self.frameworks.get_mut(id) else { return };
        framework.stream = None;
        framework.disconnections += 1;
        let disconnection = framework.disconnections;
        let timeout = framework.info.failover_timeout.unwrap_or(0.0);
        self.allocator.set_framework_active(id, false);
        self.discard_offers_of_framework(id);
        if timeout <= 0.0 {
            self.remove_framework(id);
            return;
        }
        self.update_framework_event(id);
        // Validated on subscription, except the infos that agents report: those may hold anything.
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::from_secs(365 * 86_400));
        self.arm(timeout, Timer::Failover(id.to_owned(), disconnection));
    }

    pub(super) fn failover_timeout(&mut self, id: &str, disconnection: u64) {
        let timed_out = self
            .frameworks
            .get(id)
            .is_some_and(|framework| !framework.connected() && framework.disconnections == disconnection);
        if timed_out {
            self.remove_framework(id);
        }
    }

    /// TEARDOWN, or the failover timeout: executors end, tasks count as KILLED and nobody is told.
    pub(super) fn remove_framework(&mut self, id: &str) {
        self.discard_offers_of_framework(id);
        let agents: Vec<String> = self.agents.keys().cloned().collect();
        for agent in agents {
            let framework_id = v1::FrameworkId { value: id.to_owned() };
            self.tell_agent(&agent, MasterMessage::ShutdownFramework { framework_id });
            self.forget_framework_on_agent(&agent, id);
        }
        self.forget_operations_of(id);
        let Some(mut framework) = self.frameworks.remove(id) else { return };
        let limit = self.config.max_completed_tasks_per_framework;
        let live = std::mem::take(&mut framework.tasks).into_values().map(|task| task.info);
        let lost = std::mem::take(&mut framework.unreachable_tasks).into_values();
        // Those that nobody can see are not counted as killed.
        let all = live.map(|task| (task, true)).chain(lost.map(|task| (task, false)));
        for (mut task, seen) in all.collect::<Vec<_>>() {
            if !super::terminal(super::task::state_of(task.state)) || task.state == v1::TaskState::TaskLost as i32 {
                let (state, reason) = (v1::TaskState::TaskKilled, v1::task_status::Reason::FrameworkRemoved);
                let message = format!("Framework {id} removed");
                let status = master_status(&task.task_id, Some(&task.agent_id), state, reason, message, self.now);
                task.state = state as i32;
                remember_status(&mut task, &status);
                if seen {
                    self.counters.count_status(&status);
                }
            }
            framework.complete(task, limit);
        }
        if let Some((connection, _)) = framework.stream.take() {
            self.close(connection);
        }
        framework.unregistered = Some(self.now);
        self.allocator.remove_framework(id);
        self.framework_removed_event(&framework);
        self.completed.push_back(framework);
        while self.completed.len() > self.config.max_completed_frameworks {
            self.completed.pop_front();
        }
        self.check_drains();
    }

    /// An agent's books without a framework that is gone.
    fn forget_framework_on_agent(&mut self, agent_id: &str, id: &str) {
        let Some(agent) = self.agents.get_mut(agent_id) else { return };
        agent.executors.remove(id);
        agent.tasks.retain(|(framework, _)| framework != id);
        agent.killed.retain(|(framework, _), _| framework != id);
        if let Some(used) = agent.used.remove(id) {
            self.allocator.recover(self.now, id, agent_id, &used, None);
        }
    }

    /// A framework as an agent reports it after the master's restart: it is there, but its scheduler is not.
    pub(super) fn recover_framework(&mut self, info: v1::FrameworkInfo) {
        let Some(id) = info.id.as_ref().map(|id| id.value.clone()) else { return };
        let removed = self.completed.iter().any(|framework| framework.id == id);
        if removed || self.frameworks.contains_key(&id) {
            return;
        }
        let mut framework = Framework::new(id.clone(), info, self.now);
        framework.recovered = true;
        framework.registered = Duration::ZERO;
        let roles = roles_of(&framework.info);
        self.frameworks.insert(id.clone(), framework);
        self.sync_allocator(&id);
        self.allocator.set_framework_active(&id, false);
        tracing::info!(framework = id, ?roles, "framework recovered from its agents");
        self.framework_added_event(&id);
    }
}
