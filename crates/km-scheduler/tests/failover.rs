//! Two schedulers of one cluster: one leads, the other takes over.

mod cluster;

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Node, Pod},
};
use km_observe::Started;
use km_scheduler::Flags;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use cluster::{Cluster, PATIENCE, get, pod, wait};

struct Candidate {
    stop: CancellationToken,
    started: Started,
}

impl Candidate {
    async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let mut flags = cluster.flags();
        flags.election = Flags::default().election;
        flags.election.leader_elect = true;
        // Short, as tests wait for the retry period.
        flags.election.leader_elect_retry_period = Duration::from_millis(200);
        let stop = CancellationToken::new();
        let started = km_scheduler::start(flags, stop.clone()).await?;
        Ok(Self { stop, started })
    }

    fn address(&self) -> SocketAddr {
        self.started.address
    }

    /// The line about its role, once it is ready.
    async fn role(&self) -> Option<String> {
        let (status, text) = get(self.address(), "/readyz?verbose").await;
        let line = text.lines().find_map(|line| line.strip_prefix("[i]role: "))?;
        (status == 200).then(|| line.to_owned())
    }

    async fn leads(&self) {
        wait("leadership", async || self.role().await.filter(|role| role == "leader").map(drop)).await;
    }

    async fn stands_by(&self) {
        wait("standby", async || self.role().await.filter(|role| role.starts_with("standby, led by ")).map(drop)).await;
    }

    async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.started.join()).await?
    }
}

async fn identity(cluster: &Cluster) -> (String, String) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "kube-system");
    wait("the framework's identity", async || {
        let data = maps.get("k8sm-scheduler").await.ok()?.data?;
        Some((data.get("frameworkId")?.clone(), data.get("generation")?.clone()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_standby_is_ready_and_leads_the_same_framework_once_the_leader_ends() -> anyhow::Result<()> {
    let mut cluster = Cluster::up().await?;
    let first = Candidate::start(&cluster).await?;
    first.leads().await;
    let second = Candidate::start(&cluster).await?;
    second.stands_by().await;
    cluster.agent("alpha").await?;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    wait("the node", async || nodes.get_opt("alpha").await.ok().flatten()).await;
    let before = identity(&cluster).await;
    assert_eq!(before.1, "1", "a standby is no start of the framework");
    assert_eq!(get(second.address(), "/debug/actions/requestExplicit").await.0, 503, "it leads nothing");

    first.end().await?;
    second.leads().await;
    let after = identity(&cluster).await;
    assert_eq!((after.0, after.1.as_str()), (before.0, "2"));
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-system");
    let spec = leases.get("k8sm-scheduler").await?.spec.unwrap_or_default();
    assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(1), Some(15)));

    // It does its work: a pod is launched (its executor ends at once, which the scheduler says).
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "default");
    pods.create(&PostParams::default(), &pod("small", "1")).await?;
    wait("the launch", async || {
        let (_, metrics) = get(second.address(), "/metrics").await;
        metrics.contains("mesos_offers_acquired{hostname=\"alpha\"}").then_some(())
    })
    .await;
    second.end().await?;
    let holder = leases.get("k8sm-scheduler").await?.spec.and_then(|spec| spec.holder_identity);
    assert_eq!(holder, None, "the lease is given back");
    cluster.down().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_lease_is_taken_stands_by_and_leads_again_when_it_is_free() -> anyhow::Result<()> {
    let cluster = Cluster::up().await?;
    let candidate = Candidate::start(&cluster).await?;
    candidate.leads().await;
    let before = identity(&cluster).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-system");
    let hold = async |holder: Option<&str>, seconds: i32| {
        let patch = json!({ "spec": { "holderIdentity": holder, "leaseDurationSeconds": seconds } });
        leases.patch("k8sm-scheduler", &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    };
    hold(Some("another"), 3600).await?;
    candidate.stands_by().await;
    let frameworks = async || get(cluster.master().parse().expect("an address"), "/frameworks").await.1;
    wait("the subscription's end", async || frameworks().await.contains("\"connected\":false").then_some(())).await;
    assert!(frameworks().await.contains(&before.0), "the framework is not torn down");

    hold(None, 1).await?;
    candidate.leads().await;
    let after = identity(&cluster).await;
    assert_eq!((after.0, after.1.as_str()), (before.0, "2"));
    candidate.end().await?;
    cluster.down().await
}
