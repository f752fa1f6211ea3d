//! A local cluster's data directory: who holds it, what ports it has, and how clients reach it.

pub mod kubeconfig;
mod lock;
mod state;

use std::path::{Path, PathBuf};

pub use lock::{Lock, LockError};
pub use state::{State, write_atomically};

/// The paths inside a data directory.
#[derive(Clone, Debug)]
pub struct Layout {
    pub root: PathBuf,
}

impl Layout {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// `/var/lib/km` as root, else `$XDG_STATE_HOME/km` or `~/.local/state/km`.
    pub fn default_root() -> PathBuf {
        if nix::unistd::geteuid().is_root() {
            return "/var/lib/km".into();
        }
        let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
        state.or_else(home).unwrap_or_else(|| ".".into()).join("km")
    }

    pub fn apiserver(&self) -> PathBuf {
        self.root.join("apiserver")
    }
    pub fn master(&self) -> PathBuf {
        self.root.join("mesos-master")
    }
    pub fn agent(&self, number: u16) -> PathBuf {
        self.root.join(format!("mesos-agent-{number}"))
    }
    /// The folders of all agents that ever were.
    pub fn agents(&self) -> std::io::Result<Vec<PathBuf>> {
        let is_agent =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("mesos-agent-"));
        Ok(folders(&self.root)?.into_iter().filter(is_agent).collect())
    }
    /// Containers and pod volumes, one folder an agent.
    pub fn kubelet(&self) -> PathBuf {
        self.root.join("kubelet")
    }
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.root.join(format!("{user}.kubeconfig"))
    }
    pub fn log(&self) -> PathBuf {
        self.root.join("km.log")
    }
    /// Exists while the cluster is up and ready.
    pub fn ready(&self) -> PathBuf {
        self.root.join("ready")
    }
    pub fn state(&self) -> PathBuf {
        self.root.join("cluster.json")
    }
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }
}

/// The folders in a folder; none when that does not exist.
pub fn folders(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    Ok(paths?.into_iter().filter(|path| path.is_dir()).collect())
}
