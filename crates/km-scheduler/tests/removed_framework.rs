//! A framework id that Mesos will never take again is replaced without anybody's help.

mod cluster;

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use km_observe::Started;
use kube::{Api, api::PostParams};
use tokio_util::sync::CancellationToken;

use cluster::{Cluster, PATIENCE, get, pod, wait};

struct Scheduler {
    stop: CancellationToken,
    started: Started,
}

impl Scheduler {
    /// Starts one that Mesos waits a second for, and waits until it is subscribed.
    async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let flags = km_scheduler::Flags { failover_timeout: 1.0, ..cluster.flags() };
        let stop = CancellationToken::new();
        let started = km_scheduler::start(flags, stop.clone()).await?;
        let address = started.address;
        wait("readiness", async || (get(address, "/readyz").await.0 == 200).then_some(())).await;
        Ok(Self { stop, started })
    }

    async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.started.join()).await?
    }
}

async fn stored_id(cluster: &Cluster) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "kube-system");
    maps.get("k8sm-scheduler").await.ok()?.data?.get("frameworkId").cloned()
}

/// Waits for another id than that, and shows that pods are launched under it.
async fn works_under_another_id(cluster: &Cluster, old: &str, name: &str) -> anyhow::Result<String> {
    let id = wait("another id", async || stored_id(cluster).await.filter(|id| id != old)).await;
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "default");
    pods.create(&PostParams::default(), &pod(name, "1")).await?;
    // The executor of these tests ends at once; what the master knows of the task is enough.
    wait("the launch", async || get(master(cluster), "/tasks?limit=100").await.1.contains(&id).then_some(())).await;
    Ok(id)
}

fn master(cluster: &Cluster) -> SocketAddr {
    cluster.master().parse().expect("an address")
}

async fn teardown(address: SocketAddr, id: &str) -> anyhow::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let body = format!("frameworkId={id}");
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let head = "POST /master/teardown HTTP/1.1\r\nHost: master\r\nConnection: close\r\n";
    let head =
        format!("{head}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    anyhow::ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_framework_id_that_mesos_removed_is_replaced_and_pods_run_again() -> anyhow::Result<()> {
    let mut cluster = Cluster::up().await?;
    cluster.agent("alpha").await?;
    let scheduler = Scheduler::start(&cluster).await?;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    wait("the node", async || nodes.get_opt("alpha").await.ok().flatten()).await;
    let first = wait("the id", async || stored_id(&cluster).await).await;

    // Its time to come back is over: the next SUBSCRIBE is answered by ERROR.
    scheduler.end().await?;
    wait("the framework's end", async || {
        let page = get(master(&cluster), "/frameworks").await.1;
        let page: serde_json::Value = serde_json::from_str(&page[page.find('{')?..]).ok()?;
        let completed = page["completed_frameworks"].as_array()?;
        completed.iter().any(|framework| framework["id"] == first.as_str()).then_some(())
    })
    .await;
    let scheduler = Scheduler::start(&cluster).await?;
    let second = works_under_another_id(&cluster, &first, "second").await?;

    // An operator ends it while it is subscribed: the stream says ERROR.
    teardown(master(&cluster), &second).await?;
    works_under_another_id(&cluster, &second, "third").await?;
    scheduler.end().await?;
    cluster.down().await
}
