//! An executor and the API server: bindings, statuses, deletions, and the watch of its node's pods.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_executor::{
    BindFailure,
    api::{PodChange, PodKey as FullKey},
    tasks::Event,
};
use km_mesos_proto::v1::TaskStatus;
use km_podtask::{PodKey, messages};

use crate::{
    delivery::{Delivery, ToExecutor},
    queue::Channel,
    world::World,
};
use km_fakeapi::{BindError, Change, node_of, uid_of};

/// Pause before a request that failed is made again.
const RETRY: Duration = Duration::from_secs(1);

impl World {
    pub(super) fn try_to_bind(&mut self, agent: usize, container: &str, task: String, pod: Box<Pod>) {
        if self.api.down || self.mishap(0.02) {
            self.at_executor(agent, container, RETRY, ToExecutor::Bind(task, pod));
            return;
        }
        let hostname = self.hosts[agent].hostname.clone();
        let result = self.api.bind(&pod, &hostname);
        self.check_ports_of_bound(&hostname, &pod);
        if self.mishap(0.02) {
            // Done, but without an answer.
            self.at_executor(agent, container, RETRY, ToExecutor::Bind(task, pod));
            return;
        }
        let result = match result {
            Ok(bound) => Ok(Box::new(Pod::clone(&bound))),
            Err(BindError::Gone) => Err(BindFailure::Gone("it is gone".to_owned())),
            Err(BindError::Refused) => Err(BindFailure::Failed {
                message: messages::CREATE_BINDING_FAILURE,
                detail: "it is bound or has ended".to_owned(),
            }),
        };
        let delay = self.latency();
        self.at_executor(agent, container, delay, ToExecutor::Bound(task, result));
    }

    pub(super) fn try_to_write_status(&mut self, agent: usize, container: &str, uid: &str) {
        let fails = self.api.down || self.mishap(0.02);
        let Some(executor) = self.hosts[agent].executors.get_mut(container) else { return };
        let Some(pod) = executor.pods.get_mut(uid) else { return };
        if fails {
            self.at_executor(agent, container, RETRY, ToExecutor::WriteStatus(uid.to_owned()));
            return;
        }
        pod.writing = false;
        let (key, status) = (pod.key.clone(), pod.wanted.take());
        if let Some(status) = status {
            self.api.set_status(&key, uid, status);
        }
        self.end_when_written(agent, container, uid);
    }

    pub(super) fn try_to_delete(&mut self, agent: usize, container: &str, key: FullKey, then: Option<Box<TaskStatus>>) {
        let fails = self.api.down || self.mishap(0.02);
        if !fails {
            // That it is gone already is fine.
            let _gone = self.api.remove_exactly(&PodKey::new(&key.namespace, &key.name), &key.uid);
        }
        // Tried until there is an answer.
        if fails || self.mishap(0.02) {
            self.at_executor(agent, container, RETRY, ToExecutor::DeletePod(key, then));
        } else if let Some(status) = then {
            self.task_reports(agent, container, *status);
        }
    }

    /// A request of a process that is dead by now may still arrive.
    pub(crate) fn orphaned_request(&mut self, agent: usize, what: ToExecutor) {
        if self.api.down || !self.mishap(0.5) {
            return;
        }
        match what {
            ToExecutor::Bind(task, pod) => {
                let hostname = self.hosts[agent].hostname.clone();
                let bound = self.api.bind(&pod, &hostname).is_ok();
                self.note(|| format!("the binding of {task} comes from a dead executor: {bound}"));
            }
            ToExecutor::DeletePod(key, _) => {
                // That it is gone already is fine.
                let _gone = self.api.remove_exactly(&PodKey::new(&key.namespace, &key.name), &key.uid);
            }
            _ => {}
        }
    }

    /// Opens the watch of the node's pods, after a list.
    pub(super) fn open_pod_watch(&mut self, agent: usize, container: &str, pause: Duration) {
        let host = &mut self.hosts[agent];
        host.watches += 1;
        let number = host.watches;
        if let Some(executor) = host.executors.get_mut(container) {
            executor.watch = Some(number);
            executor.watching = false;
        }
        let delay = pause + self.latency();
        self.at_executor(agent, container, delay, ToExecutor::Relist(number));
    }

    pub(crate) fn break_pod_watches(&mut self, agent: usize) {
        let containers: Vec<String> = self.hosts[agent].executors.keys().cloned().collect();
        for container in containers {
            let pause = self.around(Duration::from_secs(2));
            self.open_pod_watch(agent, &container, pause);
        }
    }

    pub(super) fn pod_watch_lists(&mut self, agent: usize, container: &str, number: u64) {
        if self.hosts[agent].executors.get(container).and_then(|executor| executor.watch) != Some(number) {
            return;
        }
        if self.api.down {
            self.at_executor(agent, container, RETRY, ToExecutor::Relist(number));
            return;
        }
        if let Some(executor) = self.hosts[agent].executors.get_mut(container) {
            executor.watching = true;
        }
        let pods: Vec<Arc<Pod>> = self.api.pods_on(&self.hosts[agent].hostname).cloned().collect();
        let uids = pods.iter().map(|pod| uid_of(pod)).collect();
        for pod in pods {
            let change = PodChange::Applied(Box::new(Pod::clone(&pod)));
            self.executor_event(agent, container, Event::Pod(change));
        }
        self.executor_event(agent, container, Event::Pod(PodChange::Complete(uids)));
    }

    /// Sends a change to the executors of its pod's node.
    pub(crate) fn publish_to_executors(&mut self, change: &Change) {
        let Some(agent) = change.pod().and_then(|(pod, _)| self.host_numbers.get(node_of(pod)?).copied()) else {
            return;
        };
        let executors = self.hosts[agent].executors.iter().filter(|(_, executor)| executor.watching);
        let open: Vec<(String, u64)> =
            executors.filter_map(|(container, one)| Some((container.clone(), one.watch?))).collect();
        for (container, number) in open {
            let what = ToExecutor::Watch(number, change.clone());
            self.travel(Channel::PodWatch(agent, number), Delivery::Executor(agent, container, what));
        }
    }

    pub(super) fn pod_watch_delivers(&mut self, agent: usize, container: &str, number: u64, change: &Change) {
        if self.hosts[agent].executors.get(container).and_then(|executor| executor.watch) != Some(number) {
            return;
        }
        if let Some((pod, there)) = change.pod() {
            let change =
                if there { PodChange::Applied(Box::new(Pod::clone(pod))) } else { PodChange::Gone(uid_of(pod)) };
            self.executor_event(agent, container, Event::Pod(change));
        }
    }
}
