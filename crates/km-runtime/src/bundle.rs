//! The folder of one container: what was asked for, what its shim reports, and how it ended.
//!
//! The runtime writes `container.json` and starts the shim. The shim holds the lock `lock` as long as it lives, writes
//! `started.json` once the program runs and `exit.json` as its last deed. Whoever opens the state later reads from
//! these what is so: an exit record, or a held lock, or neither, which means that the shim died.

use std::{fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    ContainerSpec,
    files::{open_lock, read_json, try_lock, write_json},
    process::ProcessRef,
};

/// What the runtime decided when the container was created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContainerRecord {
    pub spec: ContainerSpec,
    pub image_id: String,
    /// Shared lock on the image, held by the shim, so that its layers stay.
    pub image_lock: PathBuf,
    /// Folder that holds the layers, and the layers' names in it, topmost first.
    pub layer_root: PathBuf,
    pub layers: Vec<String>,
    pub image_config: ImageConfig,
    /// Absent: the host's network.
    pub netns: Option<PathBuf>,
    pub hostname: Option<String>,
    /// Folder with `hosts`, `hostname` and `resolv.conf`.
    pub sandbox_files: PathBuf,
    /// Path of the container's control group.
    pub cgroup: String,
    pub log_path: PathBuf,
    pub created_at: i64,
}

/// The part of an image's configuration that matters for running it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageConfig {
    #[serde(deserialize_with = "null_is_empty")]
    pub user: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub entrypoint: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub cmd: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub working_dir: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
}

/// Builders write `null` for what is empty.
fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct StartedRecord {
    /// The container's first process, as seen from the host.
    pub process: ProcessRef,
    pub started_at: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub finished_at: i64,
    pub reason: String,
    pub message: String,
}

impl ExitRecord {
    pub const CANNOT_RUN: &str = "ContainerCannotRun";
}

/// What the shim says on its output once it knows whether the program runs.
#[derive(Debug, Serialize, Deserialize)]
pub enum ShimReport {
    Started(StartedRecord),
    Failed(ExitRecord),
}

/// What the folder of a container says about its shim.
#[derive(Debug)]
pub enum Life {
    /// The shim lives.
    Supervised,
    Ended(ExitRecord),
    /// No shim, and none can start any more: the lock is ours.
    Abandoned(fs::File),
}

#[derive(Clone, Debug)]
pub struct Bundle(pub PathBuf);

impl Bundle {
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn record(&self) -> io::Result<Option<ContainerRecord>> {
        read_json(&self.path("container.json"))
    }

    pub fn write_record(&self, record: &ContainerRecord) -> io::Result<()> {
        write_json(&self.path("container.json"), record)
    }

    pub fn started(&self) -> io::Result<Option<StartedRecord>> {
        read_json(&self.path("started.json"))
    }

    pub fn write_started(&self, started: &StartedRecord) -> io::Result<()> {
        write_json(&self.path("started.json"), started)
    }

    pub fn exit(&self) -> io::Result<Option<ExitRecord>> {
        read_json(&self.path("exit.json"))
    }

    pub fn write_exit(&self, exit: &ExitRecord) -> io::Result<()> {
        write_json(&self.path("exit.json"), exit)
    }

    /// The shim as it was when it took the lock.
    pub fn shim(&self) -> io::Result<Option<ProcessRef>> {
        read_json(&self.path("shim.json"))
    }

    pub fn write_shim(&self, shim: ProcessRef) -> io::Result<()> {
        write_json(&self.path("shim.json"), &shim)
    }

    pub fn lock_path(&self) -> PathBuf {
        self.path("lock")
    }

    /// An exit record is written before the lock is let go, so it is looked for after the lock was tried.
    pub fn life(&self) -> io::Result<Life> {
        if let Some(exit) = self.exit()? {
            return Ok(Life::Ended(exit));
        }
        let lock = open_lock(&self.lock_path())?;
        if !try_lock(&lock)? {
            return Ok(Life::Supervised);
        }
        Ok(match self.exit()? {
            Some(exit) => Life::Ended(exit),
            None => Life::Abandoned(lock),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_means_supervised_and_an_exit_record_means_ended() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = Bundle(folder.path().to_owned());
        let Life::Abandoned(lock) = bundle.life().unwrap() else { panic!("nobody holds the lock") };
        assert!(matches!(bundle.life().unwrap(), Life::Supervised));
        drop(lock);
        let exit =
            ExitRecord { exit_code: 3, signal: None, finished_at: 1, reason: "Error".into(), message: String::new() };
        bundle.write_exit(&exit).unwrap();
        assert!(matches!(bundle.life().unwrap(), Life::Ended(found) if found == exit));
    }

    #[test]
    fn null_in_an_image_configuration_means_empty() {
        let config: ImageConfig =
            serde_json::from_str(r#"{"User":null,"Env":null,"Cmd":["a"],"Volumes":null}"#).unwrap();
        assert_eq!(config, ImageConfig { cmd: vec!["a".into()], ..ImageConfig::default() });
    }
}
