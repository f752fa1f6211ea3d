//! The scheduler over real connections: embedded API server, embedded Mesos master and agent, HTTP in between.
//!
//! The executor of these tests is a program that ends at once, so pods are launched but never bound.

mod cluster;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use tokio_util::sync::CancellationToken;

use cluster::{Cluster, PATIENCE, get, pod, wait};

async fn events(client: &Client, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let list = events.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let mine = list.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    mine.filter_map(|event| event.message).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_become_nodes_and_pods_become_tasks() -> anyhow::Result<()> {
    let mut cluster = Cluster::up().await?;
    let stop = CancellationToken::new();
    let scheduler = km_scheduler::start(cluster.flags(), stop.clone()).await?;
    let address = scheduler.address;
    wait("readiness", async || (get(address, "/readyz").await.0 == 200).then_some(())).await;

    cluster.agent("alpha").await?;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let node = wait("the node", async || nodes.get_opt("alpha").await.ok().flatten()).await;
    let labels = node.metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("k8s.mesosphere.io/attribute-rack").map(String::as_str), Some("r1"));
    assert_eq!(labels.get("kubernetes.io/hostname").map(String::as_str), Some("alpha"));
    let cpu = wait("the node's status", async || {
        let capacity = nodes.get("alpha").await.ok()?.status?.capacity?;
        capacity.get("cpu").map(|quantity| quantity.0.clone())
    })
    .await;
    assert_eq!(cpu, "4");

    // Too large: the condition and an event say so.
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "default");
    pods.create(&PostParams::default(), &pod("huge", "64")).await?;
    let said = wait("the condition", async || {
        let status = pods.get("huge").await.ok()?.status?;
        let condition = status.conditions?.into_iter().find(|condition| condition.type_ == "PodScheduled")?;
        (condition.reason.as_deref() == Some("Unschedulable")).then_some(condition.message)
    })
    .await;
    let expected = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
                    1 Preemption is not helpful for scheduling. The pod needs cpu 64, but the largest agent has 4.";
    assert_eq!(said.as_deref(), Some(expected));
    wait("the event", async || {
        events(&cluster.client, "FailedScheduling").await.contains(&expected.to_owned()).then_some(())
    })
    .await;

    // Launched; its executor ends at once, and the pod waits again instead of being deleted.
    let small = pods.create(&PostParams::default(), &pod("small", "1")).await?;
    wait("the failed launch", async || {
        let said = events(&cluster.client, "FailedScheduling").await;
        said.iter().any(|message| message.starts_with("The launch on alpha failed")).then_some(())
    })
    .await;
    assert_eq!(pods.get("small").await?.metadata.uid, small.metadata.uid);
    pods.delete("small", &DeleteParams::default()).await?;
    wait("the task's end", async || {
        get(address, "/debug/registry/tasks").await.1.contains("task_count=0").then_some(())
    })
    .await;

    let (status, metrics) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    for name in
        ["mesos_offers_received", "mesos_scheduler_status_updates", "mesos_scheduler_queue_wait_time_microseconds"]
    {
        assert!(metrics.contains(name), "{name} is missing");
    }
    assert_eq!(get(address, "/debug/actions/requestExplicit").await.0, 204);

    // The next scheduler is the same framework.
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "kube-system");
    let identity = async || maps.get("k8sm-scheduler").await.map(|map| map.data.unwrap_or_default());
    let first = identity().await?;
    stop.cancel();
    tokio::time::timeout(PATIENCE, scheduler.join()).await??;
    let stop = CancellationToken::new();
    let scheduler = km_scheduler::start(cluster.flags(), stop.clone()).await?;
    let address = scheduler.address;
    wait("readiness", async || (get(address, "/readyz").await.0 == 200).then_some(())).await;
    let second = identity().await?;
    assert_eq!(first["frameworkId"], second["frameworkId"]);
    assert_eq!((first["generation"].as_str(), second["generation"].as_str()), ("1", "2"));
    stop.cancel();
    tokio::time::timeout(PATIENCE, scheduler.join()).await??;
    cluster.down().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_fetch_what_the_scheduler_serves() -> anyhow::Result<()> {
    let cluster = Cluster::up().await?;
    let binary = cluster.folder.path().join("km");
    std::fs::write(&binary, "a program")?;
    let flags = km_scheduler::Flags {
        km_path: Some(binary.display().to_string()),
        agent_km_path: None,
        agent_kubeconfig: None,
        ..cluster.flags()
    };
    let stop = CancellationToken::new();
    let scheduler = km_scheduler::start(flags, stop.clone()).await?;
    let (status, text) = get(scheduler.address, "/km").await;
    assert!(status == 200 && text.ends_with("a program"), "{text}");
    let (status, text) = get(scheduler.address, "/kubeconfig").await;
    assert!(status == 200 && text.contains("clusters:"), "{text}");
    stop.cancel();
    tokio::time::timeout(PATIENCE, scheduler.join()).await??;
    cluster.down().await
}
