//! For tests: an API server in memory, and a run of the state machine against it in any order of events.

use super::*;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How the next creation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// Refused.
    Refused,
    /// Done, but the answer is lost.
    AnswerLost,
    /// Not done, and nobody says so.
    RequestLost,
}

#[derive(Default)]
pub(crate) struct FakeApi {
    pub objects: BTreeMap<(Resource, Key), Value>,
    /// Events not delivered yet, per resource.
    pub events: BTreeMap<Resource, VecDeque<Event>>,
    pub trouble: VecDeque<Trouble>,
    counter: u64,
}

impl FakeApi {
    fn next(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }

    fn tell(&mut self, resource: &Resource, event: Event) {
        self.events.entry(resource.clone()).or_default().push_back(event);
    }

    fn store(&mut self, resource: &Resource, mut object: Value) -> Value {
        object["metadata"]["resourceVersion"] = json!(self.next());
        let key = value::key_of(&object);
        let unheld = |at: &str| object.pointer(at).and_then(Value::as_array).is_none_or(Vec::is_empty);
        let dying = !text(&object, "/metadata/deletionTimestamp").is_empty();
        let pod = resource.plural == "pods";
        if dying && !pod && unheld("/metadata/finalizers") && unheld("/spec/finalizers") {
            self.objects.remove(&(resource.clone(), key));
            self.tell(resource, Event::Gone(resource.clone(), object.clone()));
        } else {
            self.objects.insert((resource.clone(), key), object.clone());
            self.tell(resource, Event::Seen(resource.clone(), object.clone()));
        }
        object
    }

    /// As a user or another component would.
    pub(crate) fn create(&mut self, resource: &Resource, namespace: &str, mut object: Value) -> Outcome {
        if text(&object, "/metadata/name").is_empty() {
            let name = format!("{}{}", text(&object, "/metadata/generateName"), self.next());
            object["metadata"]["name"] = json!(name);
        }
        object["metadata"]["namespace"] = json!(namespace);
        let key = value::key_of(&object);
        if self.objects.contains_key(&(resource.clone(), key)) {
            return Err(Failure::AlreadyExists);
        }
        object["metadata"]["uid"] = json!(format!("uid-{}", self.next()));
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{:02}Z", self.counter.min(59)));
        if resource.plural == "pods" {
            object["status"]["phase"] = json!("Pending");
        }
        Ok(Answer::Object(self.store(resource, object)))
    }

    /// Changes an object by a function.
    pub(crate) fn change(&mut self, resource: &Resource, key: &Key, change: impl FnOnce(&mut Value)) {
        let Some(mut object) = self.objects.get(&(resource.clone(), key.clone())).cloned() else { return };
        let before = object["spec"].clone();
        change(&mut object);
        if object["spec"] != before {
            object["metadata"]["generation"] = json!(integer(&object, "/metadata/generation").unwrap_or(0) + 1);
        }
        self.store(resource, object);
    }

    /// Removes a pod as its kubelet does at the end.
    pub(crate) fn remove(&mut self, resource: &Resource, key: &Key) {
        if let Some(object) = self.objects.remove(&(resource.clone(), key.clone())) {
            self.tell(resource, Event::Gone(resource.clone(), object));
        }
    }

    pub(crate) fn all(&self, resource: &Resource) -> Vec<Value> {
        let of = self.objects.iter().filter(|((one, _), _)| one == resource);
        of.map(|(_, object)| object.clone()).collect()
    }

    /// Pods that are neither finished nor going.
    pub(crate) fn active_pods(&self) -> Vec<PodView> {
        let pods = self.all(&Resource::pods());
        pods.iter().filter_map(PodView::read).filter(PodView::is_active).collect()
    }

    fn guarded(&self, resource: &Resource, key: &Key, metadata: &Value) -> Result<Value, Failure> {
        let object = self.objects.get(&(resource.clone(), key.clone())).cloned().ok_or(Failure::NotFound)?;
        for name in ["uid", "resourceVersion"] {
            if !metadata[name].is_null() && metadata[name] != object["metadata"][name] {
                return Err(Failure::Conflict);
            }
        }
        Ok(object)
    }

    fn is_dying(&self, namespace: &str) -> bool {
        let namespace = self.objects.get(&(Resource::namespaces(), Key::new("", namespace)));
        namespace.is_some_and(|namespace| !text(namespace, "/metadata/deletionTimestamp").is_empty())
    }

    pub(crate) fn perform(&mut self, action: &Action) -> Outcome {
        let key = |namespace: &str, name: &str| Key::new(namespace, name);
        match action {
            Action::Create { namespace, .. } if self.is_dying(namespace) => {
                Err(Failure::Refused("the namespace is being terminated".to_owned()))
            }
            Action::Create { resource, namespace, object } => match self.trouble.pop_front() {
                Some(Trouble::Refused) => Err(Failure::Refused("quota".to_owned())),
                Some(Trouble::RequestLost) => Err(Failure::Unreachable("lost".to_owned())),
                Some(Trouble::AnswerLost) => {
                    self.create(resource, namespace, object.clone())?;
                    Err(Failure::Unreachable("lost".to_owned()))
                }
                None => self.create(resource, namespace, object.clone()),
            },
            Action::Replace { resource, namespace, name, object, .. } => {
                self.guarded(resource, &key(namespace, name), &object["metadata"])?;
                Ok(Answer::Object(self.store(resource, object.clone())))
            }
            Action::Patch { resource, namespace, name, subresource, patch } => {
                let old = self.guarded(resource, &key(namespace, name), &patch["metadata"])?;
                let mut new = km_kube::patch::merge_patch(&old, patch).expect("controllers make objects");
                if subresource.is_none() && new["spec"] != old["spec"] {
                    new["metadata"]["generation"] = json!(integer(&old, "/metadata/generation").unwrap_or(0) + 1);
                }
                Ok(Answer::Object(self.store(resource, new)))
            }
            Action::Delete { resource, namespace, name, uid, propagation } => {
                let mut object = self.guarded(resource, &key(namespace, name), &json!({"uid": uid}))?;
                if text(&object, "/metadata/deletionTimestamp").is_empty() {
                    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:00Z");
                    if let Some(finalizer) = match propagation {
                        Some("Foreground") => Some("foregroundDeletion"),
                        Some("Orphan") => Some("orphan"),
                        _ => None,
                    } {
                        object["metadata"]["finalizers"] = json!([finalizer]);
                    }
                    self.store(resource, object);
                }
                Ok(Answer::Object(json!({})))
            }
            Action::Get { resource, namespace, name, .. } => {
                self.guarded(resource, &key(namespace, name), &json!({})).map(Answer::Object)
            }
            Action::List { resource, namespace } => {
                let all = self.all(resource).into_iter();
                Ok(Answer::Objects(all.filter(|object| text(object, "/metadata/namespace") == namespace).collect()))
            }
        }
    }
}

/// The state machine, the API, and work that is under way.
pub(crate) struct Simulation {
    pub api: FakeApi,
    pub manager: Manager,
    pub now: Timestamp,
    under_way: Vec<(Work, Vec<Outcome>)>,
}

impl Simulation {
    pub(crate) fn new() -> Self {
        let config = Config { host_port_endpoints: true, root_ca: Some("PEM".to_owned()), seed: 7 };
        let mut manager = Manager::new(config);
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        manager.observe(now, Event::Resources(Resource::essential().to_vec()));
        for resource in Resource::essential() {
            manager.observe(now, Event::Synced(resource));
        }
        Self { api: FakeApi::default(), manager, now, under_way: Vec::new() }
    }

    /// Delivers the oldest event of one of the resources that have any.
    pub(crate) fn deliver(&mut self, choice: usize) -> bool {
        let waiting: Vec<Resource> =
            self.api.events.iter().filter(|(_, events)| !events.is_empty()).map(|(one, _)| one.clone()).collect();
        if waiting.is_empty() {
            return false;
        }
        let resource = &waiting[choice % waiting.len()];
        if let Some(event) = self.api.events.get_mut(resource).and_then(VecDeque::pop_front) {
            self.manager.observe(self.now, event);
        }
        true
    }

    /// Begins the next piece of work.
    pub(crate) fn begin(&mut self) -> bool {
        match self.manager.work(self.now) {
            Some(work) => {
                self.under_way.push((work, Vec::new()));
                true
            }
            None => false,
        }
    }

    /// Carries one action of a piece of work out; creates after a failed create are skipped.
    pub(crate) fn act(&mut self, choice: usize) -> bool {
        if self.under_way.is_empty() {
            return false;
        }
        let index = choice % self.under_way.len();
        let (work, outcomes) = &mut self.under_way[index];
        let action = &work.actions[outcomes.len()];
        let failed = outcomes.last().is_some_and(Result::is_err);
        let outcome =
            if action.verb() == "create" && failed { Err(Failure::Skipped) } else { self.api.perform(action) };
        outcomes.push(outcome);
        if outcomes.len() == work.actions.len() {
            let (work, outcomes) = self.under_way.swap_remove(index);
            self.manager.finish(self.now, &work.task, outcomes);
        }
        true
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Kubelets: pods on their way out go, all others run and are ready. Says whether anything changed.
    pub(crate) fn kubelets(&mut self) -> bool {
        let mut changed = false;
        for object in self.api.all(&Resource::pods()) {
            changed |= self.kubelet(&object);
        }
        changed
    }

    pub(crate) fn kubelet(&mut self, pod: &Value) -> bool {
        let view = PodView::read(pod).expect("the fake holds pods");
        if view.deleting {
            self.api.remove(&Resource::pods(), &view.key());
            return true;
        }
        if view.is_ready() || view.is_terminal() {
            return false;
        }
        let since = self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        self.api.change(&Resource::pods(), &view.key(), |pod| {
            pod["spec"]["nodeName"] = json!("n");
            pod["status"] = json!({"phase": "Running", "hostIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]});
        });
        true
    }

    /// Everything that can happen happens until nothing does; `kubelets` says whether pods are run meanwhile.
    pub(crate) fn settle(&mut self, kubelets: bool) {
        for _ in 0..20_000 {
            let mut busy = false;
            while self.deliver(0) {
                busy = true;
            }
            while self.begin() {
                busy = true;
            }
            while self.act(0) {
                busy = true;
            }
            busy |= kubelets && self.kubelets();
            if busy {
                continue;
            }
            // Retries and deadlines: jump to the next, but not for ever.
            match self.manager.wakes_at() {
                Some(at) if at.as_second() - self.now.as_second() < 400 => self.now = at.max(self.now),
                _ => return,
            }
        }
        panic!("it does not come to rest");
    }

    pub(crate) fn spec_of(&self, resource: &Resource, name: &str) -> Value {
        self.api.objects.get(&(resource.clone(), Key::new("n", name))).cloned().unwrap_or_default()
    }
}

pub(crate) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

pub(crate) fn replica_set(name: &str, replicas: usize) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template("a")}})
}

pub(crate) fn deployment(replicas: usize, strategy: Value) -> Value {
    json!({"metadata": {"name": "d"}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}},
        "template": template("v1"), "strategy": strategy}})
}
