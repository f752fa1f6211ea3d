//! Sandboxes: network namespace, files of the pod, control group.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use futures::future::join_all;
use serde::{Deserialize, Serialize};

use super::{Inner, OciRuntime, blocking, check_id};
use crate::{
    Result, RuntimeError, Sandbox, SandboxSpec, cgroup,
    files::{self, Context},
};

/// `sandbox.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub spec: SandboxSpec,
    /// Absent with the host's network.
    pub ip: Option<Ipv4Addr>,
    /// The sandbox was made completely.
    pub ready: bool,
}

impl Record {
    pub fn sandbox(&self) -> Sandbox {
        Sandbox { spec: self.spec.clone(), ip: self.ip.map(Into::into) }
    }

    pub fn path(folder: &Path) -> PathBuf {
        folder.join("sandbox.json")
    }
}

/// Where the network namespace of a sandbox is kept.
pub(crate) fn namespace_path(folder: &Path) -> PathBuf {
    folder.join("netns")
}

impl OciRuntime {
    /// Sandboxes of an earlier process: their namespaces are still there, their host ports need this process.
    pub(super) async fn adopt_sandboxes(&self) -> Result<()> {
        let inner = &self.inner;
        let folder = inner.config.root.join("sandboxes");
        let adopting = || format!("reading {}", folder.display());
        for entry in fs::read_dir(&folder).context(adopting)? {
            let entry = entry.context(adopting)?;
            let Some(record) = files::read_json::<Record>(&Record::path(&entry.path())).context(adopting)? else {
                files::remove_tree(&entry.path()).context(adopting)?;
                continue;
            };
            inner.state().sandboxes.insert(record.spec.id.clone(), record);
        }
        let ready: Vec<Record> = inner.state().sandboxes.values().filter(|record| record.ready).cloned().collect();
        for record in ready {
            let Some(ip) = record.ip else { continue };
            if let Err(error) = inner.network.publish(&record.spec.id, ip, &record.spec.ports).await {
                tracing::error!(pod = record.spec.id, %error, "adopting the host ports of a pod");
            }
        }
        Ok(())
    }
}

impl Inner {
    pub(super) fn sandbox_folder(&self, id: &str) -> PathBuf {
        self.config.root.join("sandboxes").join(id)
    }

    pub(super) fn sandbox_cgroup(&self, id: &str) -> String {
        format!("{}/{id}", self.agent.cgroup)
    }

    pub(super) fn sandbox_logs(&self, spec: &SandboxSpec) -> PathBuf {
        self.config.log_dir.join(format!("{}_{}_{}", spec.namespace, spec.name, spec.id).replace('/', "_"))
    }

    pub(super) async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox> {
        check_id("sandbox", &spec.id)?;
        let lock = self.sandbox_lock(&spec.id);
        let _one_at_a_time = lock.lock().await;
        let known = self.state().sandboxes.get(&spec.id).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.ready) {
            return Ok(known.sandbox());
        }
        let ip = match known.and_then(|known| known.ip) {
            _ if spec.host_network => None,
            Some(ip) => Some(ip),
            None => Some(self.reserve(spec)?),
        };
        let mut record = Record { spec: spec.clone(), ip, ready: false };
        self.state().sandboxes.insert(spec.id.clone(), record.clone());
        match self.build_sandbox(&mut record).await {
            Ok(()) => {
                self.state().sandboxes.insert(spec.id.clone(), record.clone());
                Ok(record.sandbox())
            }
            Err(error) => {
                // What is half made is taken back; when that fails too, the first error tells more.
                let _first_error_counts = self.dismantle(&record.spec).await;
                Err(error)
            }
        }
    }

    /// An address for the pod, taken by its (not yet ready) record.
    fn reserve(&self, spec: &SandboxSpec) -> Result<Ipv4Addr> {
        let mut state = self.state();
        let taken: Vec<Ipv4Addr> = state.sandboxes.values().filter_map(|record| record.ip).collect();
        let ip = self.network.pick_address(&taken)?;
        state.sandboxes.insert(spec.id.clone(), Record { spec: spec.clone(), ip: Some(ip), ready: false });
        Ok(ip)
    }

    async fn build_sandbox(&self, record: &mut Record) -> Result<()> {
        let spec = &record.spec;
        let folder = self.sandbox_folder(&spec.id);
        let making = || format!("making the sandbox of pod {}/{}", spec.namespace, spec.name);
        fs::create_dir_all(&folder).context(making)?;
        files::write_json(&Record::path(&folder), &*record).context(making)?;
        self.write_pod_files(&folder, record).context(making)?;
        if let Some(ip) = record.ip {
            self.network.attach(&spec.id, &namespace_path(&folder), ip, &spec.ports).await?;
        }
        record.ready = true;
        files::write_json(&Record::path(&folder), &*record).context(|| "recording the sandbox".to_owned())
    }

    fn write_pod_files(&self, folder: &Path, record: &Record) -> std::io::Result<()> {
        let spec = &record.spec;
        let resolv_conf = if spec.resolv_conf.is_empty() {
            // A host without one has no name service to pass on.
            fs::read_to_string("/etc/resolv.conf").unwrap_or_default()
        } else {
            lines(&spec.resolv_conf)
        };
        let hosts = match record.ip {
            None => fs::read_to_string("/etc/hosts").unwrap_or_default(),
            Some(ip) => hosts_file(ip, &spec.hostname),
        } + &lines(&spec.hosts);
        let hostname = if spec.host_network { host_name()? } else { spec.hostname.clone() };
        for (name, content) in [("resolv.conf", resolv_conf), ("hosts", hosts), ("hostname", format!("{hostname}\n"))] {
            fs::write(folder.join(name), content)?;
            // Any user of the pod reads them, whatever our own umask is.
            rustix::fs::chmod(folder.join(name), rustix::fs::Mode::from_raw_mode(0o644))?;
        }
        Ok(())
    }

    pub(super) async fn remove_sandbox(&self, id: &str) -> Result<()> {
        let lock = self.sandbox_lock(id);
        let _one_at_a_time = lock.lock().await;
        let Some(spec) = self.state().sandboxes.get(id).map(|record| record.spec.clone()) else { return Ok(()) };
        self.dismantle(&spec).await
    }

    /// In an order that can be repeated: the record goes last.
    async fn dismantle(&self, spec: &SandboxSpec) -> Result<()> {
        let containers: Vec<String> = {
            let state = self.state();
            let own = state.containers.values().filter(|entry| entry.status.sandbox_id == spec.id);
            own.map(|entry| entry.status.id.clone()).collect()
        };
        join_all(containers.iter().map(|id| self.kill(id))).await.into_iter().collect::<Result<Vec<()>>>()?;
        for id in &containers {
            self.discard_container(id).await?;
        }
        let folder = self.sandbox_folder(&spec.id);
        if !spec.host_network {
            self.network.detach(&spec.id, &namespace_path(&folder)).await?;
        }
        let (cgroup, logs) = (self.sandbox_cgroup(&spec.id), self.sandbox_logs(spec));
        blocking(move || {
            cgroup::remove(&cgroup).context(|| "removing the pod's control group".to_owned())?;
            files::remove_tree(&logs).context(|| format!("removing {}", logs.display()))?;
            files::remove_tree(&folder).context(|| format!("removing {}", folder.display()))
        })
        .await?;
        self.state().sandboxes.remove(&spec.id);
        Ok(())
    }

    pub(super) fn ready_sandbox(&self, id: &str) -> Result<Record> {
        let state = self.state();
        let record = state.sandboxes.get(id).filter(|record| record.ready);
        record.cloned().ok_or_else(|| RuntimeError::NotFound { kind: "sandbox", id: id.to_owned() })
    }
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// As the kubelet writes it.
fn hosts_file(ip: Ipv4Addr, hostname: &str) -> String {
    format!(
        "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n{ip}\t{hostname}\n"
    )
}

fn host_name() -> std::io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned())
}
