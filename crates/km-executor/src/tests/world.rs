//! An executor among fakes.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use km_kube::keys;
use km_mesos_proto::{resources::Resources, v1};
use serde_json::{Value, from_value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{agent::FakeAgent, api::FakeApi, journal::Journal, runtime::FakeRuntime};
use crate::{Flags, kubelet, network, start::Parts};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

pub struct World {
    pub journal: Journal,
    pub api: FakeApi,
    pub agent: FakeAgent,
    pub runtime: FakeRuntime,
    pub kubelet: SocketAddr,
    pub stop: CancellationToken,
    pub task: JoinHandle<anyhow::Result<()>>,
    _dir: TempDir,
}

impl World {
    /// An executor that has subscribed.
    pub async fn new() -> Self {
        Self::with(|_| {}, &[]).await
    }

    pub async fn with(change: impl FnOnce(&mut FakeAgent), more: &[&str]) -> Self {
        // Another test may have installed it.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let dir = TempDir::new().unwrap();
        let api = FakeApi::default();
        let journal = api.journal.clone();
        let mut agent = FakeAgent::new(journal.clone());
        change(&mut agent);
        let runtime = FakeRuntime::new(journal.clone(), dir.path().to_owned());
        let arguments =
            ["executor", "--kubeconfig=none", "--hostname-override=node", "--address=127.0.0.1", "--port=0"];
        let flags = Line::parse_from(arguments.iter().chain(more)).flags;
        let listener = network::listen(flags.address, flags.port).await.unwrap();
        let kubelet = listener.local_addr().unwrap();
        let ip = Some("127.0.0.1".parse().unwrap());
        let parts = Parts {
            tls: kubelet::acceptor("node", ip, Vec::new()).unwrap(),
            flags,
            api: Arc::new(api.clone()),
            link: Arc::new(agent.clone()),
            runtime: Arc::new(runtime.clone()),
            listener,
            ip,
            pods_dir: dir.path().join("pods"),
            static_pods_dir: dir.path().join("static-pods"),
            variables: vec![("MESOS_EXECUTOR_CONTAINER_UUID".into(), "mesos-container".into())],
            period: Duration::from_secs(5),
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(crate::start::run(parts, stop.clone()));
        journal.wait("node status").await;
        Self { journal, api, agent, runtime, kubelet, stop, task, _dir: dir }
    }

    /// Puts an unbound pod into the API server and launches its task.
    pub fn launch(&self, name: &str, spec: Value) {
        let mut pod = pod(name, spec);
        self.api.put(pod.clone());
        let task = format!("t-{name}");
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::TASK_ID.into(), task.clone());
        annotations.insert(keys::port_annotation("TCP", 80), "31000".into());
        for container in &mut pod.spec.as_mut().unwrap().containers {
            for port in container.ports.iter_mut().flatten() {
                port.host_port = Some(31000);
            }
        }
        let data = Some(serde_json::to_vec(&pod).unwrap());
        let resources = Resources::parse("cpus:1;mem:128", "*").unwrap().to_protos();
        self.agent.launch(v1::TaskInfo { task_id: task.into(), data, resources, ..Default::default() });
    }

    /// Waits for the executor's own end.
    pub async fn ended(self) -> (Journal, FakeRuntime) {
        let ended = tokio::time::timeout(Duration::from_secs(20), self.task).await;
        ended.expect("the executor ends").unwrap().unwrap();
        (self.journal, self.runtime)
    }
}

pub fn pod(name: &str, spec: Value) -> Pod {
    let meta = json!({"name": name, "namespace": "n", "uid": format!("uid-{name}")});
    from_value(json!({"metadata": meta, "spec": spec})).unwrap()
}

pub fn one(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "x:1",
        "command": ["run", "$(WHO)"], "env": [{"name": "WHO", "value": "me"}],
        "ports": [{"containerPort": 80}]}]})
}
