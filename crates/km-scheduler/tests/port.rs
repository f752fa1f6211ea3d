//! What the scheduler's HTTP port says and does, and the Service that leads to it.

mod cluster;

use cluster::{Cluster, PATIENCE, get, wait};
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::{Api, api::PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The body of an answer.
fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_port_tells_acts_and_is_published() -> anyhow::Result<()> {
    let mut cluster = Cluster::up().await?;
    let stop = CancellationToken::new();
    let flags = km_scheduler::Flags { profiling: true, address: [0, 0, 0, 0].into(), ..cluster.flags() };
    let scheduler = km_scheduler::start(flags, stop.clone()).await?;
    let address = ([127, 0, 0, 1], scheduler.address.port()).into();
    wait("readiness", async || (get(address, "/readyz").await.0 == 200).then_some(())).await;
    let (status, text) = get(address, "/readyz?verbose").await;
    assert!(status == 200 && text.contains("[+]subscribed ok") && text.contains("[+]caches-synced ok"), "{text}");
    for path in ["/livez", "/healthz"] {
        assert_eq!(body(&get(address, path).await.1), "ok", "{path}");
    }

    // A pod that waits for a large agent is in the queue and in the store.
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "default");
    let pod = json!({
        "metadata": { "name": "huge" },
        "spec": { "containers": [{ "name": "main", "image": "none", "resources": { "requests": { "cpu": "64" } } }] },
    });
    let created = pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    cluster.agent("alpha").await?;
    let line = wait("the queue's line", async || {
        let (_, text) = get(address, "/debug/scheduler/podqueue").await;
        body(&text).lines().find(|line| line.contains("Insufficient cpu")).map(str::to_owned)
    })
    .await;
    let cells: Vec<&str> = line.split('\t').collect();
    assert_eq!((cells.len(), cells[0]), (4, "default/huge"), "{line}");
    let (_, text) = get(address, "/debug/scheduler/podstore").await;
    let expected = format!("default/huge\t{}\t<none>\tPending", created.metadata.uid.unwrap_or_default());
    assert!(body(&text).lines().any(|line| line == expected), "{text}");

    for action in ["requestExplicit", "requestImplicit"] {
        assert_eq!(get(address, &format!("/debug/actions/{action}")).await.0, 204, "{action}");
    }
    let (status, text) = get(address, "/debug/actions/kamikaze").await;
    assert!(status == 200 && body(&text).ends_with("OK\n"), "{text}");

    let (status, text) = get(address, "/debug/pprof/").await;
    assert!(status == 200 && body(&text).contains("profile?seconds=N"), "{text}");
    assert_eq!(get(address, "/debug/pprof/profile?seconds=0").await.0, 400);
    let (status, text) = get(address, "/debug/pprof/profile?seconds=1").await;
    assert!(status == 200 && body(&text).lines().all(|line| line.starts_with("scheduler;")), "{text}");

    for line in ["scheduler_pending_pods{queue=\"unschedulable\"} 1", "mesos_runtime_panics 0"] {
        let shown = async || get(address, "/metrics").await.1.lines().any(|found| found == line).then_some(());
        wait(line, shown).await;
    }

    let services: Api<Service> = Api::namespaced(cluster.client.clone(), "default");
    let service = wait("the Service", async || services.get_opt("k8sm-scheduler").await.ok().flatten()).await;
    let labels = service.metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("component").map(String::as_str), Some("scheduler"));
    let endpoints: Api<Endpoints> = Api::namespaced(cluster.client.clone(), "default");
    let found = wait("its endpoints", async || endpoints.get_opt("k8sm-scheduler").await.ok().flatten()).await;
    let subset = found.subsets.unwrap_or_default().remove(0);
    assert_eq!(subset.ports.unwrap_or_default()[0].port, i32::from(scheduler.address.port()));
    assert!(!subset.addresses.unwrap_or_default()[0].ip.starts_with("127."));

    stop.cancel();
    tokio::time::timeout(PATIENCE, scheduler.join()).await??;
    cluster.down().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_wait_for_the_subscription_and_profiles_for_their_flag() -> anyhow::Result<()> {
    let cluster = Cluster::up().await?;
    let stop = CancellationToken::new();
    // Nobody listens there.
    let flags = km_scheduler::Flags { mesos_master: "127.0.0.1:1".into(), ..cluster.flags() };
    let scheduler = km_scheduler::start(flags, stop.clone()).await?;
    let table = [
        ("/debug/actions/requestExplicit", 503),
        ("/debug/actions/requestImplicit", 503),
        ("/debug/actions/kamikaze", 503),
        ("/debug/pprof/", 404),
        ("/debug/pprof/profile", 404),
        ("/debug/registry/tasks", 200),
        ("/readyz", 500),
        ("/livez", 200),
    ];
    for (path, expected) in table {
        assert_eq!(get(scheduler.address, path).await.0, expected, "{path}");
    }
    stop.cancel();
    tokio::time::timeout(PATIENCE, scheduler.join()).await??;
    cluster.down().await
}
