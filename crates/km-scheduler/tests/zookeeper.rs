//! The scheduler follows the leading master by a real ZooKeeper.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod cluster;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use km_testkit::ZooKeeper;
use kube::Api;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Acls, Client, CreateMode};

use cluster::{Cluster, PATIENCE, get, wait};

fn info(address: &str) -> Vec<u8> {
    let (_, port) = address.split_once(':').unwrap();
    format!(r#"{{"address":{{"ip":"127.0.0.1","port":{port}}},"id":"m","ip":1,"port":{port}}}"#).into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_leading_master_is_followed_without_a_restart() -> anyhow::Result<()> {
    let zookeeper = ZooKeeper::start();
    let election = Client::connect(&zookeeper.address()).await?;
    let everybodys = Acls::anyone_all();
    election.create("/mesos", b"", &CreateMode::Persistent.with_acls(everybodys)).await?;
    let stands = CreateMode::PersistentSequential.with_acls(everybodys);

    let mut cluster = Cluster::up().await?;
    let (_, first) = election.create("/mesos/json.info_", &info(cluster.master()), &stands).await?;
    let mut flags = cluster.flags();
    flags.mesos_master = format!("zk://{}/mesos", zookeeper.address());
    let stop = CancellationToken::new();
    let scheduler = km_scheduler::start(flags, stop.clone()).await?;
    let address = scheduler.address;
    wait("readiness", async || (get(address, "/readyz").await.0 == 200).then_some(())).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "kube-system");
    let id = async || maps.get("k8sm-scheduler").await.map(|map| map.data.unwrap_or_default().remove("frameworkId"));
    let before = id().await?;

    // The second master has an agent; the first lives on, and doesn't know that it leads no more.
    cluster.another_master().await?;
    cluster.agent("beta").await?;
    election.create("/mesos/json.info_", &info(cluster.master()), &stands).await?;
    election.delete(&format!("/mesos/json.info_{first}"), None).await?;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    wait("the second master's agent", async || nodes.get_opt("beta").await.ok().flatten()).await;
    assert_eq!(id().await?, before, "it is the same framework");

    stop.cancel();
    tokio::time::timeout(PATIENCE, scheduler.join()).await??;
    cluster.down().await
}
