//! Deactivated and draining agents.
//!
//! A deactivated agent gets no new tasks. A draining one is deactivated and loses its tasks; when the last of them is
//! acknowledged it is drained, and marked gone if that was asked for.

use std::time::Duration;

use km_mesos_proto::v1::{self, DrainState, master::call};

use super::{Answer, Master, agent::Agent};
use crate::link::MasterMessage;

impl Master {
    pub(super) fn drain_agent(&mut self, call: call::DrainAgent) -> Answer {
        let id = call.agent_id.value;
        if let Err(answer) = self.may_drain(&id) {
            return answer;
        }
        let nanoseconds = call
            .max_grace_period
            .map(|grace| i64::from(grace.nanos).saturating_add(grace.seconds.saturating_mul(1_000_000_000)));
        let config = v1::DrainConfig {
            max_grace_period: nanoseconds.map(|nanoseconds| v1::DurationInfo { nanoseconds }),
            mark_gone: Some(call.mark_gone.unwrap_or(false)),
        };
        let drain = v1::DrainInfo { state: DrainState::Draining as i32, config };
        let (now, state) = (self.now, Some(drain));
        if let Some(agent) = self.agents.get_mut(&id) {
            (agent.deactivated, agent.drain, agent.drain_start) = (true, state, Some(now));
            self.draining.insert(id.clone());
            self.allocator.set_agent_active(&id, false);
            self.rescind_offers_of_agent(&id);
            self.tell_agent(&id, MasterMessage::Drain { config });
        } else if let Some(record) = self.recovered.get_mut(&id) {
            (record.deactivated, record.drain, record.drain_start) = (true, state, Some(now));
        } else if let Some((info, _)) = self.unreachable.get(&id) {
            let record =
                super::RegisteredAgent { info: info.clone(), deactivated: true, drain: state, drain_start: Some(now) };
            self.unreachable_drains.insert(id.clone(), record);
        }
        self.persist_agent(&id);
        self.check_drains();
        Answer::ok()
    }

    pub(super) fn deactivate_agent(&mut self, id: &str) -> Answer {
        if self.info_of_agent(id).is_none() {
            return Answer::refused(400, "Unknown agent");
        }
        if let Some(agent) = self.agents.get_mut(id) {
            agent.deactivated = true;
            self.allocator.set_agent_active(id, false);
            self.rescind_offers_of_agent(id);
        } else if let Some(record) = self.recovered.get_mut(id) {
            record.deactivated = true;
        } else if let Some((info, _)) = self.unreachable.get(id) {
            let record =
                super::RegisteredAgent { info: info.clone(), deactivated: true, drain: None, drain_start: None };
            self.unreachable_drains.insert(id.to_owned(), record);
        }
        self.persist_agent(id);
        Answer::ok()
    }

    fn may_drain(&self, id: &str) -> Result<(), Answer> {
        let info = self.info_of_agent(id).ok_or_else(|| Answer::refused(400, "Unknown agent"))?;
        let ip = self.agents.get(id).map_or("", |agent| agent.ip.as_str());
        match self.scheduled_machine(&info.hostname, ip) {
            Some(machine) => {
                let machine = super::maintenance::name(&machine);
                let reason = format!("Agent {id} is part of a maintenance schedule under Machine {machine}");
                Err(Answer::refused(400, reason))
            }
            None => Ok(()),
        }
    }

    pub(super) fn info_of_agent(&self, id: &str) -> Option<&v1::AgentInfo> {
        let live = self.agents.get(id).map(|agent| &agent.info);
        let recovered = || self.recovered.get(id).map(|record| &record.info);
        live.or_else(recovered).or_else(|| self.unreachable.get(id).map(|(info, _)| info))
    }

    pub(super) fn reactivate_agent(&mut self, id: &str) -> Answer {
        if let Some(agent) = self.agents.get_mut(id) {
            if !agent.deactivated {
                return Answer::refused(400, "Agent is not deactivated");
            }
            if agent.draining() {
                return Answer::refused(400, "Agent is still in the DRAINING state");
            }
            (agent.deactivated, agent.drain, agent.drain_start) = (false, None, None);
            let offerable = agent.offerable();
            self.allocator.set_agent_active(id, offerable);
            self.persist_agent(id);
            return Answer::ok();
        }
        let memory = self.recovered.get_mut(id).or(self.unreachable_drains.get_mut(id));
        let Some(memory) = memory.filter(|memory| memory.deactivated) else {
            return Answer::refused(400, "Agent is not deactivated");
        };
        (memory.deactivated, memory.drain, memory.drain_start) = (false, None, None);
        self.persist_agent(id);
        Answer::ok()
    }

    /// A draining agent came back.
    pub(super) fn drain_again(&mut self, id: &str) {
        let agent = self.agents.get(id).filter(|agent| agent.draining());
        if let Some(drain) = agent.and_then(|agent| agent.drain) {
            self.tell_agent(id, MasterMessage::Drain { config: drain.config });
        }
    }

    /// Finds agents on which nothing is left to drain.
    pub(super) fn check_drains(&mut self) {
        if self.draining.is_empty() {
            return;
        }
        let agents = &self.agents;
        self.draining.retain(|id| agents.get(id).is_some_and(Agent::draining));
        let draining = self.draining.iter().filter_map(|id| agents.get(id));
        let done = draining.filter(|agent| agent.connected() && agent.tasks.is_empty());
        for id in done.map(|agent| agent.id.clone()).collect::<Vec<_>>() {
            let Some(agent) = self.agents.get_mut(&id) else { continue };
            let Some(drain) = agent.drain.as_mut() else { continue };
            drain.state = DrainState::Drained as i32;
            if drain.config.mark_gone.unwrap_or(false) {
                self.mark_gone(&id);
            }
            self.persist_agent(&id);
        }
    }

    /// When draining began, as operators see it.
    pub(super) fn drain_start_of(start: Option<Duration>) -> Option<v1::TimeInfo> {
        start.map(super::event::time_info)
    }
}
