//! An embedded API server, masters and agents, each in this process but spoken to over HTTP.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{net::SocketAddr, path::Path, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_observe::Started;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Cluster {
    pub folder: tempfile::TempDir,
    stop: CancellationToken,
    roles: Vec<Started>,
    pub master: String,
    pub client: Client,
}

impl Cluster {
    pub async fn up() -> anyhow::Result<Self> {
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
        let client = client(&folder.path().join("api/admin.kubeconfig")).await?;
        let mut cluster = Self { folder, stop, roles: vec![api], master: String::new(), client };
        cluster.another_master().await?;
        Ok(cluster)
    }

    /// The address of the newest master.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// Starts a further master: agents and flags from now on are its.
    pub async fn another_master(&mut self) -> anyhow::Result<()> {
        let flags = km_mesos::master::Flags { port: 0, ..km_mesos::master::Flags::default() };
        let master = km_mesos::master::start(flags, self.stop.clone()).await?;
        self.master = master.address.to_string();
        self.roles.push(master);
        Ok(())
    }

    pub async fn agent(&mut self, hostname: &str) -> anyhow::Result<()> {
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

    pub fn flags(&self) -> km_scheduler::Flags {
        km_scheduler::Flags {
            port: 0,
            kubeconfig: Some(self.folder.path().join("api/admin.kubeconfig")),
            mesos_master: self.master.clone(),
            agent_km_path: Some("/bin/false".into()),
            agent_kubeconfig: Some("/dev/null".into()),
            ..km_scheduler::Flags::default()
        }
    }

    pub async fn down(self) -> anyhow::Result<()> {
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
pub async fn wait<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
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

pub async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: scheduler\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("it answers");
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
    (status, text)
}

/// A pod that asks for so much CPU.
pub fn pod(name: &str, cpu: &str) -> Pod {
    let pod = json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "none", "resources": { "requests": { "cpu": cpu } } }] },
    });
    serde_json::from_value(pod).expect("a pod")
}
