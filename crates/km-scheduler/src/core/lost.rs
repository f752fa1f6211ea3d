//! Agents that went, and those that came back.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Node;
use km_kube::keys;
use km_mesos_proto::v1::TaskState;

use super::{Action, AgentSeen, Core, effects::Then, taints::UNREACHABLE};

impl Core {
    /// An agent shows itself: it is there. One of the same host name that was lost before will never come back, since
    /// Mesos gave its machine a new id.
    pub(super) fn meet_agent(&mut self, now: Duration, id: &str, hostname: &str, out: &mut Vec<Action>) {
        let former = self.agents.on_host(hostname).filter(|known| known.id != id && known.lost.is_some());
        let former = former.map(|known| known.id.clone());
        self.agents.learn(id, hostname);
        if let Some(former) = former {
            tracing::warn!(hostname, former, agent = id, "the agent came back under a new id");
            self.bury_tasks(now, &former, out);
            self.forget_agent(&former);
        }
        self.agent_is_back(now, id, out);
    }

    /// The tasks of an agent that is known to be dead.
    pub(super) fn bury_tasks(&mut self, now: Duration, agent: &str, out: &mut Vec<Action>) {
        let dead: Vec<String> = self.tasks.of_agent(agent).map(|task| task.id.clone()).collect();
        for id in dead {
            self.conclude(now, &id, TaskState::TaskGone, "The agent was replaced by another on the same host", out);
        }
    }

    pub(super) fn find_vanished(&mut self, now: Duration, seen: &[AgentSeen], out: &mut Vec<Action>) {
        let ids: BTreeSet<&str> = seen.iter().map(|one| one.id.as_str()).collect();
        let hostnames: BTreeSet<&str> = seen.iter().map(|one| one.hostname.as_str()).collect();
        let mut vanished: Vec<String> = Vec::new();
        for (name, node) in &self.nodes {
            let id = node.metadata.annotations.as_ref().and_then(|annotations| annotations.get(keys::SLAVE_ID));
            let Some(id) = id.filter(|id| !ids.contains(id.as_str())) else { continue };
            if hostnames.contains(name.as_str()) {
                continue;
            }
            self.agents.learn(id, name);
            vanished.push(id.clone());
        }
        for id in vanished {
            self.lose_agent(now, &id, out);
        }
    }

    pub(super) fn on_failure(
        &mut self,
        now: Duration,
        agent_id: Option<String>,
        executor_id: Option<String>,
        out: &mut Vec<Action>,
    ) {
        let Some(agent_id) = agent_id else { return };
        match executor_id {
            Some(executor_id) => {
                tracing::warn!(agent = agent_id, executor = executor_id, "executor ended");
                self.executor_ended(&agent_id, &executor_id, out);
            }
            None => {
                self.offers(now, km_offers::Event::AgentLost(agent_id.clone().into()), out);
                self.lose_agent(now, &agent_id, out);
            }
        }
    }

    /// Mesos says that a task's agent is unreachable. After a start of this scheduler that may be the first word about it.
    pub(super) fn agent_unreachable(&mut self, now: Duration, id: &str, hostname: &str, out: &mut Vec<Action>) {
        match self.agents.on_host(hostname) {
            Some(current) if current.id != id => {
                if current.lost.is_none() {
                    self.bury_tasks(now, id, out);
                }
                return;
            }
            Some(_) => {}
            None if hostname.is_empty() => return,
            None => {
                self.agents.learn(id, hostname);
            }
        }
        self.lose_agent(now, id, out);
    }

    /// The agent is away. Its tasks are not judged by this: Mesos tells what became of them, and how long their pods
    /// wait for it is theirs to say.
    fn lose_agent(&mut self, now: Duration, id: &str, out: &mut Vec<Action>) {
        let Some(agent) = self.agents.get(id).filter(|agent| agent.lost.is_none()) else { return };
        tracing::warn!(agent = id, hostname = agent.hostname, "agent lost");
        let hostname = agent.hostname.clone();
        self.agents.set_lost(id, Some(now));
        // An earlier scheduler may have seen it go.
        let since = self.nodes.get(&hostname).and_then(|node| unreachable_since(node)).unwrap_or(self.unix(now));
        if let Some(agent) = self.agents.get_mut(id) {
            agent.unreachable_since = Some(since);
        }
        if self.agents.on_host(&hostname).is_some_and(|current| current.id == id) {
            self.mark_node_unknown(&hostname, out);
            self.ensure_taints(now, id, out);
        }
        self.evictions.stir(now);
    }

    /// The agent showed life, by an offer, a task or the operator API.
    pub(super) fn agent_is_back(&mut self, now: Duration, id: &str, out: &mut Vec<Action>) {
        let Some(agent) = self.agents.get(id) else { return };
        if agent.lost.is_some() {
            tracing::info!(agent = id, hostname = agent.hostname, "agent is back");
            self.agents.set_lost(id, None);
            if let Some(agent) = self.agents.get_mut(id) {
                agent.unreachable_since = None;
            }
            self.ensure_node(id, out);
            self.ensure_taints(now, id, out);
            self.evictions.stir(now);
        }
    }

    /// Removes the nodes of agents that are away for the grace period and hold no task that may come back.
    pub(super) fn expire_agents(&mut self, now: Duration, out: &mut Vec<Action>) {
        for agent in self.agents.expired(now, self.config.node_grace) {
            if self.tasks.of_agent(&agent.id).next().is_some() {
                // Looked at again after another grace period.
                self.agents.set_lost(&agent.id, Some(now));
                continue;
            }
            let current = self.agents.on_host(&agent.hostname).is_some_and(|current| current.id == agent.id);
            self.forget_agent(&agent.id);
            if current && self.nodes.contains_key(&agent.hostname) {
                let name = agent.hostname;
                self.effects.start(Then::Nothing, out, |op| Action::DeleteNode { op, name });
            }
        }
    }

    fn forget_agent(&mut self, id: &str) {
        self.agents.forget(id);
        self.upkeeps.set(&id.to_owned(), None);
        self.still_draining.set(&id.to_owned(), None);
    }
}

/// Since when a node carries the taint of an unreachable one, in UNIX time.
fn unreachable_since(node: &Node) -> Option<Duration> {
    let taints = node.spec.as_ref()?.taints.as_ref()?;
    let taint = taints.iter().find(|taint| taint.key == UNREACHABLE && taint.effect == "NoExecute")?;
    Some(Duration::from_secs(taint.time_added.as_ref()?.0.as_second().try_into().ok()?))
}
