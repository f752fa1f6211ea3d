//! Invariants 3, 4, 6, 7 and 8 at the moment when somebody acts.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use km_kube::pod::is_terminal;
use km_mesos_proto::v1::TaskInfo;
use km_podtask::PodKey;

use crate::world::World;
use km_fakeapi::{node_of, task_of, uid_of};

/// An agent that has been registered for so long was seen by the scheduler.
const SEEN: Duration = Duration::from_secs(20);

impl World {
    /// Invariant 3: a task belongs to one pod UID.
    pub(crate) fn check_task_ids(&mut self, tasks: &[TaskInfo]) {
        for task in tasks {
            let pod: Pod = serde_json::from_slice(task.data.as_deref().unwrap_or_default()).unwrap_or_default();
            if let Err(broken) = self.runs.task_named(&task.task_id.value, &uid_of(&pod)) {
                self.violate(|| broken);
            }
        }
    }

    /// Invariant 4: a pod is deleted by the scheduler only when its task can't run any more.
    pub(crate) fn check_deletion(&mut self, key: &PodKey, uid: &str) {
        let Some(pod) = self.api.pods.get(key).filter(|pod| uid_of(pod) == uid) else { return };
        let Some(id) = task_of(pod) else { return };
        let (wanted, ended) = (pod.metadata.deletion_timestamp.is_none(), is_terminal(pod));
        if wanted && self.runs.tasks.contains_key(&id) {
            self.violate(|| format!("invariant 4: {key} is deleted while {id} lives"));
        }
        if wanted && ended {
            self.violate(|| format!("invariant 4: {key} ended by itself and is deleted"));
        }
    }

    /// Invariant 4: a pod is evicted only from an agent that is to be emptied or that can't be reached.
    pub(crate) fn check_eviction(&mut self, key: &PodKey, uid: &str) {
        let pod = self.api.pods.get(key).filter(|pod| uid_of(pod) == uid);
        let node = pod.and_then(|pod| node_of(pod)).and_then(|node| self.host_numbers.get(node)).copied();
        let Some(number) = node.filter(|number| !self.is_in_upkeep(*number)) else { return };
        if self.hosts[number].registered_at.is_some_and(|since| since + SEEN * 2 <= self.now) {
            self.violate(|| format!("invariant 4: {key} is evicted from host{number}, which is there"));
        }
    }

    /// Invariant 4: a task is killed only when no pod wants it.
    pub(crate) fn check_kill(&mut self, id: &str) {
        let Some((key, pod)) = self.api.pod_of_task(id) else { return };
        if node_of(pod).is_some() && pod.metadata.deletion_timestamp.is_none() && !is_terminal(pod) {
            let key = key.clone();
            self.violate(|| format!("invariant 4: {id} is killed although {key} wants it"));
        }
    }

    /// Invariant 6: what was heard is acknowledged, no more often than it was heard, and the end of a task only when
    /// its pod shows it.
    pub(crate) fn check_acknowledgement(&mut self, process: usize, id: &str, uuid: &[u8]) {
        let Some(heard) = self.schedulers[process].heard(uuid).filter(|heard| heard.open > 0 && heard.task == id)
        else {
            self.violate(|| format!("invariant 6: an update of {id} is acknowledged that wasn't heard"));
            return;
        };
        heard.open -= 1;
        if !heard.ending {
            return;
        }
        if let Some((key, pod)) = self.api.pod_of_task(id)
            && !is_terminal(pod)
        {
            let key = key.clone();
            self.violate(|| format!("invariant 6: the end of {id} is acknowledged, but not in {key}"));
        }
    }

    /// Invariant 7: the node of an agent that is there, or that runs a pod, is not deleted.
    pub(crate) fn check_node_deletion(&mut self, name: &str) {
        let Some(number) = self.host_numbers.get(name).copied() else { return };
        let host = &self.hosts[number];
        let present = host.registered_at.is_some_and(|since| since + SEEN <= self.now) && !host.executors.is_empty();
        if present && self.leader().is_some() {
            self.violate(|| {
                format!("invariant 7: node {name} is deleted while its executor runs and its agent is there")
            });
        }
        let wants = |pod: &Pod| pod.metadata.deletion_timestamp.is_none() && !is_terminal(pod);
        let runs = |task: &String| self.runs.tasks.get(task).is_some_and(|one| one.agent == number);
        let running = self.api.pods_on(name).filter(|pod| wants(pod)).filter_map(|pod| task_of(pod)).find(runs);
        if let Some(task) = running {
            self.violate(|| format!("invariant 7: node {name} is deleted while {task} runs there"));
        }
    }

    /// Invariant 8: no two pods of a node have the same host port.
    pub(crate) fn check_ports_of_bound(&mut self, node: &str, bound: &Pod) {
        let ports = ports_of(bound);
        if ports.is_empty() {
            return;
        }
        let uid = uid_of(bound);
        let others = self.api.pods_on(node).filter(|pod| uid_of(pod) != uid && !is_terminal(pod));
        let others = others.filter(|pod| task_of(pod).is_some_and(|task| self.runs.tasks.contains_key(&task)));
        let taken = others.flat_map(|pod| ports_of(pod)).find(|port| ports.contains(port));
        let is_bound = self.api.pods.get(&PodKey::of(&bound.metadata)).is_some_and(|pod| node_of(pod) == Some(node));
        if let Some(port) = taken.filter(|_| is_bound) {
            self.violate(|| format!("invariant 8: two pods on {node} have host port {port}"));
        }
    }
}

fn ports_of(pod: &Pod) -> Vec<i32> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| port.host_port.filter(|port| *port > 0)).collect()
}
