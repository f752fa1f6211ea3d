//! What a cluster must keep over a restart so that running executors find it again: its ports.

use std::{fs, io::Write, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The contents of `cluster.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub api_port: u16,
    pub mesos_port: u16,
    pub scheduler_port: u16,
    pub controller_manager_port: u16,
    /// One an agent.
    pub agent_ports: Vec<u16>,
}

impl State {
    /// The state of an earlier run, if there was one.
    pub fn load(path: &Path) -> Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => {
                let state = serde_json::from_slice(&bytes).with_context(|| {
                    format!("{} is damaged; `km reset` starts afresh (and deletes all objects)", path.display())
                })?;
                Ok(Some(state))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Writes the state so that a crash leaves either the old or the new one.
    pub fn save(&self, path: &Path) -> Result<()> {
        write_atomically(path, &serde_json::to_vec_pretty(self)?, 0o644)
    }
}

/// Replaces a file whole: write beside it, flush, rename.
pub fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_state_is_found_again_and_a_damaged_one_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.json");
        assert_eq!(State::load(&path).unwrap(), None);
        let state = State { api_port: 6443, agent_ports: vec![5051, 5052], ..State::default() };
        state.save(&path).unwrap();
        assert_eq!(State::load(&path).unwrap(), Some(state));
        fs::write(&path, "{\"api_port\": \"x\"").unwrap();
        let error = format!("{:#}", State::load(&path).unwrap_err());
        assert!(error.contains("cluster.json is damaged") && error.contains("km reset"), "{error}");
    }
}
