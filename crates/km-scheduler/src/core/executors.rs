//! Executors of several configurations: an agent's executor keeps its own as long as it lives.
//!
//! Mesos wants every task on an agent to carry the very `ExecutorInfo` that runs there, and two executors can't share a
//! node (its kubelet, its ports, its proxy). So when the flags change, agents go on with the executor that they have,
//! new pods included, and get the new one when the old has ended: at once where it is idle, and where and when
//! `km drain-executors` empties the node. No agent is refused meanwhile. All that is needed is to remember the earlier
//! prototypes; those that nobody remembers are left alone until their pods are gone.

use std::{collections::BTreeMap, time::Duration};

use km_kube::keys;
use km_mesos_proto::v1;

use super::{Action, Core, agents::Agent};

/// Pause before an idle executor is asked again to end.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// The same where nobody said whether it runs.
const ASK_IN_DOUBT: Duration = Duration::from_secs(60);

/// Least time between two looks at all agents.
const LOOKS: Duration = Duration::from_secs(1);

/// The executor of an agent, for `km drain-executors`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ExecutorLine {
    pub hostname: String,
    pub agent: String,
    /// The executor that runs there, if any.
    pub executor: Option<String>,
    /// Whether it is what this scheduler would start.
    pub current: bool,
    /// Live tasks on the agent.
    pub tasks: usize,
}

/// Prototypes by executor id.
#[derive(Default)]
pub(super) struct Prototypes {
    by_id: BTreeMap<String, v1::ExecutorInfo>,
    /// When idle executors were last looked for.
    looked: Option<Duration>,
}

impl Prototypes {
    pub fn new(ours: &v1::ExecutorInfo, former: &[v1::ExecutorInfo]) -> Self {
        let all = former.iter().chain([ours]);
        let by_id = all.map(|one| (one.executor_id.value.clone(), one.clone())).collect();
        Self { by_id, looked: None }
    }

    pub fn get(&self, id: &str) -> Option<&v1::ExecutorInfo> {
        self.by_id.get(id)
    }
}

/// Whether two prototypes differ only in where the same things are fetched from: schedulers of one cluster serve them
/// from their own addresses.
fn are_kin(left: &v1::ExecutorInfo, right: &v1::ExecutorInfo) -> bool {
    let bare = |executor: &v1::ExecutorInfo| {
        let mut bare = executor.clone();
        bare.executor_id = v1::ExecutorId::default();
        for uri in bare.command.iter_mut().flat_map(|command| &mut command.uris) {
            let path = uri.value.rsplit('/').next().unwrap_or_default().to_owned();
            uri.value = path;
        }
        bare
    };
    bare(left) == bare(right)
}

impl Core {
    /// Notes which executors of ours an offer says to run on its agent.
    pub(super) fn note_executors(&mut self, id: &str, running: &[v1::ExecutorId]) {
        let ours = self.config.executor.executor_id.value.as_str();
        let chosen = running.iter().find(|one| one.value == ours).or(running.first());
        let chosen = chosen.map(|one| one.value.clone());
        let known = chosen.as_ref().is_none_or(|one| self.prototypes.get(one).is_some());
        let launched = chosen.clone().unwrap_or_else(|| ours.to_owned());
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.executor_runs = chosen.is_some();
        agent.executor_told = true;
        if chosen.is_none() {
            agent.retiring = None;
        }
        if agent.executor_id != launched {
            agent.executor_id = launched;
            agent.executor = None;
        }
        agent.other_executor = !known;
    }

    /// An executor of an agent ended.
    pub(super) fn executor_ended(&mut self, agent: &str, executor: &str, out: &mut Vec<Action>) {
        let ours = self.config.executor.executor_id.value.clone();
        let is_meant = |agent: &&mut Agent| agent.executor_id == executor || !agent.executor_told;
        let Some(agent) = self.agents.get_mut(agent).filter(is_meant) else { return };
        agent.executor_runs = false;
        agent.executor_told = true;
        agent.other_executor = false;
        agent.retiring = None;
        if agent.executor_id != ours {
            agent.executor_id = ours;
            agent.executor = None;
        }
        // The node can take pods all the same: the first brings an executor.
        let (id, hostname) = (agent.id.clone(), agent.hostname.clone());
        self.may_drain_no_more(&id);
        self.mark_node_offered(&hostname, out);
    }

    /// What tasks on an agent are launched with, apart from host name and resources.
    pub(super) fn prototype_of(&self, agent: Option<&Agent>) -> &v1::ExecutorInfo {
        let id = agent.map(|agent| agent.executor_id.as_str()).unwrap_or_default();
        self.prototypes.get(id).unwrap_or(&self.config.executor)
    }

    fn is_current(&self, agent: &Agent) -> bool {
        let ours = &self.config.executor;
        agent.executor_id == ours.executor_id.value
            || self.prototypes.get(&agent.executor_id).is_some_and(|other| are_kin(other, ours))
    }

    /// Asks executors to end where they have nothing to do and are in the way: those of which too little is known or whose
    /// configuration is an earlier one, and
    /// on agents that are being drained, which take tasks again only once they have no executors. A drained agent makes no
    /// offers, which would tell what runs there, so there it is asked even if that is unknown. One that has tasks refuses.
    pub(super) fn retire_idle(&mut self, now: Duration, out: &mut Vec<Action>) {
        // It looks at every agent, so not at every event.
        if self.prototypes.looked.is_some_and(|looked| now < looked + LOOKS) {
            return;
        }
        self.prototypes.looked = Some(now);
        let due = |agent: &&Agent| {
            let pause = if agent.executor_runs { ASK_AGAIN } else { ASK_IN_DOUBT };
            agent.retiring.is_none_or(|asked| asked + pause <= now)
        };
        let in_the_way = |agent: &&Agent| {
            if !agent.executor_runs {
                return agent.upkeep.draining && !agent.executor_told;
            }
            // What an executor takes may have been noted on a node that is gone; one that was asked may be about to end, so
            // that is insisted on.
            agent.upkeep.draining
                || self.is_still_draining(&agent.id)
                || !self.is_current(agent)
                || agent.executor.is_none()
                || agent.retiring.is_some()
        };
        let idle: Vec<(String, String)> = self
            .agents
            .current()
            .filter(|agent| agent.lost.is_none())
            .filter(due)
            .filter(in_the_way)
            .filter(|agent| self.tasks.of_agent(&agent.id).next().is_none())
            .map(|agent| (agent.id.clone(), self.executor_on(agent)))
            .collect();
        for (agent_id, executor_id) in idle {
            let first = self.agents.get_mut(&agent_id).is_some_and(|agent| agent.retiring.replace(now).is_none());
            if first {
                tracing::info!(agent = agent_id, executor = executor_id, "an idle executor is to end");
            }
            out.push(Action::Message { agent_id, executor_id, data: km_podtask::messages::KAMIKAZE.into() });
        }
    }

    /// The executor that runs on an agent: as offers said, else as its node does.
    fn executor_on(&self, agent: &Agent) -> String {
        let node = self.nodes.get(&agent.hostname).filter(|_| !agent.executor_told);
        let noted = node.and_then(|node| node.metadata.annotations.as_ref()?.get(keys::EXECUTOR_ID).cloned());
        noted.unwrap_or_else(|| agent.executor_id.clone())
    }

    pub fn executor_lines(&self) -> Vec<ExecutorLine> {
        let line = |agent: &Agent| ExecutorLine {
            hostname: agent.hostname.clone(),
            agent: agent.id.clone(),
            executor: agent.executor_runs.then(|| agent.executor_id.clone()),
            current: !agent.executor_runs || self.is_current(agent),
            tasks: self.tasks.of_agent(&agent.id).count(),
        };
        self.agents.current().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prototype(argument: &str, uri: &str) -> v1::ExecutorInfo {
        let uri = v1::command_info::Uri { value: uri.into(), ..v1::command_info::Uri::default() };
        let command =
            v1::CommandInfo { arguments: vec![argument.into()], uris: vec![uri], ..v1::CommandInfo::default() };
        let mut executor = v1::ExecutorInfo { command: Some(command), ..v1::ExecutorInfo::default() };
        executor.executor_id = km_podtask::executor::id(&executor);
        executor
    }

    #[test]
    fn executors_of_two_schedulers_are_kin_and_those_of_two_configurations_are_not() {
        let one = prototype("a", "http://10.0.0.1:10251/km");
        for (other, kin) in [
            (prototype("a", "http://10.0.0.2:10251/km"), true),
            (prototype("a", "http://10.0.0.1:10251/other"), false),
            (prototype("b", "http://10.0.0.1:10251/km"), false),
        ] {
            assert_eq!(are_kin(&one, &other), kin);
        }
    }
}
