//! A fake Mesos cluster with our executors: offers, launches, updates, partitions. It checks what the scheduler asks
//! of it.

mod faults;
mod resources;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use km_fakeapi::{Api, task_of};
use km_mesos_proto::v1::{
    self, Resource, TaskInfo, TaskState, TaskStatus,
    task_status::{Reason, Source},
};
use km_podtask::PodKey;
use km_scheduler::core::{AgentSeen, Event};
use resources::{ports, sum};

/// How long an update waits for its acknowledgement before it is repeated.
const REPEAT: Duration = Duration::from_secs(10);

pub struct Agent {
    pub hostname: String,
    /// Milli-CPUs and thousandths of a megabyte.
    pub size: (i64, i64),
    /// Scalars besides, by name, in thousandths.
    pub extra: BTreeMap<String, i64>,
    pub executor: Option<v1::ExecutorInfo>,
    pub tasks: BTreeMap<String, FakeTask>,
    pub connected: bool,
    /// Whether it makes no offers, as its master has it drained.
    pub closed: bool,
    /// Whether it takes itself for draining still: it refuses tasks until its executor has ended.
    pub refuses: bool,
}

pub struct FakeTask {
    pub info: TaskInfo,
    /// The pod in the info's data.
    pod: Pod,
    pub state: TaskState,
    /// Updates that are not acknowledged, the oldest first, with the time of its last sending.
    pub updates: VecDeque<(TaskStatus, Option<Duration>)>,
}

impl FakeTask {
    pub fn alive(&self) -> bool {
        use TaskState::{TaskKilling, TaskRunning, TaskStaging, TaskStarting};
        matches!(self.state, TaskStaging | TaskStarting | TaskRunning | TaskKilling)
    }

    pub fn pod(&self) -> &Pod {
        &self.pod
    }
}

#[derive(Default)]
pub struct Mesos {
    pub agents: BTreeMap<String, Agent>,
    pub offers: BTreeMap<String, (String, Vec<Resource>)>,
    /// Until when an agent's resources are not offered, unless they are more than these.
    filters: BTreeMap<String, (Duration, i64, i64)>,
    suppressed: bool,
    /// Maintenance to come, by agent.
    pub planned: BTreeMap<String, v1::Unavailability>,
    /// What the master says about tasks that it doesn't know, instead of what it would say.
    pub answers: BTreeMap<String, TaskState>,
    /// Host ports that somebody else on the machine has, with the agent.
    pub foreign_ports: Vec<(String, u64)>,
    /// Executors die before they write how such a pod ended.
    pub dies_silently: bool,
    /// Agents that are gone for good.
    gone: Vec<String>,
    next: u32,
    pub events: VecDeque<Event>,
}

impl Mesos {
    pub fn add_agent(&mut self, id: &str, hostname: &str, milli_cpu: i64, megabytes: i64) {
        let size = (milli_cpu, megabytes * 1000);
        let agent = Agent {
            hostname: hostname.to_owned(),
            size,
            extra: BTreeMap::new(),
            executor: None,
            tasks: BTreeMap::new(),
            connected: true,
            closed: false,
            refuses: false,
        };
        self.agents.insert(id.to_owned(), agent);
    }

    pub fn seen(&self) -> Vec<AgentSeen> {
        let connected = self.agents.iter().filter(|(_, agent)| agent.connected);
        connected
            .map(|(id, agent)| AgentSeen {
                id: id.clone(),
                hostname: agent.hostname.clone(),
                attributes: Vec::new(),
                resources: resources::all_of(agent),
                active: true,
                ..AgentSeen::default()
            })
            .collect()
    }

    /// Makes offers of everything that is free and not filtered.
    pub fn allocate(&mut self, now: Duration) {
        if self.suppressed {
            return;
        }
        let offered: Vec<&String> = self.offers.values().map(|(agent, _)| agent).collect();
        let open: Vec<String> = self
            .agents
            .iter()
            .filter(|(id, agent)| agent.connected && !agent.closed && !offered.contains(id))
            .filter(|(id, agent)| {
                let free = resources::free(agent);
                self.filters.get(*id).is_none_or(|(until, cpu, memory)| {
                    *until <= now || sum(&free, "cpus") > *cpu || sum(&free, "mem") > *memory
                })
            })
            .map(|(id, _)| id.clone())
            .collect();
        let mut offers = Vec::new();
        for id in open {
            let agent = &self.agents[&id];
            let resources = resources::free(agent);
            if sum(&resources, "cpus") < 10 && sum(&resources, "mem") < 32_000 {
                continue;
            }
            self.next += 1;
            let name = format!("offer-{}", self.next);
            offers.push(v1::Offer {
                id: name.as_str().into(),
                agent_id: id.as_str().into(),
                hostname: agent.hostname.clone(),
                resources: resources.clone(),
                unavailability: self.planned.get(&id).cloned(),
                executor_ids: agent.executor.iter().map(|executor| executor.executor_id.clone()).collect(),
                allocation_info: Some(v1::resource::AllocationInfo { role: Some("*".to_owned()) }),
                ..v1::Offer::default()
            });
            self.offers.insert(name, (id, resources));
        }
        if !offers.is_empty() {
            self.events.push_back(Event::Offers(offers));
        }
    }

    pub fn revive(&mut self) {
        self.suppressed = false;
        self.filters.clear();
    }

    pub fn suppress(&mut self) {
        self.suppressed = true;
    }

    pub fn is_suppressed(&self) -> bool {
        self.suppressed
    }

    pub fn decline(&mut self, now: Duration, offers: &[v1::OfferId], refuse: Duration) {
        for id in offers {
            if let Some((agent, resources)) = self.offers.remove(&id.value) {
                self.filters.insert(agent, (now + refuse, sum(&resources, "cpus"), sum(&resources, "mem")));
            }
        }
    }

    /// A subscription that ends takes all offers with it.
    pub fn disconnect(&mut self) {
        self.offers.clear();
        self.filters.clear();
        self.suppressed = false;
        self.events.clear();
    }

    pub fn accept(&mut self, now: Duration, offers: &[v1::OfferId], tasks: Vec<TaskInfo>, refuse: Duration) {
        let mut offered = Vec::new();
        let mut agent_id = None;
        let mut valid = true;
        for id in offers {
            match self.offers.remove(&id.value) {
                Some((agent, resources)) => {
                    assert!(agent_id.as_ref().is_none_or(|known| *known == agent), "offers of two agents");
                    agent_id = Some(agent);
                    offered.extend(resources);
                }
                None => valid = false,
            }
        }
        let Some(agent_id) = agent_id.filter(|_| valid) else {
            for task in tasks {
                let id = task.task_id.value.clone();
                let agent = task.agent_id.value.clone();
                self.tell(&id, &agent, TaskState::TaskDropped, Some(Reason::InvalidOffers));
            }
            return;
        };
        let agent = self.agents.get_mut(&agent_id).expect("offers are of agents");
        if agent.refuses {
            let ids: Vec<String> = tasks.iter().map(|task| task.task_id.value.clone()).collect();
            ids.iter().for_each(|id| self.tell(id, &agent_id, TaskState::TaskDropped, Some(Reason::AgentDraining)));
            return;
        }
        let mut wanted: Vec<Resource> = tasks.iter().flat_map(|task| task.resources.clone()).collect();
        for task in &tasks {
            let executor = task.executor.clone().expect("every task has our executor");
            match &agent.executor {
                Some(running) => assert_eq!(*running, executor, "an executor must be byte for byte the same"),
                None => {
                    wanted.extend(executor.resources.clone());
                    agent.executor = Some(executor);
                }
            }
        }
        for name in wanted.iter().map(|one| one.name.as_str()).filter(|name| *name != "ports") {
            assert!(sum(&wanted, name) <= sum(&offered, name), "invariant 2: {name} beyond the offer");
        }
        let (mut want, have) = (ports(&wanted), ports(&offered));
        assert!(want.iter().all(|port| have.contains(port)), "invariant 2: ports beyond the offer");
        let left = |name: &str| sum(&offered, name) - sum(&wanted, name);
        self.filters.insert(agent_id.clone(), (now + refuse, left("cpus"), left("mem")));
        want.sort_unstable();
        assert!(want.windows(2).all(|pair| pair[0] != pair[1]), "invariant 8: a port twice");
        for info in tasks {
            let id = info.task_id.value.clone();
            let data = info.data.as_deref().unwrap_or_default();
            let pod = serde_json::from_slice(data).expect("the data is a pod");
            let task = FakeTask { info, pod, state: TaskState::TaskStaging, updates: VecDeque::new() };
            assert!(agent.tasks.insert(id, task).is_none(), "a task id is used twice");
        }
    }

    /// A master's own word, without uuid.
    pub fn tell(&mut self, task: &str, agent: &str, state: TaskState, reason: Option<Reason>) {
        self.events.push_back(Event::Update(Box::new(TaskStatus {
            task_id: task.into(),
            state: state as i32,
            source: Some(Source::Master as i32),
            reason: reason.map(|reason| reason as i32),
            agent_id: (!agent.is_empty()).then(|| agent.into()),
            ..TaskStatus::default()
        })));
    }

    /// A word of agent or executor, repeated until it is acknowledged.
    fn update(&mut self, agent_id: &str, task_id: &str, state: TaskState, source: Source, message: &str) {
        self.next += 1;
        let uuid = [[0; 12].as_slice(), &self.next.to_be_bytes()].concat();
        let Some(task) = self.agents.get_mut(agent_id).and_then(|agent| agent.tasks.get_mut(task_id)) else { return };
        task.state = state;
        let status = TaskStatus {
            task_id: task_id.into(),
            agent_id: Some(agent_id.into()),
            state: state as i32,
            source: Some(source as i32),
            message: Some(message.to_owned()),
            uuid: Some(uuid),
            ..TaskStatus::default()
        };
        task.updates.push_back((status, None));
    }

    /// Sends the oldest unacknowledged update of each task, at most every ten seconds.
    pub fn deliver(&mut self, now: Duration) {
        for agent in self.agents.values_mut().filter(|agent| agent.connected) {
            for task in agent.tasks.values_mut() {
                if let Some((status, sent)) = task.updates.front_mut()
                    && sent.is_none_or(|sent| sent + REPEAT <= now)
                {
                    *sent = Some(now);
                    self.events.push_back(Event::Update(Box::new(status.clone())));
                }
            }
        }
    }

    /// The acknowledged status, when the acknowledgement is right.
    pub fn acknowledge(&mut self, task_id: &str, agent_id: &str, uuid: &[u8]) -> Option<TaskStatus> {
        let agent = self.agents.get_mut(agent_id).filter(|agent| agent.connected)?;
        let task = agent.tasks.get_mut(task_id)?;
        let (status, _) = task.updates.front().filter(|(status, _)| status.uuid.as_deref() == Some(uuid))?;
        let status = status.clone();
        task.updates.pop_front();
        if task.updates.is_empty() && !task.alive() {
            agent.tasks.remove(task_id);
        }
        Some(status)
    }

    /// The executors' work: bind and run what is new, end what is being deleted.
    pub fn work(&mut self, api: &mut Api) {
        if api.down {
            return;
        }
        let mut todo: Vec<(String, String)> = Vec::new();
        for (id, agent) in self.agents.iter().filter(|(_, agent)| agent.connected) {
            todo.extend(
                agent.tasks.iter().filter(|(_, task)| task.alive()).map(|(task, _)| (id.clone(), task.clone())),
            );
        }
        for (agent_id, task_id) in todo {
            let hostname = self.agents[&agent_id].hostname.clone();
            let task = &self.agents[&agent_id].tasks[&task_id];
            let key = PodKey::of(&task.pod().metadata);
            let deleting = api.pods.get(&key).is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
            if task.state != TaskState::TaskStaging && !deleting {
                continue;
            }
            let pod = task.pod().clone();
            if task.state == TaskState::TaskStaging {
                if api.bind(&pod, &hostname).is_ok() {
                    let source = Source::Executor;
                    self.update(&agent_id, &task_id, TaskState::TaskStarting, source, "create-binding-success");
                    if self.fails_for_a_port(api, &agent_id, &task_id) {
                        continue;
                    }
                    self.update(&agent_id, &task_id, TaskState::TaskRunning, source, "");
                    let uid = pod.metadata.uid.unwrap_or_default();
                    api.set_phase(&key, &uid, "Running").expect("it was bound just now");
                } else {
                    let message = "create-binding-failure";
                    self.update(&agent_id, &task_id, TaskState::TaskFailed, Source::Executor, message);
                }
                continue;
            }
            let current = api.pods.get(&key).filter(|known| task_of(known).as_ref() == Some(&task_id));
            if current.is_some_and(|known| known.metadata.deletion_timestamp.is_some()) {
                api.remove(&key);
                self.update(&agent_id, &task_id, TaskState::TaskKilled, Source::Executor, "");
            }
        }
    }

    pub fn kill(&mut self, api: &mut Api, task_id: &str, agent_id: Option<&str>) {
        let at = self.agents.iter().find(|(_, agent)| agent.tasks.contains_key(task_id));
        let Some((agent_id, agent)) = at.map(|(id, agent)| (id.clone(), agent)) else {
            self.reconcile(&[(task_id.to_owned(), agent_id.unwrap_or_default().to_owned())]);
            return;
        };
        let alive = agent.tasks[task_id].alive();
        if !agent.connected || !alive {
            return;
        }
        let pod = agent.tasks[task_id].pod().clone();
        let key = PodKey::of(&pod.metadata);
        if api.pods.get(&key).is_some_and(|known| task_of(known).as_deref() == Some(task_id)) {
            api.remove(&key);
        }
        self.update(&agent_id, task_id, TaskState::TaskKilled, Source::Executor, "");
    }

    pub fn reconcile(&mut self, tasks: &[(String, String)]) {
        let mut answers: Vec<(String, String, TaskState)> = Vec::new();
        let all = self.agents.iter().flat_map(|(id, agent)| {
            agent.tasks.iter().map(move |(task, fake)| (id.clone(), agent.connected, task.clone(), fake.state))
        });
        let all: BTreeMap<String, (String, bool, TaskState)> =
            all.map(|(agent, connected, task, state)| (task, (agent, connected, state))).collect();
        if tasks.is_empty() {
            for (task, (agent, connected, state)) in all {
                let state = if connected { state } else { TaskState::TaskUnreachable };
                answers.push((task, agent, state));
            }
        } else {
            for (task, agent) in tasks {
                let state = match all.get(task) {
                    Some((_, true, state)) => *state,
                    Some((_, false, _)) => TaskState::TaskUnreachable,
                    None if self.answers.contains_key(task) => self.answers[task],
                    None if self.gone.contains(agent) => TaskState::TaskGoneByOperator,
                    None => match self.agents.get(agent) {
                        Some(known) if known.connected => TaskState::TaskGone,
                        Some(_) => TaskState::TaskUnreachable,
                        None => TaskState::TaskUnknown,
                    },
                };
                let agent = all.get(task).map_or(agent, |(agent, _, _)| agent);
                answers.push((task.clone(), agent.clone(), state));
            }
        }
        for (task, agent, state) in answers {
            self.tell(&task, &agent, state, Some(Reason::Reconciliation));
        }
    }
}
