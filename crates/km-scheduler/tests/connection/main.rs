//! The whole scheduler before a scripted master: what it does when connections, masters and calls fail.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod accepts;
#[path = "../cluster/mod.rs"]
mod cluster;
mod framework;
mod master;
mod roles;
mod subscriptions;

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_mesos_proto::v1::{
    self, TaskState, TaskStatus,
    scheduler::{Event, call, event},
};
use km_observe::Started;
use kube::{Api, api::PostParams};
use tokio_util::sync::CancellationToken;

use cluster::{Cluster, PATIENCE, get, wait};
use master::{FakeMaster, Seen};

/// A scheduler with an API server of its own.
struct Stand {
    cluster: Cluster,
    stop: CancellationToken,
    scheduler: Started,
}

impl Stand {
    /// `masters` is the value of `--mesos-master`; `change` may change further flags.
    async fn set(masters: String, change: impl FnOnce(&mut km_scheduler::Flags)) -> Self {
        let cluster = Cluster::up().await.unwrap();
        let mut flags = cluster.flags();
        flags.mesos_master = masters;
        // What is offered stays until it is used.
        flags.offer_ttl = Some(PATIENCE);
        change(&mut flags);
        let stop = CancellationToken::new();
        let scheduler = km_scheduler::start(flags, stop.clone()).await.unwrap();
        Self { cluster, stop, scheduler }
    }

    /// Creates a pod and waits until the scheduler has it in its queue.
    async fn create(&self, pod: &Pod) {
        self.submit(pod).await;
        self.waits(pod.metadata.name.as_deref().unwrap()).await;
    }

    /// Creates a pod that may be launched at once, from offers that are held.
    async fn submit(&self, pod: &Pod) {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), "default");
        pods.create(&PostParams::default(), pod).await.unwrap();
    }

    /// Waits until a pod waits for offers.
    async fn waits(&self, name: &str) {
        let line = format!("default/{name}");
        wait("the pod in the queue", async || {
            get(self.scheduler.address, "/debug/scheduler/podqueue").await.1.contains(&line).then_some(())
        })
        .await;
    }

    async fn strike(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.scheduler.join()).await.unwrap().unwrap();
        self.cluster.down().await.unwrap();
    }
}

/// Waits until the master has seen so many calls of a kind, and answers them.
async fn seen(master: &FakeMaster, kind: call::Type, count: usize) -> Vec<Seen> {
    let looking = async {
        loop {
            let seen = master.seen(kind);
            if seen.len() >= count {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all = || master.kinds().join(", ");
    let found = tokio::time::timeout(PATIENCE, looking).await;
    found.unwrap_or_else(|_| panic!("{count} calls of {} didn't come, but: {}", kind.as_str_name(), all()))
}

/// An offer of one agent to one role; but for `*`, what it holds is reserved for that role.
fn offer(id: &str, agent: &str, role: &str, cpus: f64) -> v1::Offer {
    let allocation_info = Some(v1::resource::AllocationInfo { role: Some(role.to_owned()) });
    let reservation = v1::resource::ReservationInfo {
        r#type: Some(v1::resource::reservation_info::Type::Dynamic.into()),
        role: Some(role.to_owned()),
        ..v1::resource::ReservationInfo::default()
    };
    let reservations = if role == "*" { Vec::new() } else { vec![reservation] };
    let scalar = |name: &str, value: f64| v1::Resource {
        name: name.to_owned(),
        r#type: v1::value::Type::Scalar.into(),
        scalar: Some(v1::value::Scalar { value }),
        allocation_info: allocation_info.clone(),
        reservations: reservations.clone(),
        ..v1::Resource::default()
    };
    v1::Offer {
        id: id.into(),
        framework_id: "framework-1".into(),
        agent_id: agent.into(),
        hostname: format!("host-of-{agent}"),
        resources: vec![scalar("cpus", cpus), scalar("mem", 1024.0)],
        allocation_info: allocation_info.clone(),
        ..v1::Offer::default()
    }
}

/// The offers that an ACCEPT uses.
fn offers_of(seen: &Seen) -> BTreeSet<&str> {
    seen.call.accept.iter().flat_map(|accept| &accept.offer_ids).map(|id| id.value.as_str()).collect()
}

/// The tasks that calls launch.
fn tasks_of(seen: &[Seen]) -> Vec<v1::TaskInfo> {
    let accepts = seen.iter().filter_map(|seen| seen.call.accept.as_ref());
    let launches = accepts.flat_map(|accept| &accept.operations).filter_map(|operation| operation.launch.as_ref());
    launches.flat_map(|launch| launch.task_infos.clone()).collect()
}

/// A master's word about a task, as it answers a reconciliation.
fn reconciled(task: &v1::TaskInfo, state: TaskState) -> Event {
    let status = TaskStatus {
        task_id: task.task_id.clone(),
        agent_id: Some(task.agent_id.clone()),
        state: state.into(),
        source: Some(v1::task_status::Source::Master.into()),
        reason: Some(v1::task_status::Reason::Reconciliation.into()),
        ..TaskStatus::default()
    };
    Event { r#type: Some(event::Type::Update.into()), update: Some(event::Update { status }), ..Event::default() }
}

/// A master's last word in a subscription.
fn error(message: &str) -> Event {
    let error = Some(event::Error { message: message.to_owned() });
    Event { r#type: Some(event::Type::Error.into()), error, ..Event::default() }
}
