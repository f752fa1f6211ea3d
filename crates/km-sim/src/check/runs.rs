//! Invariants 2, 3 and 8 where the tasks are: what agents hold, which pods run, who has which port.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Pod;
use km_mesos_proto::v1::{Resource, TaskInfo};
use km_podtask::{offered_ports, thousandths};

use km_fakeapi::uid_of;

/// A task that an executor holds.
pub(crate) struct LiveTask {
    pub agent: usize,
    container: String,
    pub uid: String,
    milli_cpu: i64,
    memory: i64,
    ports: Vec<u16>,
}

/// What our tasks take of an agent, in milli-CPUs and thousandths of a megabyte.
#[derive(Default)]
struct Use {
    milli_cpu: i64,
    memory: i64,
    ports: BTreeSet<u16>,
}

/// The books of everything that runs.
#[derive(Default)]
pub(crate) struct Runs {
    pub tasks: BTreeMap<String, LiveTask>,
    by_agent: HashMap<usize, Use>,
    /// The tasks of pods that run, by UID.
    pods: BTreeMap<String, (String, usize, String)>,
    /// The pod of every task id that was ever launched.
    pod_of_task: HashMap<String, String>,
}

impl Runs {
    /// Invariant 3: a task id belongs to one pod for ever.
    pub fn task_named(&mut self, task: &str, uid: &str) -> Result<(), String> {
        let known = self.pod_of_task.entry(task.to_owned()).or_insert_with(|| uid.to_owned());
        if known == uid { Ok(()) } else { Err(format!("invariant 3: {task} is of {known} and of {uid}")) }
    }

    pub fn task_arrived(
        &mut self,
        agent: usize,
        container: &str,
        info: &TaskInfo,
        pod: &Pod,
        (milli_cpu, memory): (i64, i64),
    ) -> Result<(), String> {
        let id = info.task_id.value.clone();
        if self.tasks.contains_key(&id) {
            return Err(format!("invariant 3: {id} is launched twice"));
        }
        let ports: Vec<u16> =
            offered_ports(&info.resources).into_iter().flat_map(|range| range.begin..=range.end).collect();
        let task = LiveTask {
            agent,
            container: container.to_owned(),
            uid: uid_of(pod),
            milli_cpu: sum(&info.resources, "cpus"),
            memory: sum(&info.resources, "mem"),
            ports,
        };
        let used = self.by_agent.entry(agent).or_default();
        used.milli_cpu += task.milli_cpu;
        used.memory += task.memory;
        if used.milli_cpu > milli_cpu || used.memory > memory {
            return Err(format!("invariant 2: {id} is too much for agent {agent}"));
        }
        if let Some(port) = task.ports.iter().find(|port| !used.ports.insert(**port)) {
            return Err(format!("invariant 8: port {port} of agent {agent} is held twice, now by {id}"));
        }
        self.tasks.insert(id, task);
        Ok(())
    }

    pub fn task_ended(&mut self, agent: usize, id: &str) {
        if self.tasks.get(id).is_none_or(|task| task.agent != agent) {
            return;
        }
        if let Some(task) = self.tasks.remove(id)
            && let Some(used) = self.by_agent.get_mut(&agent)
        {
            used.milli_cpu -= task.milli_cpu;
            used.memory -= task.memory;
            task.ports.iter().for_each(|port| {
                used.ports.remove(port);
            });
        }
    }

    /// Invariant 3: a pod runs once.
    pub fn pod_started(&mut self, agent: usize, container: &str, task: &str, uid: &str) -> Result<(), String> {
        let new = (task.to_owned(), agent, container.to_owned());
        match self.pods.insert(uid.to_owned(), new) {
            Some((other, ..)) => Err(format!("invariant 3: {task} and {other} run the same pod")),
            None => Ok(()),
        }
    }

    pub fn pod_ended(&mut self, uid: &str) {
        self.pods.remove(uid);
    }

    pub fn executor_ended(&mut self, agent: usize, container: &str) {
        let here = self.tasks.iter().filter(|(_, task)| task.agent == agent && task.container == container);
        let ended: Vec<String> = here.map(|(id, _)| id.clone()).collect();
        for id in ended {
            self.task_ended(agent, &id);
        }
        self.pods.retain(|_, (_, host, executor)| *host != agent || executor != container);
    }

    /// What an agent's tasks take, in milli-CPUs and thousandths of a megabyte.
    pub fn used(&self, agent: usize) -> (i64, i64) {
        self.by_agent.get(&agent).map_or((0, 0), |used| (used.milli_cpu, used.memory))
    }
}

pub(crate) fn sum(resources: &[Resource], name: &str) -> i64 {
    let named = resources.iter().filter(|one| one.name == name);
    named.map(|one| one.scalar.as_ref().map_or(0, |scalar| thousandths(scalar.value))).sum()
}
