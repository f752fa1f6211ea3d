//! What operators see of frameworks, agents, tasks, executors and roles.

use km_mesos_proto::{
    resources::Resources,
    v1::{
        self,
        master::response::{
            GetAgents, GetExecutors, GetFrameworks, GetState, GetTasks, get_agents, get_executors, get_frameworks,
        },
    },
};

use super::{Master, agent::Agent, event::time_info, framework::Framework, validation::resource::read};

/// What an agent of this kind can do, as Apache Mesos names it.
pub(super) const AGENT_CAPABILITIES: [v1::agent_info::capability::Type; 7] = crate::agent::CAPABILITIES;

/// An offer with its resources in the newer form, whatever its framework understands.
fn plainly(offer: &v1::Offer) -> v1::Offer {
    v1::Offer { resources: read(&offer.resources).to_protos(), ..offer.clone() }
}

impl Master {
    pub(super) fn get_state(&self) -> GetState {
        GetState {
            get_tasks: Some(self.get_tasks()),
            get_executors: Some(self.get_executors()),
            get_frameworks: Some(self.get_frameworks()),
            get_agents: Some(self.get_agents()),
        }
    }

    pub(super) fn get_agents(&self) -> GetAgents {
        GetAgents {
            agents: self.agents.values().map(|agent| self.agent_view(agent)).collect(),
            recovered_agents: self.recovered.values().map(|record| record.info.clone()).collect(),
        }
    }

    pub(super) fn agent_view(&self, agent: &Agent) -> get_agents::Agent {
        get_agents::Agent {
            agent_info: agent.info.clone(),
            active: agent.offerable(),
            version: agent.version.clone(),
            pid: Some(agent.pid()),
            registered_time: Some(time_info(agent.registered)),
            reregistered_time: agent.reregistered.map(time_info),
            total_resources: agent.total.to_protos_for_operators(),
            allocated_resources: agent.used.values().cloned().sum::<Resources>().to_protos_for_operators(),
            offered_resources: self.offered_on(agent).to_protos_for_operators(),
            capabilities: AGENT_CAPABILITIES
                .iter()
                .map(|kind| v1::agent_info::Capability { r#type: Some(*kind as i32) })
                .collect(),
            resource_providers: Vec::new(),
            deactivated: Some(agent.deactivated),
            drain_info: agent.drain,
            estimated_drain_start_time: Self::drain_start_of(agent.drain_start),
        }
    }

    /// What is offered of an agent, allocated.
    pub(super) fn offered_on(&self, agent: &Agent) -> Resources {
        agent.offers.iter().filter_map(|id| self.offers.get(id)).map(|offer| read(&offer.resources)).sum()
    }

    /// What is offered to a framework, allocated.
    pub(super) fn offered_to(&self, framework: &Framework) -> Resources {
        framework.offers.iter().filter_map(|id| self.offers.get(id)).map(|offer| read(&offer.resources)).sum()
    }

    /// What a framework's tasks and executors hold, allocated.
    pub(super) fn used_by(&self, framework: &str) -> Resources {
        self.agents.values().filter_map(|agent| agent.used.get(framework)).cloned().sum()
    }

    pub(super) fn get_frameworks(&self) -> GetFrameworks {
        #[allow(deprecated)]
        GetFrameworks {
            frameworks: self.frameworks.values().map(|framework| self.framework_view(framework)).collect(),
            completed_frameworks: self.completed.iter().map(|framework| self.framework_view(framework)).collect(),
            recovered_frameworks: Vec::new(),
        }
    }

    pub(super) fn framework_view(&self, framework: &Framework) -> get_frameworks::Framework {
        get_frameworks::Framework {
            framework_info: framework.info.clone(),
            active: framework.connected(),
            connected: framework.connected(),
            registered_time: Some(time_info(framework.registered)),
            // Of one that never came back, when it came first.
            reregistered_time: Some(time_info(framework.reregistered.unwrap_or(framework.registered))),
            unregistered_time: framework.unregistered.map(time_info),
            offers: framework.offers.iter().filter_map(|id| self.offers.get(id)).map(plainly).collect(),
            inverse_offers: framework
                .inverse_offers
                .iter()
                .filter_map(|id| self.inverse_offers.get(id))
                .cloned()
                .collect(),
            allocated_resources: self.used_by(&framework.id).to_protos_for_operators(),
            offered_resources: self.offered_to(framework).to_protos_for_operators(),
            recovered: framework.recovered,
            offer_constraints: Some(framework.constraints.clone().unwrap_or_default()),
        }
    }

    /// What operators' events say of a framework: all but its resources.
    pub(super) fn framework_in_events(&self, framework: &Framework) -> get_frameworks::Framework {
        get_frameworks::Framework {
            unregistered_time: Some(time_info(framework.unregistered.unwrap_or_default())),
            offers: Vec::new(),
            inverse_offers: Vec::new(),
            allocated_resources: Vec::new(),
            offered_resources: Vec::new(),
            offer_constraints: None,
            ..self.framework_view(framework)
        }
    }

    pub(super) fn get_executors(&self) -> GetExecutors {
        let of_agent = |agent: &Agent| -> Vec<get_executors::Executor> {
            let agent_id = v1::AgentId { value: agent.id.clone() };
            let executors = agent.executors.values().flat_map(|executors| executors.values());
            let view = |executor: &v1::ExecutorInfo| get_executors::Executor {
                executor_info: executor.clone(),
                agent_id: agent_id.clone(),
            };
            executors.map(view).collect()
        };
        #[allow(deprecated)]
        GetExecutors { executors: self.agents.values().flat_map(of_agent).collect(), orphan_executors: Vec::new() }
    }

    pub(super) fn get_tasks(&self) -> GetTasks {
        let mut all = GetTasks::default();
        for framework in self.frameworks.values().chain(&self.completed) {
            for task in framework.tasks.values() {
                // A task whose end is not acknowledged yet counts as completed, as in Mesos.
                let list = if task.terminal() { &mut all.completed_tasks } else { &mut all.tasks };
                list.push(task.info.clone());
            }
            all.completed_tasks.extend(framework.completed_tasks.iter().cloned());
            all.unreachable_tasks.extend(framework.unreachable_tasks.values().cloned());
        }
        all
    }

    /// Roles that frameworks, weights, quota or reservations mention, with all above them.
    pub(super) fn role_names(&self) -> std::collections::BTreeSet<String> {
        let mut names = std::collections::BTreeSet::new();
        names.extend(self.config.roles.iter().flatten().cloned());
        if self.config.roles.is_some() {
            names.insert("*".to_owned());
        }
        names.extend(self.frameworks.values().flat_map(Framework::roles));
        names.extend(self.allocator.weights().keys().cloned());
        names.extend(self.allocator.quotas().keys().cloned());
        for agent in self.agents.values() {
            names.extend(agent.total.reservations().into_keys().map(str::to_owned));
        }
        let above: Vec<String> =
            names.iter().flat_map(|name| super::validation::role::ancestors(name)).map(str::to_owned).collect();
        names.extend(above);
        names
    }

    pub(super) fn role_view(&self, name: &str) -> v1::Role {
        let members = self.frameworks.values().filter(|framework| framework.roles().contains(name));
        v1::Role {
            name: name.to_owned(),
            weight: self.allocator.weights().get(name).copied().unwrap_or(1.0),
            frameworks: members.map(|framework| super::calls::framework_id(&framework.id)).collect(),
            resources: self.held_in_role(name).to_protos(),
        }
    }

    /// What frameworks are offered or use in a role.
    pub(super) fn held_in_role(&self, name: &str) -> Resources {
        let used = self.agents.values().flat_map(|agent| agent.used.values()).cloned();
        let offered = self.offers.values().map(|offer| read(&offer.resources));
        let all: Resources = used.chain(offered).sum();
        all.allocations().remove(name).unwrap_or_default()
    }
}
