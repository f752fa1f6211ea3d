//! What goes wrong with agents and executors.

use km_fakeapi::Api;
use km_mesos_proto::v1::{
    TaskState,
    task_status::{Reason, Source},
};
use km_podtask::{PodKey, messages};
use km_scheduler::core::Event;

use super::{FakeTask, Mesos, resources::ports};

impl Mesos {
    /// A pod ends by itself.
    pub fn finish(&mut self, api: &mut Api, number: usize, state: TaskState, phase: &str) {
        let running: Vec<(String, String)> = self
            .agents
            .iter()
            .filter(|(_, agent)| agent.connected)
            .flat_map(|(id, agent)| agent.tasks.iter().map(move |(task, fake)| (id, task, fake)))
            .filter(|(_, _, fake)| fake.state == TaskState::TaskRunning)
            .map(|(id, task, _)| (id.clone(), task.clone()))
            .collect();
        if running.is_empty() || api.down {
            return;
        }
        let (agent, task) = running[number % running.len()].clone();
        let pod = self.agents[&agent].tasks[&task].pod().clone();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        // A pod that was deleted by force has no phase.
        let _gone = api.set_phase(&PodKey::of(&pod.metadata), &uid, phase);
        self.update(&agent, &task, state, Source::Executor, "");
    }

    /// Ends a task one of whose ports somebody else has.
    pub fn fails_for_a_port(&mut self, api: &mut Api, agent_id: &str, task_id: &str) -> bool {
        let task = &self.agents[agent_id].tasks[task_id];
        let used = ports(&task.info.resources);
        let taken = self.foreign_ports.iter().find(|(agent, port)| agent == agent_id && used.contains(port));
        let Some(port) = taken.and_then(|(_, port)| u16::try_from(*port).ok()) else { return false };
        let key = PodKey::of(&task.pod().metadata);
        let uid = task.pod().metadata.uid.clone().unwrap_or_default();
        if !self.dies_silently {
            api.set_phase(&key, &uid, "Failed").expect("it was bound just now");
        }
        let message = format!("{}: {}", messages::HOST_PORT_TAKEN, messages::host_port_taken(port, "TCP"));
        self.update(agent_id, task_id, TaskState::TaskFailed, Source::Executor, &message);
        true
    }

    pub fn partition(&mut self, agent_id: &str) {
        let Some(agent) = self.agents.get_mut(agent_id).filter(|agent| agent.connected) else { return };
        agent.connected = false;
        let tasks: Vec<String> = agent.tasks.keys().cloned().collect();
        let lost: Vec<String> =
            self.offers.iter().filter(|(_, (agent, _))| agent == agent_id).map(|(id, _)| id.clone()).collect();
        for id in lost {
            self.offers.remove(&id);
            self.events.push_back(Event::Rescinded(id.as_str().into()));
        }
        for task in tasks {
            self.tell(&task, agent_id, TaskState::TaskUnreachable, Some(Reason::AgentRemoved));
        }
        self.events.push_back(Event::Failure { agent_id: Some(agent_id.to_owned()), executor_id: None });
    }

    pub fn heal(&mut self, agent_id: &str) {
        let Some(agent) = self.agents.get_mut(agent_id).filter(|agent| !agent.connected) else { return };
        agent.connected = true;
        let tasks: Vec<(String, TaskState)> = agent.tasks.iter().map(|(id, task)| (id.clone(), task.state)).collect();
        for (task, state) in tasks {
            self.tell(&task, agent_id, state, Some(Reason::AgentReregistered));
        }
    }

    /// The operator marks the agent gone: its tasks are dead, and it never comes back.
    pub fn mark_gone(&mut self, agent_id: &str) {
        self.partition(agent_id);
        let Some(agent) = self.agents.remove(agent_id) else { return };
        self.gone.push(agent_id.to_owned());
        for task in agent.tasks.keys() {
            self.tell(task, agent_id, TaskState::TaskGoneByOperator, Some(Reason::AgentRemovedByOperator));
        }
    }

    /// An executor without tasks ends when it is asked to.
    pub fn kamikaze(&mut self, agent_id: &str, executor_id: &str) {
        let Some(agent) = self.agents.get_mut(agent_id).filter(|agent| agent.connected) else { return };
        let asked = agent.executor.as_ref().is_some_and(|executor| executor.executor_id.value == executor_id);
        if asked && !agent.tasks.values().any(FakeTask::alive) {
            self.executor_dies(agent_id);
        }
    }

    pub fn executor_dies(&mut self, agent_id: &str) {
        let Some(agent) = self.agents.get_mut(agent_id).filter(|agent| agent.connected) else { return };
        let Some(executor) = agent.executor.take() else { return };
        agent.refuses = false;
        let alive: Vec<String> =
            agent.tasks.iter().filter(|(_, task)| task.alive()).map(|(id, _)| id.clone()).collect();
        for task in alive {
            self.update(agent_id, &task, TaskState::TaskFailed, Source::Agent, "Executor terminated");
        }
        let executor_id = Some(executor.executor_id.value);
        self.events.push_back(Event::Failure { agent_id: Some(agent_id.to_owned()), executor_id });
    }
}
