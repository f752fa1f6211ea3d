//! Invariants 5 and 7, and liveness: what must be so when nothing happens any more.

use std::collections::BTreeMap;

use km_kube::pod::{is_terminal, phase};
use km_mesos_core::agent::Agent;
use km_mesos_proto::v1::{TaskState, master::response::get_agents};

use super::runs::sum;
use crate::{workload::NAMED_PORT, world::World};
use km_fakeapi::{node_of, task_of};

impl World {
    /// What isn't at rest; none when everything is as it must be.
    pub(crate) fn unrest(&mut self) -> Option<String> {
        let of_api = self.unrest_of_pods().or_else(|| self.unrest_of_nodes()).or_else(|| self.unrest_of_queue());
        of_api.or_else(|| self.unrest_of_mesos()).or_else(|| self.unrest_of_framework())
    }

    /// Every pod that can run does, what was deleted is gone, and nothing else lives.
    fn unrest_of_pods(&self) -> Option<String> {
        let mut live: BTreeMap<&str, &str> =
            self.runs.tasks.iter().map(|(id, task)| (id.as_str(), task.uid.as_str())).collect();
        for (key, pod) in self.api.pods.iter().filter(|(_, pod)| !is_terminal(pod)) {
            if pod.metadata.deletion_timestamp.is_some() {
                return Some(format!("liveness: {key} isn't gone"));
            }
            if node_of(pod).is_none() {
                continue;
            }
            if phase(pod) != "Running" {
                return Some(format!("liveness: {key} doesn't run: {:?} on {:?}", task_of(pod), node_of(pod)));
            }
            let task = task_of(pod).unwrap_or_default();
            if live.remove(task.as_str()).is_none() {
                return Some(format!("invariant 5: {key} is bound, but its task {task} doesn't live"));
            }
        }
        let (task, uid) = live.into_iter().next()?;
        Some(format!("invariant 5: {task} lives without its pod {uid}"))
    }

    /// What waits could not have a place.
    fn unrest_of_queue(&mut self) -> Option<String> {
        let waits = self.api.pods.iter().find(|(_, pod)| {
            // There may be more that want the port than agents.
            let in_vain = || wants_named_port(pod) || self.claims_in_vain(pod);
            node_of(pod).is_none() && !is_terminal(pod) && !in_vain()
        });
        let (now, key) = (self.now, waits?.0.clone());
        let leader = self.schedulers.iter_mut().find_map(|scheduler| scheduler.core.as_mut())?;
        let page = leader.explain_page(now, &key);
        let used: Vec<(i64, i64)> = (0..self.hosts.len()).map(|host| self.runs.used(host)).collect();
        Some(format!("liveness: {key} waits, while hosts have tasks of {used:?}: {page:?}"))
    }

    /// Invariant 7 at rest: a node for every agent that shows itself, and none for others.
    fn unrest_of_nodes(&self) -> Option<String> {
        for host in &self.hosts {
            let name = &host.hostname;
            let there = host.core.as_ref().is_some_and(Agent::is_registered);
            if !there && !host.scrapped {
                return Some(format!("liveness: the agent of {name} isn't registered"));
            }
            match self.api.nodes.get(name) {
                Some(_) if !there => return Some(format!("invariant 7: node {name} outlives its agent")),
                None if there => return Some(format!("invariant 7: there is no node for the agent of {name}")),
                _ => {}
            }
            if there && !self.api.taints(name).is_empty() {
                return Some(format!("liveness: node {name} is still tainted: {:?}", self.api.taints(name)));
            }
            if there && self.api.ready(name).as_deref() == Some("Unknown") {
                return Some(format!("invariant 7: node {name} is said to be lost"));
            }
        }
        None
    }

    /// Nothing is on offer or in use that no task holds.
    fn unrest_of_mesos(&mut self) -> Option<String> {
        if self.leader().is_none() {
            return Some("liveness: no scheduler leads".to_owned());
        }
        let waiting = self.api.pods.values().any(|pod| node_of(pod).is_none());
        if let Some(offer) = self.offers.held().next().filter(|_| !waiting) {
            return Some(format!("liveness: the scheduler keeps offer {} for nothing", offer.id.value));
        }
        if let Some(task) = self.rivals.iter().find_map(|rival| rival.tasks.keys().next()) {
            return Some(format!("{task} of a rival still lives"));
        }
        let Some(agents) = self.list_agents() else { return Some("liveness: there is no master".to_owned()) };
        for agent in &agents {
            if let Some(unrest) = self.unrest_of_agent(agent) {
                return Some(unrest);
            }
        }
        let tasks = self.list_tasks()?.tasks;
        let over = |state: i32| state != TaskState::TaskRunning as i32 && state != TaskState::TaskStarting as i32;
        let strange = tasks.iter().find(|task| over(task.state) || !self.runs.tasks.contains_key(&task.task_id.value));
        strange.map(|task| format!("invariant 5: the master still has {} in {}", task.task_id.value, task.state))
    }

    fn unrest_of_agent(&self, agent: &get_agents::Agent) -> Option<String> {
        let name = &agent.agent_info.hostname;
        let number = *self.host_numbers.get(name)?;
        if !agent.active {
            return Some(format!("liveness: agent {name} is not active"));
        }
        let used = self.runs.used(number);
        let executors = self.hosts[number].executors.len();
        if executors > 1 {
            return Some(format!("invariant 5: {executors} executors of ours on {name}"));
        }
        let booked = (sum(&agent.allocated_resources, "cpus"), sum(&agent.allocated_resources, "mem"));
        let own = (booked.0 - used.0, booked.1 - used.1);
        let fits = if executors == 0 { own == (0, 0) } else { own.0 > 0 && own.0 <= 500 && own.1 > 0 };
        let offered = sum(&agent.offered_resources, "cpus");
        if fits || offered > 0 {
            return None;
        }
        Some(format!("invariant 5: {name} holds {booked:?}, its tasks {used:?}, with {executors} executors"))
    }
}

fn wants_named_port(pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.flat_map(|container| container.ports.iter().flatten()).any(|port| port.host_port == Some(NAMED_PORT))
}
