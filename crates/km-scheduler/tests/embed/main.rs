//! The embeddable library: what the first Kubernetes-Mesos could do, function by function.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod pods;
mod policy;
mod tasks;
mod threads;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use km_mesos_proto::v1;
use km_scheduler::embed::{Driver, DriverError, Error, PodKey, Policy, Scheduler, fcfs};
use serde_json::json;

/// One call of the driver.
#[derive(Clone, Debug, PartialEq)]
enum Call {
    Launch(Vec<String>, Vec<v1::TaskInfo>),
    Kill(String),
    Decline(Vec<String>),
}

/// Remembers calls, or refuses them.
#[derive(Default)]
struct Recorder {
    calls: Mutex<Vec<Call>>,
    broken: bool,
}

impl Recorder {
    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    fn record(&self, call: Call) -> Result<(), DriverError> {
        if self.broken {
            return Err("broken".into());
        }
        self.calls.lock().unwrap().push(call);
        Ok(())
    }
}

fn ids(offers: Vec<v1::OfferId>) -> Vec<String> {
    offers.into_iter().map(|offer| offer.value).collect()
}

impl Driver for Recorder {
    fn launch_tasks(&self, offers: Vec<v1::OfferId>, tasks: Vec<v1::TaskInfo>) -> Result<(), DriverError> {
        self.record(Call::Launch(ids(offers), tasks))
    }

    fn kill_task(&self, task: &v1::TaskId) -> Result<(), DriverError> {
        self.record(Call::Kill(task.value.clone()))
    }

    fn decline_offers(&self, offers: Vec<v1::OfferId>) -> Result<(), DriverError> {
        self.record(Call::Decline(ids(offers)))
    }
}

/// A scheduler with a driver that remembers.
struct Stage {
    scheduler: Arc<Scheduler>,
    driver: Arc<Recorder>,
}

impl Stage {
    fn new() -> Self {
        Self::with(fcfs)
    }

    fn with(policy: impl Policy + 'static) -> Self {
        let (scheduler, driver) = (Arc::new(Scheduler::new(executor(), policy)), Arc::new(Recorder::default()));
        scheduler.set_driver(driver.clone());
        Self { scheduler, driver }
    }

    /// Schedules on a thread of its own, as it may block.
    fn schedule(&self, pod: Pod, machines: &[&str]) -> JoinHandle<Result<String, Error>> {
        let machines: Vec<String> = machines.iter().map(|machine| (*machine).to_owned()).collect();
        let scheduler = Arc::clone(&self.scheduler);
        std::thread::spawn(move || scheduler.schedule(pod, || Ok::<_, Infallible>(machines)))
    }

    /// Schedules a pod that an offer waits for, and launches it. Returns the task.
    fn launch(&self, name: &str, offer: &str, agent: &str) -> v1::TaskInfo {
        self.scheduler.resource_offers(vec![big_offer(offer, agent)]);
        self.schedule(pod(name), &[&host(agent)]).join().unwrap().unwrap();
        self.scheduler.create_pod(&key(name)).unwrap();
        match self.driver.calls().last() {
            Some(Call::Launch(_, tasks)) => tasks[0].clone(),
            other => panic!("{other:?} is no launch"),
        }
    }

    fn update(&self, task: &v1::TaskInfo, state: v1::TaskState) {
        self.scheduler.status_update(status(task, state));
    }
}

fn status(task: &v1::TaskInfo, state: v1::TaskState) -> v1::TaskStatus {
    v1::TaskStatus {
        task_id: task.task_id.clone(),
        agent_id: Some(task.agent_id.clone()),
        state: state as i32,
        ..v1::TaskStatus::default()
    }
}

fn executor() -> v1::ExecutorInfo {
    v1::ExecutorInfo { executor_id: "executor".into(), ..v1::ExecutorInfo::default() }
}

fn key(name: &str) -> PodKey {
    PodKey::new("default", name)
}

fn pod(name: &str) -> Pod {
    pod_with_ports(name, &[])
}

fn pod_with_ports(name: &str, ports: &[i32]) -> Pod {
    let ports: Vec<_> = ports.iter().map(|port| json!({ "containerPort": 80, "hostPort": port })).collect();
    let pod = json!({
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "none", "ports": ports }] },
    });
    serde_json::from_value(pod).unwrap()
}

/// The host name of an agent.
fn host(agent: &str) -> String {
    format!("host-{agent}")
}

fn offer(id: &str, agent: &str, resources: &str) -> v1::Offer {
    v1::Offer {
        id: id.into(),
        agent_id: agent.into(),
        hostname: host(agent),
        resources: km_mesos_proto::resources::Resources::parse(resources, "*").unwrap().to_protos(),
        ..v1::Offer::default()
    }
}

fn big_offer(id: &str, agent: &str) -> v1::Offer {
    offer(id, agent, "cpus:4;mem:4096;ports:[31000-31100]")
}

/// Waits until something holds that another thread brings about.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} didn't happen");
        std::thread::yield_now();
    }
}
