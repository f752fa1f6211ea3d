//! The scheduler over real connections: embedded API server, embedded Mesos master and agent, HTTP in between.
//!
//! The executor of these tests is a program that ends at once, so pods are launched but never bound.

use std::{path::Path, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use km_observe::Started;
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster {
    folder: tempfile::TempDir,
    stop: CancellationToken,
    roles: Vec<Started>,
    master: String,
    client: Client,
}

impl Cluster {
    async fn up() -> anyhow::Result<Self> {
        let _already = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir()?;
        let stop = CancellationToken::new();
        let flags = km_apiserver::Flags {
            data_dir: folder.path().join("api"),
            bind_address: [127, 0, 0, 1].into(),
            secure_port: 0,
            ..km_apiserver::Flags::default()
        };
        let api = km_apiserver::start(flags, stop.clone()).await?;
        let flags = km_mesos::master::Flags { port: 0, ..km_mesos::master::Flags::default() };
        let master = km_mesos::master::start(flags, stop.clone()).await?;
        let address = master.address.to_string();
        let client = client(&folder.path().join("api/admin.kubeconfig")).await?;
        Ok(Self { folder, stop, roles: vec![api, master], master: address, client })
    }

    async fn agent(&mut self, hostname: &str) -> anyhow::Result<()> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            flags: km_mesos::agent::Flags,
        }
        let work = self.folder.path().join(hostname);
        let line = [
            "agent".to_owned(),
            format!("--master={}", self.master),
            "--port=0".to_owned(),
            format!("--hostname={hostname}"),
            "--resources=cpus:4;mem:4096;disk:1000;ports:[31000-31100]".to_owned(),
            "--attributes=rack:r1".to_owned(),
            format!("--work_dir={}", work.display()),
        ];
        let line = line.map(|argument| argument.replace("work_dir", "work-dir"));
        let flags = <Line as clap::Parser>::try_parse_from(line)?.flags;
        self.roles.push(km_mesos::agent::start(flags, self.stop.clone()).await?);
        Ok(())
    }

    fn flags(&self) -> km_scheduler::Flags {
        km_scheduler::Flags {
            port: 0,
            kubeconfig: Some(self.folder.path().join("api/admin.kubeconfig")),
            mesos_master: self.master.clone(),
            agent_km_path: Some("/bin/false".into()),
            agent_kubeconfig: Some("/dev/null".into()),
            ..km_scheduler::Flags::default()
        }
    }

    async fn down(self) -> anyhow::Result<()> {
        self.stop.cancel();
        for role in self.roles {
            tokio::time::timeout(PATIENCE, role.join()).await??;
        }
        Ok(())
    }
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Waits until `look` finds something.
async fn wait<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what} didn't happen"))
}

fn pod(name: &str, cpu: &str) -> Pod {
    let pod = json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "none", "resources": { "requests": { "cpu": cpu } } }] },
    });
    serde_json::from_value(pod).expect("a pod")
}

async fn events(client: &Client, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let list = events.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let mine = list.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    mine.filter_map(|event| event.message).collect()
}

async fn get(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: scheduler\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("it answers");
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
    (status, text)
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
    let expected = "0/1 nodes are available: 1 Insufficient cpu. The pod needs cpu 64, but the largest agent has 4.";
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
    let flags =
        km_scheduler::Flags { km_path: Some(binary), agent_km_path: None, agent_kubeconfig: None, ..cluster.flags() };
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
