//! Pods: created, bound, ended, deleted.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodSpec, PodStatus, Toleration},
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
    jiff::Timestamp,
};
use km_kube::pod::{is_terminal, phase};
use km_podtask::PodKey;

use super::{Api, history::What, node_of, nodes::WriteError, task_of, uid_of};

/// Why a pod can't be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindError {
    /// It is gone, or being deleted.
    Gone,
    /// It is bound by another task or to another node, or has ended.
    Refused,
}

impl Api {
    /// A new pod in namespace `default`, or the one of that name that is there.
    pub fn create(&mut self, name: &str, spec: PodSpec, owner: Option<&str>) -> PodKey {
        self.create_as(name, spec, |pod| {
            pod.metadata.owner_references = owner.map(|owner| {
                vec![OwnerReference { uid: owner.to_owned(), controller: Some(true), ..OwnerReference::default() }]
            });
        })
    }

    /// The same, with what some other client sets besides.
    pub fn create_as(&mut self, name: &str, mut spec: PodSpec, change: impl FnOnce(&mut Pod)) -> PodKey {
        let default = Toleration {
            key: Some("node.kubernetes.io/unreachable".into()),
            operator: Some("Exists".into()),
            effect: Some("NoExecute".into()),
            toleration_seconds: Some(self.toleration.unwrap_or(300)),
            ..Toleration::default()
        };
        spec.tolerations.get_or_insert_with(|| vec![default]);
        let mut pod = Pod { spec: Some(spec), ..Pod::default() };
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("default".to_owned());
        let key = PodKey::of(&pod.metadata);
        if self.pods.contains_key(&key) {
            return key;
        }
        self.next_uid += 1;
        pod.metadata.uid = Some(format!("{:08x}-0000-4000-8000-{:012x}", self.next_uid, self.next_uid));
        change(&mut pod);
        self.store(pod);
        key
    }

    fn store(&mut self, mut pod: Pod) {
        let key = PodKey::of(&pod.metadata);
        let old = self.pods.get(&key).filter(|old| old.metadata.uid == pod.metadata.uid);
        if let Some(old) = old.filter(|old| is_terminal(old) && phase(old) != phase(&pod)) {
            let (before, after) = (phase(old), phase(&pod));
            self.broken = Some(format!("invariant 10: {key} was {before} and became {after}"));
        }
        if let Some(task) = task_of(&pod) {
            self.by_task.insert(task, key.clone());
        }
        if let Some(node) = node_of(&pod) {
            self.by_node.entry(node.to_owned()).or_default().insert(key.clone());
        }
        let version = self.history.next();
        pod.metadata.resource_version = Some(version.to_string());
        let pod = Arc::new(pod);
        self.history.push(version, What::PodApplied(Arc::clone(&pod)));
        self.pods.insert(key, pod);
    }

    /// What a user's `kubectl delete` does: a pod with a node waits for its kubelet.
    pub fn delete(&mut self, key: &PodKey) {
        let Some(pod) = self.pods.get(key) else { return };
        if node_of(pod).is_none() || is_terminal(pod) {
            self.remove(key);
        } else if pod.metadata.deletion_timestamp.is_none() {
            let mut pod = Pod::clone(pod);
            let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
            pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            pod.metadata.deletion_grace_period_seconds = Some(grace.unwrap_or(30));
            self.store(pod);
        }
    }

    pub fn remove(&mut self, key: &PodKey) {
        let Some(pod) = self.pods.remove(key) else { return };
        if let Some(task) = task_of(&pod) {
            self.by_task.remove(&task);
        }
        if let Some(pods) = node_of(&pod).and_then(|node| self.by_node.get_mut(node)) {
            pods.remove(key);
        }
        let version = self.history.next();
        self.history.push(version, What::PodDeleted(pod));
    }

    /// Deletion with the pod's grace and a UID precondition; with `budgets` these may refuse it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn evict(&mut self, key: &PodKey, uid: &str, budgets: bool) -> Result<(), WriteError> {
        self.fetch(key, uid).ok_or(WriteError::Gone)?;
        if budgets && self.kept.contains(key) {
            return Err(WriteError::Refused("a disruption budget needs the pod".to_owned()));
        }
        self.delete(key);
        Ok(())
    }

    /// Deletion with grace 0 and a UID precondition.
    ///
    /// # Errors
    /// When it isn't there.
    pub fn remove_exactly(&mut self, key: &PodKey, uid: &str) -> Result<(), WriteError> {
        self.fetch(key, uid).ok_or(WriteError::Gone)?;
        self.remove(key);
        Ok(())
    }

    /// What the executor's Binding does, as often as it is repeated: the pod as it is then.
    ///
    /// # Errors
    /// When the pod must not run for this task on that node.
    pub fn bind(&mut self, launched: &Pod, node: &str) -> Result<Arc<Pod>, BindError> {
        let key = PodKey::of(&launched.metadata);
        let same = |pod: &&Arc<Pod>| pod.metadata.uid == launched.metadata.uid;
        let Some(pod) = self.pods.get(&key).filter(same) else { return Err(BindError::Gone) };
        if pod.metadata.deletion_timestamp.is_some() {
            return Err(BindError::Gone);
        }
        if node_of(pod).is_some() || is_terminal(pod) {
            let ours = node_of(pod) == Some(node) && task_of(pod) == task_of(launched) && !is_terminal(pod);
            return if ours { Ok(Arc::clone(pod)) } else { Err(BindError::Refused) };
        }
        if self.refuse_bindings > 0 {
            self.refuse_bindings -= 1;
            return Err(BindError::Refused);
        }
        let mut pod = Pod::clone(pod);
        pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
        let annotations = launched.metadata.annotations.clone().unwrap_or_default();
        pod.metadata.annotations.get_or_insert_default().extend(annotations);
        self.store(pod);
        Ok(Arc::clone(&self.pods[&key]))
    }

    /// What a kubelet writes of its pod, unless that pod is gone.
    pub fn set_status(&mut self, key: &PodKey, uid: &str, status: PodStatus) {
        let Some(pod) = self.pods.get(key).filter(|pod| uid_of(pod) == uid) else { return };
        let mut pod = Pod::clone(pod);
        pod.status = Some(status);
        self.store(pod);
    }

    /// Sets the phase, unless the present one is terminal.
    ///
    /// # Errors
    /// When there is no such pod.
    pub fn set_phase(&mut self, key: &PodKey, uid: &str, phase: &str) -> Result<(), WriteError> {
        let pod = self.fetch(key, uid).ok_or(WriteError::Gone)?;
        if !is_terminal(pod) {
            let known = pod.status.clone().unwrap_or_default();
            let status = PodStatus { phase: Some(phase.to_owned()), ..known };
            self.set_status(key, uid, status);
        }
        Ok(())
    }

    /// Sets `status.nominatedNodeName`, or takes it away.
    ///
    /// # Errors
    /// When there is no such pod.
    pub fn nominate(&mut self, key: &PodKey, uid: &str, node: Option<String>) -> Result<(), WriteError> {
        self.fetch(key, uid).ok_or(WriteError::Gone)?;
        self.edit(key, |pod| pod.status.get_or_insert_default().nominated_node_name = node);
        Ok(())
    }

    /// Sets a condition, as a strategic patch of the status does.
    ///
    /// # Errors
    /// When there is no such pod.
    pub fn set_condition(
        &mut self,
        key: &PodKey,
        uid: &str,
        (kind, status): (&str, &str),
        (reason, message): (&str, &str),
    ) -> Result<(), WriteError> {
        self.fetch(key, uid).ok_or(WriteError::Gone)?;
        self.edit(key, |pod| {
            let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
            conditions.retain(|condition| condition.type_ != kind);
            conditions.push(PodCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message.to_owned()),
                ..PodCondition::default()
            });
        });
        Ok(())
    }

    /// The pod of that key, if it still has that UID.
    pub fn fetch(&self, key: &PodKey, uid: &str) -> Option<&Arc<Pod>> {
        self.pods.get(key).filter(|pod| uid_of(pod) == uid)
    }

    pub fn uids(&self) -> Vec<String> {
        self.pods.values().map(|pod| uid_of(pod)).collect()
    }

    /// Changes a pod in a way that no other method does, for a test's sake.
    pub fn edit(&mut self, key: &PodKey, change: impl FnOnce(&mut Pod)) {
        let Some(mut pod) = self.pods.get(key).map(|pod| Pod::clone(pod)) else { return };
        change(&mut pod);
        self.store(pod);
    }
}
