//! Which tasks an event concerns.

use super::value::key_of;
use super::{Key, Manager, PodView, Resource, Task, controller_of, labels_at, owners, text};
use jiff::Timestamp;
use km_kube::selector::LabelSelector;
use serde_json::{Value, json};

impl Manager {
    pub(super) fn seen(&mut self, now: Timestamp, resource: &Resource, object: Value) {
        for uid in self.graph.seen(resource, &object) {
            self.queue.add(&Task::Garbage(uid), now);
        }
        match resource.plural.as_str() {
            "pods" if resource.group.is_empty() => {
                let Some(pod) = PodView::read(&object) else { return };
                let old = self.world.put_pod(pod.clone());
                self.pod_expectations(old.as_ref(), Some(&pod));
                self.pod_changed(now, old.as_ref(), Some(&pod));
            }
            _ if Resource::essential().contains(resource) => {
                let old = self.world.put(resource, object.clone());
                self.other_changed(now, resource, old.as_ref(), &object);
            }
            _ => {}
        }
    }

    pub(super) fn gone(&mut self, now: Timestamp, resource: &Resource, object: &Value) {
        self.owners_found.remove(text(object, "/metadata/uid"));
        for uid in self.graph.gone(text(object, "/metadata/uid")) {
            self.queue.add(&Task::Garbage(uid), now);
        }
        let key = key_of(object);
        match resource.plural.as_str() {
            "pods" if resource.group.is_empty() => {
                let old = self.world.remove_pod(&key).or_else(|| PodView::read(object));
                self.pod_expectations(old.as_ref(), None);
                self.pod_changed(now, old.as_ref(), None);
            }
            _ if Resource::essential().contains(resource) => {
                self.world.remove(resource, &key);
                if *resource == Resource::volumes() {
                    self.lost_claims.remove(&key.name);
                }
                self.other_changed(now, resource, None, object);
            }
            _ => {}
        }
    }

    /// What a replica controller waits for: a pod that is new, or that is going now.
    fn pod_expectations(&mut self, old: Option<&PodView>, new: Option<&PodView>) {
        let Some(pod) = new.or(old) else { return };
        let Some(task) = owner_task(&pod.namespace, &pod.owners) else { return };
        let known = old.is_some_and(|old| old.uid == pod.uid);
        if new.is_some() && !known {
            self.expectations.created(&task);
        }
        if new.is_none_or(|new| new.deleting) {
            self.expectations.deleted(&task, &pod.uid);
        }
        // A pod of the same name with another uid: the old one is gone though its end was not seen.
        if let Some(old) = old.filter(|old| old.uid != pod.uid)
            && let Some(task) = owner_task(&old.namespace, &old.owners)
        {
            self.expectations.deleted(&task, &old.uid);
        }
    }

    fn pod_changed(&mut self, now: Timestamp, old: Option<&PodView>, new: Option<&PodView>) {
        if old == new {
            return;
        }
        let mut tasks = Vec::new();
        for pod in [old, new].into_iter().flatten() {
            match owner_task(&pod.namespace, &pod.owners) {
                Some(task) => {
                    if let Task::ReplicaSet(key) = &task {
                        tasks.extend(self.deployment_of(key));
                    }
                    tasks.push(task);
                }
                None => tasks.extend(self.possible_owners(pod)),
            }
            tasks.extend(self.services_of(pod));
            tasks.extend(pod.claims.iter().map(|claim| Task::Claim(Key::new(&pod.namespace, claim))));
        }
        tasks.iter().for_each(|task| self.queue.add(task, now));
    }

    fn deployment_of(&self, replica_set: &Key) -> Option<Task> {
        let object = self.world.get(&Resource::replica_sets(), replica_set)?;
        let owner = controller_of(owners(object)).filter(|owner| owner["kind"] == "Deployment")?;
        Some(Task::Deployment(Key::new(&replica_set.namespace, owner["name"].as_str()?)))
    }

    /// Replica controllers whose selector matches a pod without a controller.
    fn possible_owners(&self, pod: &PodView) -> Vec<Task> {
        let mut tasks = Vec::new();
        for object in self.world.within(&Resource::replica_sets(), &pod.namespace) {
            if let Ok(selector) = LabelSelector::from_object(&object["spec"]["selector"])
                && selector.matches(&pod.labels)
            {
                tasks.push(Task::ReplicaSet(key_of(object)));
            }
        }
        for object in self.world.within(&Resource::replication_controllers(), &pod.namespace) {
            let pairs = labels_at(object, "/spec/selector");
            if !pairs.is_empty() && LabelSelector::from_map(&pairs).matches(&pod.labels) {
                tasks.push(Task::ReplicationController(key_of(object)));
            }
        }
        tasks
    }

    fn services_of(&self, pod: &PodView) -> Vec<Task> {
        let services = self.world.within(&Resource::services(), &pod.namespace);
        let matching = services.filter(|service| {
            let pairs = labels_at(service, "/spec/selector");
            !pairs.is_empty() && LabelSelector::from_map(&pairs).matches(&pod.labels)
        });
        matching.map(|service| Task::Endpoints(key_of(service))).collect()
    }

    fn other_changed(&mut self, now: Timestamp, resource: &Resource, old: Option<&Value>, object: &Value) {
        let key = key_of(object);
        let mut tasks = Vec::new();
        match resource.plural.as_str() {
            "replicationcontrollers" => tasks.push(Task::ReplicationController(key)),
            "replicasets" => {
                for object in old.into_iter().chain([object]) {
                    match controller_of(owners(object)) {
                        Some(owner) => {
                            let name = owner["name"].as_str().unwrap_or_default();
                            tasks.push(Task::Deployment(Key::new(&key.namespace, name)));
                        }
                        None => tasks.extend(self.possible_deployments(&key.namespace, object)),
                    }
                }
                tasks.push(Task::ReplicaSet(key));
            }
            "deployments" => tasks.push(Task::Deployment(key)),
            "services" | "endpoints" => tasks.push(Task::Endpoints(key)),
            "endpointslices" => {
                let service = text(object, "/metadata/labels/kubernetes.io~1service-name");
                if !service.is_empty() {
                    tasks.push(Task::Endpoints(Key::new(&key.namespace, service)));
                }
            }
            "namespaces" => {
                tasks.push(Task::Namespace(key.name.clone()));
                tasks.push(Task::Accounts(key.name));
            }
            "persistentvolumes" => {
                tasks.extend(self.claims_of(old.into_iter().chain([object])));
                tasks.push(Task::Volume(key.name));
            }
            "persistentvolumeclaims" => tasks.extend(self.volumes_of(key, old.into_iter().chain([object]))),
            "storageclasses" => tasks.extend(self.unbound_claims(&key.name)),
            "serviceaccounts" if key.name == "default" => tasks.push(Task::Accounts(key.namespace)),
            "configmaps" if key.name == crate::accounts::ROOT_CA => tasks.push(Task::Accounts(key.namespace)),
            _ => {}
        }
        tasks.iter().for_each(|task| self.queue.add(task, now));
    }

    fn possible_deployments(&self, namespace: &str, replica_set: &Value) -> Vec<Task> {
        let labels = labels_at(replica_set, "/metadata/labels");
        let deployments = self.world.within(&Resource::deployments(), namespace);
        let matching = deployments.filter(|deployment| {
            LabelSelector::from_object(&deployment["spec"]["selector"]).is_ok_and(|selector| selector.matches(&labels))
        });
        matching.map(|deployment| Task::Deployment(key_of(deployment))).collect()
    }
}

/// The task of the controller that manages an object, if it is one of ours.
fn owner_task(namespace: &str, owners: &[Value]) -> Option<Task> {
    let owner = controller_of(owners)?;
    let key = Key::new(namespace, owner["name"].as_str()?);
    match (&owner["apiVersion"], &owner["kind"]) {
        (version, kind) if version == &json!("apps/v1") && kind == &json!("ReplicaSet") => Some(Task::ReplicaSet(key)),
        (version, kind) if version == &json!("v1") && kind == &json!("ReplicationController") => {
            Some(Task::ReplicationController(key))
        }
        _ => None,
    }
}
