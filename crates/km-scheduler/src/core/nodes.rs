//! Nodes: made of agents, kept in line with them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, NodeStatus, Taint},
    apimachinery::pkg::{api::resource::Quantity as TypedQuantity, apis::meta::v1::ObjectMeta},
};
use km_kube::{keys, names, pod, quantity::Quantity};
use km_mesos_proto::v1;
use km_placement::Amounts;
use km_podtask::executor;
use serde_json::{Value, json};

use super::{Action, Core, agents::Agent, effects::Then};

/// How many pods a node takes, as kubelets say by default.
const MAX_PODS: i64 = 110;
/// Reason of the Ready condition that stands until the executor reports itself.
const AGENT_READY: &str = "MesosAgentReady";
/// Reason of the Ready condition of a lost agent.
const AGENT_LOST: &str = "MesosAgentLost";

impl Core {
    pub(super) fn on_node(&mut self, now: Duration, node: Arc<Node>, out: &mut Vec<Action>) {
        let Some(name) = node.metadata.name.clone() else { return };
        let before = self.nodes.insert(name.clone(), Arc::clone(&node));
        if before.as_ref().is_none_or(|before| matters(before) != matters(&node)) {
            self.queue.stir(now);
            self.demand.touch(now);
        }
        if before.is_none_or(|before| before.metadata.annotations != node.metadata.annotations) {
            self.agents.look_again(&name);
        }
        if let Some(id) = self.agents.on_host(&name).map(|agent| agent.id.clone()) {
            self.ensure_node(&id, out);
            self.ensure_taints(now, &id, out);
        }
    }

    pub(super) fn on_node_deleted(&mut self, name: &str, out: &mut Vec<Action>) {
        self.nodes.remove(name);
        self.agents.look_again(name);
        if let Some(id) = self.agents.on_host(name).map(|agent| agent.id.clone()) {
            if let Some(agent) = self.agents.get_mut(&id) {
                agent.asked = None;
                agent.asked_extended = None;
                agent.asked_taints = None;
            }
            self.ensure_node(&id, out);
        }
    }

    /// Creates the node of an agent or brings its labels and annotations in line.
    pub(super) fn ensure_node(&mut self, id: &str, out: &mut Vec<Action>) {
        let Some(agent) = self.agents.get(id).filter(|agent| agent.lost.is_none()) else { return };
        if !self.synced || self.agents.on_host(&agent.hostname).is_none_or(|current| current.id != id) {
            return;
        }
        let runs_pods = self.tasks.of_agent(id).next().is_some();
        if self.excludes(agent) && !runs_pods && !self.nodes.contains_key(&agent.hostname) {
            return;
        }
        self.ensure_extended(id, out);
        let Some(agent) = self.agents.get(id) else { return };
        let hostname = agent.hostname.clone();
        let labels = labels(agent);
        let annotations = self.annotations(agent);
        let node = self.nodes.get(&hostname);
        let patch = match node {
            // As little is known of the agent, the node knows better.
            Some(_) if !agent.described => None,
            Some(node) => metadata_patch(node, &labels, &annotations),
            None => Some(json!({ "create": annotations })),
        };
        let back = self.is_said_to_be_lost(&hostname);
        let Some(patch) = patch else {
            if agent.asked.is_some()
                && let Some(agent) = self.agents.get_mut(id)
            {
                agent.asked = None;
            }
            if back {
                self.set_ready(&hostname, "True", AGENT_READY, "The Mesos agent offers resources.", out);
            }
            return;
        };
        let exists = node.is_some();
        let own = self.config.resource_names.amounts(agent.executor.as_deref().unwrap_or_default());
        let new = (!exists).then(|| Box::new(new_node(agent, &own, labels, annotations)));
        let Some(agent) = self.agents.get_mut(id) else { return };
        if agent.asked.as_ref() == Some(&patch) {
            return;
        }
        agent.asked = Some(patch.clone());
        let then = Then::NodeWritten { agent_id: id.to_owned() };
        self.effects.start(then, out, |op| match new {
            Some(node) => Action::CreateNode { op, node },
            None => Action::PatchNode { op, name: hostname, patch, status: false },
        });
    }

    /// Whether the node says that its agent is lost.
    pub(super) fn is_said_to_be_lost(&self, hostname: &str) -> bool {
        self.nodes.get(hostname).is_some_and(|node| ready_reason(node) == Some(AGENT_LOST))
    }

    /// Whether the node carries all that a launch relies on: after a restart the same executor can be rebuilt from it.
    pub(super) fn node_ready(&self, agent: &Agent) -> bool {
        let Some(node) = self.nodes.get(&agent.hostname) else { return false };
        agent.executor.is_some() && metadata_patch(node, &labels(agent), &self.annotations(agent)).is_none()
    }

    fn annotations(&self, agent: &Agent) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::from([(keys::SLAVE_ID.to_owned(), agent.id.clone())]);
        if let Some(resources) = agent.executor.as_ref().filter(|_| !agent.other_executor) {
            annotations.insert(keys::EXECUTOR_ID.to_owned(), agent.executor_id.clone());
            annotations.insert(keys::EXECUTOR_RESOURCES.to_owned(), executor::encode_resources(resources));
        }
        annotations
    }

    /// The agent is there, and no executor speaks for the node.
    pub(super) fn mark_node_offered(&mut self, hostname: &str, out: &mut Vec<Action>) {
        let known = self.nodes.get(hostname).is_some_and(|node| ready_reason(node) == Some(AGENT_READY));
        if !known {
            self.set_ready(hostname, "True", AGENT_READY, "The Mesos agent offers resources.", out);
        }
    }

    pub(super) fn mark_node_unknown(&mut self, hostname: &str, out: &mut Vec<Action>) {
        self.set_ready(hostname, "Unknown", AGENT_LOST, "Mesos lost contact with the agent.", out);
    }

    fn set_ready(&mut self, name: &str, status: &str, reason: &str, message: &str, out: &mut Vec<Action>) {
        let Some(node) = self.nodes.get(name) else { return };
        let known = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let mut conditions: Vec<NodeCondition> =
            known.into_iter().filter(|condition| condition.type_ != "Ready").collect();
        conditions.push(condition(status, reason, message));
        let patch = json!({ "status": { "conditions": conditions } });
        let name = name.to_owned();
        self.effects.start(Then::Nothing, out, |op| Action::PatchNode { op, name, patch, status: true });
    }
}

/// What placement sees of a node: labels, taints, and whether it is cordoned.
type Seen<'a> = (Option<&'a BTreeMap<String, String>>, Option<&'a Vec<Taint>>, bool);

fn matters(node: &Node) -> Seen<'_> {
    let spec = node.spec.as_ref();
    let cordoned = spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
    (node.metadata.labels.as_ref(), spec.and_then(|spec| spec.taints.as_ref()), cordoned)
}

fn ready_reason(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")?.reason.as_deref()
}

/// Host name, fault domain and attributes as labels. Attributes whose name or value can't be a label are left out; of two of the
/// same name the last one counts.
fn labels(agent: &Agent) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(keys::HOSTNAME_LABEL.to_owned(), agent.hostname.clone())]);
    if let Some((region, zone)) = &agent.domain {
        let valid = [(keys::REGION_LABEL, region), (keys::ZONE_LABEL, zone)];
        let valid = valid.into_iter().filter(|(_, value)| names::label_value(value).is_ok());
        labels.extend(valid.map(|(key, value)| (key.to_owned(), value.clone())));
    }
    for attribute in &agent.attributes {
        let key = keys::attribute_label(&attribute.name);
        let value = attribute_value(attribute);
        if names::qualified_name(&key).is_ok() && names::label_value(&value).is_ok() {
            labels.insert(key, value);
        }
    }
    labels
}

/// Text as it is, numbers in their shortest form; other attributes have no value.
fn attribute_value(attribute: &v1::Attribute) -> String {
    if let Some(text) = &attribute.text {
        return text.value.clone();
    }
    match &attribute.scalar {
        Some(scalar) if scalar.value != 0.0 && !(1e-4..1e21).contains(&scalar.value.abs()) => {
            format!("{:E}", scalar.value)
        }
        Some(scalar) => scalar.value.to_string(),
        None => String::new(),
    }
}

/// The merge patch that brings a node's metadata in line, if it needs one.
fn metadata_patch(
    node: &Node,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<Value> {
    let empty = BTreeMap::new();
    let have = node.metadata.labels.as_ref().unwrap_or(&empty);
    let mut changed: BTreeMap<&str, Option<&str>> = differing(labels, have);
    for key in have.keys().filter(|key| key.starts_with(keys::ATTRIBUTE_PREFIX) && !labels.contains_key(*key)) {
        changed.insert(key, None);
    }
    let noted = differing(annotations, node.metadata.annotations.as_ref().unwrap_or(&empty));
    if changed.is_empty() && noted.is_empty() {
        return None;
    }
    Some(json!({ "metadata": { "labels": changed, "annotations": noted } }))
}

fn differing<'a>(
    want: &'a BTreeMap<String, String>,
    have: &BTreeMap<String, String>,
) -> BTreeMap<&'a str, Option<&'a str>> {
    let differs = |(key, value): &(&String, &String)| have.get(*key) != Some(*value);
    want.iter().filter(differs).map(|(key, value)| (key.as_str(), Some(value.as_str()))).collect()
}

fn condition(status: &str, reason: &str, message: &str) -> NodeCondition {
    NodeCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..NodeCondition::default()
    }
}

/// The node of an agent that no executor has spoken for yet.
fn new_node(
    agent: &Agent,
    own: &Amounts,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
) -> Node {
    let capacity = quantities(&agent.capacity);
    let mut free = agent.capacity.clone();
    free.milli_cpu = (free.milli_cpu - own.milli_cpu).max(0);
    free.memory_bytes = (free.memory_bytes - own.memory_bytes).max(0);
    Node {
        metadata: ObjectMeta {
            name: Some(agent.hostname.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: None,
        status: Some(NodeStatus {
            allocatable: Some(quantities(&free)),
            capacity: Some(capacity),
            conditions: Some(vec![condition("True", AGENT_READY, "The Mesos agent offers resources.")]),
            ..NodeStatus::default()
        }),
    }
}

fn quantities(amounts: &Amounts) -> BTreeMap<String, TypedQuantity> {
    let mut all = BTreeMap::from([
        ("cpu".to_owned(), Quantity::from_milli(amounts.milli_cpu).into()),
        ("memory".to_owned(), Quantity::from_bytes(amounts.memory_bytes).into()),
        ("pods".to_owned(), Quantity::from_value(MAX_PODS).into()),
    ]);
    for (name, amount) in &amounts.other {
        let extended = pod::is_extended(name);
        let quantity = if extended { Quantity::from_value(*amount) } else { Quantity::from_bytes(*amount) };
        all.insert(name.clone(), quantity.into());
    }
    all
}
