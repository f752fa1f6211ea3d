//! What operators and schedulers ask of the operator API.

use std::time::Duration;

use km_mesos_core::master::{self, Body};
use km_mesos_proto::v1::{
    self,
    master::{
        call::{MarkAgentGone, Type},
        response,
    },
};

use crate::{delivery::Delivery, world::World};

impl World {
    pub(crate) fn ask(&mut self, call: v1::master::Call) -> Option<master::Answer> {
        self.master_event_answered(master::Event::OperatorCall { principal: None, call: Box::new(call) })
    }

    /// The operator API's list of agents.
    pub(crate) fn list_agents(&mut self) -> Option<Vec<response::get_agents::Agent>> {
        let call = v1::master::Call { r#type: Some(Type::GetAgents as i32), ..Default::default() };
        match self.ask(call)?.body {
            Body::Response(response) => response.get_agents.map(|agents| agents.agents),
            _ => None,
        }
    }

    /// The operator API's list of frameworks that aren't over.
    pub(crate) fn list_frameworks(&mut self) -> Option<Vec<response::get_frameworks::Framework>> {
        let call = v1::master::Call { r#type: Some(Type::GetFrameworks as i32), ..Default::default() };
        match self.ask(call)?.body {
            Body::Response(response) => response.get_frameworks.map(|answer| answer.frameworks),
            _ => None,
        }
    }

    /// The operator API's maintenance schedule.
    pub(crate) fn maintenance_schedule(&mut self) -> Option<v1::maintenance::Schedule> {
        let call = v1::master::Call { r#type: Some(Type::GetMaintenanceSchedule as i32), ..Default::default() };
        match self.ask(call)?.body {
            Body::Response(response) => response.get_maintenance_schedule.map(|answer| answer.schedule),
            _ => None,
        }
    }

    /// The tasks as the master knows them.
    pub(crate) fn list_tasks(&mut self) -> Option<response::GetTasks> {
        let call = v1::master::Call { r#type: Some(Type::GetTasks as i32), ..Default::default() };
        match self.ask(call)?.body {
            Body::Response(response) => response.get_tasks,
            _ => None,
        }
    }

    /// Tells the master that an agent never comes back; again until that is done.
    pub(crate) fn mark_gone(&mut self, agent_id: String) {
        let gone = MarkAgentGone { agent_id: agent_id.as_str().into() };
        let kind = Some(Type::MarkAgentGone as i32);
        let call = v1::master::Call { r#type: kind, mark_agent_gone: Some(gone), ..Default::default() };
        match self.ask(call).map(|answer| answer.status) {
            // 404: it was removed in another way.
            Some(200 | 404) => self.note(|| format!("{agent_id} is marked gone")),
            _ => self.at(Duration::from_secs(5), Delivery::MarkGone(agent_id)),
        }
    }
}
