//! A small world around the core: fake API server, fake Mesos, virtual time. Every step checks the invariants.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod mesos;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Container, ContainerPort, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use km_fakeapi::{Api, What, WriteError, node_of, task_of, uid_of};
use km_kube::pod::is_terminal;
use km_mesos_proto::v1::{self, TaskState};
use km_podtask::{PodKey, executor};
use km_scheduler::core::{Action, ApiFailure, ApiReply, CallOutcome, Config, Core, Event, PodListing, Subscription};

use mesos::Mesos;

pub struct World {
    pub now: Duration,
    pub core: Core,
    pub api: Api,
    pub mesos: Mesos,
    pub log: Vec<Action>,
    pub config: Config,
    generation: u32,
    pub connected: bool,
    /// Whether the master knows UPDATE_FRAMEWORK. It answers nothing.
    pub updates: bool,
    /// The next ACCEPT arrives, but its answer doesn't (true), or it gets lost itself (false).
    pub in_doubt: Option<bool>,
    replies: VecDeque<Event>,
    /// The task of which the master's word arrives at this moment that its agent is away: it was so when that was said.
    absent: Option<String>,
    /// The resource version up to which the scheduler's watch has come.
    watched: u64,
}

/// Settings of the tests: an executor that is fetched from somewhere.
pub fn config() -> Config {
    let command = v1::CommandInfo {
        value: Some("./km".into()),
        shell: Some(false),
        arguments: vec!["./km".into(), "minion".into()],
        ..v1::CommandInfo::default()
    };
    let mut prototype =
        v1::ExecutorInfo { name: Some(executor::NAME.into()), command: Some(command), ..v1::ExecutorInfo::default() };
    prototype.executor_id = executor::id(&prototype);
    Config { executor: prototype, ..Config::default() }
}

/// A pod of one container.
pub fn spec(cpu: &str, memory: &str, host_port: Option<i32>) -> PodSpec {
    let requests = BTreeMap::from([
        ("cpu".to_owned(), Quantity(cpu.to_owned())),
        ("memory".to_owned(), Quantity(memory.to_owned())),
    ]);
    let port = ContainerPort { container_port: 80, host_port, ..ContainerPort::default() };
    let container = Container {
        name: "main".into(),
        resources: Some(ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() }),
        ports: Some(vec![port]),
        ..Container::default()
    };
    PodSpec { containers: vec![container], ..PodSpec::default() }
}

impl World {
    /// A subscribed scheduler and so many agents of 4 CPUs and 4 GB.
    pub fn new(agents: usize) -> Self {
        Self::with_config(agents, config())
    }

    pub fn with_config(agents: usize, config: Config) -> Self {
        let mut mesos = Mesos::default();
        for number in 1..=agents {
            mesos.add_agent(&format!("agent{number}"), &format!("host{number}"), 4000, 4096);
        }
        let mut world = Self {
            now: Duration::ZERO,
            core: Core::new(config.clone(), 1),
            api: Api::default(),
            mesos,
            log: Vec::new(),
            config,
            generation: 1,
            connected: false,
            updates: false,
            in_doubt: None,
            replies: VecDeque::new(),
            absent: None,
            watched: 0,
        };
        world.send(Event::CachesSynced);
        world.subscribe();
        world
    }

    pub fn subscribe(&mut self) {
        self.mesos.disconnect();
        self.connected = true;
        let framework = Arc::clone(self.core.framework());
        let (framework_id, updates) = ("framework".to_owned(), self.updates);
        let subscription = Subscription { framework_id, suppressed: false, framework, updates };
        self.send(Event::Subscribed(Box::new(subscription)));
    }

    pub fn disconnect(&mut self) {
        self.mesos.disconnect();
        self.connected = false;
        self.send(Event::Disconnected);
    }

    /// A new scheduler takes over, knowing nothing.
    pub fn restart(&mut self) {
        self.generation += 1;
        self.core = Core::new(self.config.clone(), self.generation);
        self.replies.clear();
        self.watched = self.api.version();
        for node in self.api.nodes.values().cloned().collect::<Vec<_>>() {
            self.send(Event::NodeApplied(node));
        }
        for pod in self.api.pods.values().cloned().collect::<Vec<_>>() {
            self.send(Event::PodApplied(pod));
        }
        self.send(Event::CachesSynced);
        self.subscribe();
    }

    pub fn send(&mut self, event: Event) {
        self.absent = match &event {
            Event::Update(status) if status.state() == TaskState::TaskUnreachable => Some(status.task_id.value.clone()),
            _ => None,
        };
        let actions = self.core.handle(self.now, event);
        for action in actions {
            self.log.push(action.clone());
            self.perform(action);
        }
    }

    /// The next event of the watch.
    fn next_change(&mut self) -> Option<Event> {
        let change = self.api.change_after(self.watched).expect("nothing is compacted here")?;
        self.watched = change.version;
        Some(match &change.what {
            What::PodApplied(pod) => Event::PodApplied(Arc::clone(pod)),
            What::PodDeleted(pod) => Event::PodDeleted(Arc::clone(pod)),
            What::NodeApplied(node) => Event::NodeApplied(Arc::clone(node)),
            What::NodeDeleted(name) => Event::NodeDeleted(name.clone()),
            What::Claim(id, claim) => Event::Claim { id: id.clone(), claim: claim.clone() },
            What::Volume(name, volume) => Event::Volume { name: name.clone(), volume: volume.clone() },
        })
    }

    fn reply(&mut self, op: u64, reply: ApiReply) {
        let reply = if self.api.down { ApiReply::Failed(ApiFailure::Unavailable("down".into())) } else { reply };
        self.replies.push_back(Event::Api { op, reply });
    }

    fn perform(&mut self, action: Action) {
        let up = !self.api.down;
        match action {
            Action::Accept { batch, offers, tasks, refuse } => {
                let outcome = match self.in_doubt.take() {
                    _ if !self.connected => CallOutcome::Refused,
                    None => {
                        self.mesos.accept(self.now, &offers, tasks, refuse);
                        CallOutcome::Accepted
                    }
                    Some(arrives) => {
                        if arrives {
                            self.mesos.accept(self.now, &offers, tasks, refuse);
                        } else {
                            self.mesos.decline(self.now, &offers, Duration::ZERO);
                        }
                        CallOutcome::InDoubt
                    }
                };
                self.replies.push_back(Event::AcceptResult { batch, outcome });
            }
            Action::Decline { offers, refuse, .. } if self.connected => self.mesos.decline(self.now, &offers, refuse),
            Action::Suppress if self.connected => self.mesos.suppress(),
            Action::Revive if self.connected => self.mesos.revive(),
            Action::Kill { task_id, agent_id } if self.connected => {
                self.check_kill(&task_id);
                self.mesos.kill(&mut self.api, &task_id, agent_id.as_deref());
            }
            Action::Acknowledge { task_id, agent_id, uuid } if self.connected => {
                if let Some(status) = self.mesos.acknowledge(&task_id, &agent_id, &uuid) {
                    self.check_acknowledged(&task_id, status.state());
                }
            }
            Action::Message { agent_id, executor_id, data } if self.connected && data == b"kamikaze" => {
                self.mesos.kamikaze(&agent_id, &executor_id);
            }
            Action::Reconcile(tasks) if self.connected => self.mesos.reconcile(&tasks),
            Action::CreateNode { op, node } => {
                if up {
                    self.api.create_node(*node);
                }
                self.reply(op, ApiReply::Done);
            }
            Action::PatchNode { op, name, patch, .. } => {
                let reply = if up { written(self.api.patch_node(&name, &patch)) } else { ApiReply::Done };
                self.reply(op, reply);
            }
            Action::DeleteNode { op, name } => {
                let reply = if up { written(self.api.delete_node(&name)) } else { ApiReply::Done };
                self.reply(op, reply);
            }
            Action::DeletePod { op, pod, uid } => {
                self.check_deletion(&pod, &uid);
                let reply = if up { written(self.api.remove_exactly(&pod, &uid)) } else { ApiReply::Done };
                self.reply(op, reply);
            }
            Action::EvictPod { op, pod, uid, budgets } => {
                let reply = if up { written(self.api.evict(&pod, &uid, budgets)) } else { ApiReply::Done };
                self.reply(op, reply);
            }
            Action::FetchPod { op, pod, uid } => {
                let reply = ApiReply::Pod(self.api.fetch(&pod, &uid).cloned());
                self.reply(op, reply);
            }
            Action::EndPod { op, pod, uid, phase, .. } => {
                let reply = if up { written(self.api.set_phase(&pod, &uid, phase)) } else { ApiReply::Done };
                self.reply(op, reply);
            }
            Action::ListPods { op } => {
                let reply = ApiReply::Pods(PodListing { uids: self.api.uids(), ours: true });
                self.reply(op, reply);
            }
            Action::PatchPodStatus { op, pod, uid, reason, message } => {
                let kind = ("PodScheduled", "False");
                let why = (reason.as_str(), message.as_str());
                let reply = if up { written(self.api.set_condition(&pod, &uid, kind, why)) } else { ApiReply::Done };
                self.reply(op, reply);
            }
            Action::NominatePod { op, pod, uid, node } => {
                let reply = if up { written(self.api.nominate(&pod, &uid, node)) } else { ApiReply::Done };
                self.reply(op, reply);
            }
            Action::PreemptPod { op, pod, uid, message } => {
                let kind = ("DisruptionTarget", "True");
                let why = ("PreemptionByScheduler", message.as_str());
                let reply = if up {
                    let reply = written(self.api.set_condition(&pod, &uid, kind, why));
                    self.api.delete(&pod);
                    reply
                } else {
                    ApiReply::Done
                };
                self.reply(op, reply);
            }
            _ => {}
        }
    }

    /// Invariant 4 for pods: only what can't run any more is deleted.
    fn check_deletion(&self, key: &PodKey, uid: &str) {
        let Some(pod) = self.api.pods.get(key).filter(|pod| uid_of(pod) == uid) else { return };
        let Some(task) = task_of(pod) else { return };
        // A pod whose deletion was asked for may go before its task, if that can't be reached: now, or when the master
        // said what is heard now.
        let deleting = pod.metadata.deletion_timestamp.is_some();
        if deleting && self.absent.as_ref() == Some(&task) {
            return;
        }
        let alive = self
            .mesos
            .agents
            .values()
            .any(|agent| (agent.connected || !deleting) && agent.tasks.get(&task).is_some_and(|task| task.alive()));
        assert!(!alive, "invariant 4: {key} is deleted while {task} lives");
        assert!(deleting || !is_terminal(pod), "invariant 4: {key} ended by itself and nobody asked for its deletion");
    }

    /// Invariant 4 for tasks: only what the API server doesn't want is killed.
    fn check_kill(&self, task_id: &str) {
        let wanted = self.api.pods.values().find(|pod| {
            task_of(pod).as_deref() == Some(task_id)
                && node_of(pod).is_some()
                && pod.metadata.deletion_timestamp.is_none()
        });
        assert!(
            wanted.is_none_or(|pod| is_terminal(pod)),
            "invariant 4: {task_id} is killed although its pod is wanted"
        );
    }

    /// Invariant 6: the end of a task is acknowledged when the API server shows it.
    fn check_acknowledged(&self, task_id: &str, state: TaskState) {
        use TaskState::{TaskRunning, TaskStaging, TaskStarting};
        if matches!(state, TaskStaging | TaskStarting | TaskRunning) {
            return;
        }
        let bound = self.api.pods.values().find(|pod| task_of(pod).as_deref() == Some(task_id));
        assert!(bound.is_none_or(|pod| is_terminal(pod)), "invariant 6: the end of {task_id} isn't in the API server");
    }

    /// Invariant 3: no pod runs twice.
    fn check_runs(&self) {
        let mut runs: BTreeMap<String, &str> = BTreeMap::new();
        for (id, task) in self.mesos.agents.values().flat_map(|agent| &agent.tasks) {
            if matches!(task.state, TaskState::TaskStarting | TaskState::TaskRunning) {
                let uid = uid_of(task.pod());
                if let Some(other) = runs.insert(uid, id) {
                    panic!("invariant 3: {id} and {other} run the same pod");
                }
            }
        }
    }

    /// Delivers one thing that is under way; says whether there was any. `choice` picks whose turn it is.
    pub fn deliver_one(&mut self, choice: usize) -> bool {
        for turn in 0..3 {
            let event = match (choice + turn) % 3 {
                0 => self.next_change(),
                1 => self.replies.pop_front(),
                _ if self.connected => self.mesos.events.pop_front(),
                _ => None,
            };
            if let Some(event) = event {
                self.send(event);
                self.check_runs();
                return true;
            }
        }
        false
    }

    fn deliver_all(&mut self) {
        let mut choice = 0;
        while self.deliver_one(choice) {
            choice += 1;
        }
    }

    /// Lets time pass in small steps, with everything going on as it should.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
            let next = self.core.next_wakeup(self.now).unwrap_or(end);
            self.now = next.clamp(self.now + Duration::from_millis(1), self.now + Duration::from_millis(500)).min(end);
        }
        self.step();
    }

    /// Everything that can happen now happens.
    pub fn step(&mut self) {
        self.mesos.work(&mut self.api);
        if self.connected {
            self.mesos.allocate(self.now);
            self.mesos.deliver(self.now);
        }
        self.deliver_all();
        self.send(Event::Tick);
        self.deliver_all();
        self.check_runs();
    }

    pub fn create(&mut self, name: &str, spec: PodSpec) -> PodKey {
        self.api.create(name, spec, None)
    }

    /// The node on which a pod runs.
    pub fn node_of(&self, key: &PodKey) -> Option<String> {
        self.api.pods.get(key).and_then(|pod| node_of(pod)).map(str::to_owned)
    }

    pub fn is_running(&self, key: &PodKey) -> bool {
        self.api.pods.get(key).is_some_and(|pod| km_kube::pod::phase(pod) == "Running")
    }

    pub fn live_tasks(&self) -> usize {
        self.mesos.agents.values().flat_map(|agent| agent.tasks.values()).filter(|task| task.alive()).count()
    }

    /// How many actions of the log please.
    pub fn count(&self, pleases: impl Fn(&Action) -> bool) -> usize {
        self.log.iter().filter(|action| pleases(action)).count()
    }
}

fn written(result: Result<(), WriteError>) -> ApiReply {
    match result {
        Ok(()) => ApiReply::Done,
        Err(WriteError::Gone) => ApiReply::Failed(ApiFailure::Gone),
        Err(WriteError::Refused(why)) => ApiReply::Failed(ApiFailure::Refused(why)),
    }
}
