//! The two clusters that are compared: Apache Mesos and the embedded master and agents, each as processes of its own.

mod embedded;
mod real;

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use tempfile::TempDir;

use embedded::Embedded;
use real::Real;

/// What both clusters are started with. `{n}` in an agent's flag is its number, `{folder}` the cluster's folder.
#[derive(Clone, Default)]
pub struct Setup {
    /// How many agents.
    pub agents: usize,
    /// More flags of the master, `name=value`.
    pub master_flags: Vec<String>,
    /// More flags of the agents.
    pub agent_flags: Vec<String>,
    /// `principal:secret` of scripts, if they need to say who they are.
    pub login: Option<&'static str>,
    /// Files in the cluster's folder that flags name, with their content.
    pub files: Vec<(&'static str, &'static str)>,
}

/// No part takes longer to begin or to end, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const MASTER_FLAGS: [&str; 3] = ["allocation_interval=50ms", "agent_ping_timeout=5secs", "max_agent_ping_timeouts=3"];
/// Every agent has this size, and attributes of every type.
const AGENT_FLAGS: [&str; 6] = [
    "resources=cpus:4;mem:4096;disk:4096;ports:[31000-31999]",
    "attributes=rack:r{n};bar:baz;num:123;span:[1-17];dup:foo;dup:baz",
    "registration_backoff_factor=10ms",
    "executor_registration_timeout=10secs",
    "executor_reregistration_timeout=1secs",
    "executor_shutdown_grace_period=1secs",
];

impl Setup {
    fn master_flags(&self, folder: &Path) -> Vec<String> {
        all(&MASTER_FLAGS, &self.master_flags, folder)
    }

    fn agent_flags(&self, folder: &Path) -> Vec<String> {
        all(&AGENT_FLAGS, &self.agent_flags, folder)
    }
}

/// Of each name the last flag.
fn all(usual: &[&str], more: &[String], folder: &Path) -> Vec<String> {
    let mut flags: Vec<String> = usual.iter().map(|flag| (*flag).to_owned()).collect();
    for flag in more {
        set(&mut flags, flag);
    }
    flags.iter().map(|flag| flag.replace("{folder}", &folder.display().to_string())).collect()
}

/// Adds a flag, in place of one of the same name.
fn set(flags: &mut Vec<String>, flag: &str) {
    let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
    flags.retain(|old| name(old) != name(flag));
    flags.push(flag.to_owned());
}

/// A running cluster.
pub struct Cluster {
    /// `host:port` of the master.
    pub master: String,
    /// Where scripts put files; removed with the cluster.
    pub folder: TempDir,
    /// `principal:secret` of scripts.
    pub login: Option<String>,
    /// Its processes: `master`, `agent-0`, ...
    pub parts: Parts,
}

/// Who controls a cluster's processes.
#[derive(Clone)]
pub enum Parts {
    /// A script does.
    Real(Real),
    /// This process does.
    Embedded(Embedded),
}

impl Parts {
    /// Sends a signal, like `KILL`. One that ends the part is waited for.
    pub async fn signal(&self, name: &str, signal: &str) -> Result<()> {
        match self {
            Self::Real(parts) => parts.signal(name, signal),
            Self::Embedded(parts) => parts.signal(name, signal).await,
        }
    }

    /// Starts an ended part again with the flags that it had, but for these.
    pub async fn start(&self, name: &str, changed: &[&str]) -> Result<()> {
        match self {
            Self::Real(parts) => parts.start(name, changed),
            Self::Embedded(parts) => parts.start(name, changed).await,
        }
    }

    /// Starts a part with these flags changed; it must end by itself.
    pub async fn starts_in_vain(&self, name: &str, changed: &[&str]) -> Result<()> {
        let started = self.start(name, changed).await;
        match self {
            // It says where it listens as soon as it does.
            Self::Embedded(_) => anyhow::ensure!(started.is_err(), "{name} began"),
            Self::Real(_) => started?,
        }
        self.ended(name).await
    }

    /// Waits until a part has ended by itself.
    pub async fn ended(&self, name: &str) -> Result<()> {
        let wait = async {
            while self.runs(name).await? {
                tokio::time::sleep(POLL).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, wait).await.with_context(|| format!("{name} did not end"))?
    }

    async fn runs(&self, name: &str) -> Result<bool> {
        match self {
            Self::Real(parts) => parts.runs(name),
            Self::Embedded(parts) => Ok(parts.runs(name).await),
        }
    }

    /// What the part logged last.
    pub fn log(&self, name: &str) -> String {
        let log = match self {
            Self::Real(parts) => parts.log(name),
            Self::Embedded(parts) => parts.log(name),
        };
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }
}

impl Cluster {
    /// Apache Mesos, as `KM_TEST_REAL_MESOS` (the script) and `KM_TEST_MESOS` (where it is installed) say.
    pub fn real(setup: &Setup) -> Result<Self> {
        let folder = folder(setup)?;
        let (parts, port) = Real::start_all(setup, folder.path())?;
        Ok(Self {
            master: format!("127.0.0.1:{port}"),
            folder,
            login: setup.login.map(str::to_owned),
            parts: Parts::Real(parts),
        })
    }

    /// The embedded master and agents.
    pub async fn embedded(setup: &Setup) -> Result<Self> {
        let folder = folder(setup)?;
        let (parts, port) = Embedded::start_all(setup, folder.path()).await?;
        Ok(Self {
            master: format!("127.0.0.1:{port}"),
            folder,
            login: setup.login.map(str::to_owned),
            parts: Parts::Embedded(parts),
        })
    }

    /// Ends it, with all that it started.
    pub async fn end(self) -> Result<()> {
        match &self.parts {
            Parts::Real(parts) => parts.down(),
            Parts::Embedded(parts) => parts.down().await,
        }
    }
}

fn folder(setup: &Setup) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for (name, content) in &setup.files {
        fs::write(folder.path().join(name), content)?;
    }
    Ok(folder)
}
