//! What the next agent must know of a running container, in one small file each.

use std::{fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::processes::start_time;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub pid: u32,
    /// Of the process, in clock ticks since the machine's start.
    pub start_time: u64,
    /// Of the machine's start: process ids and start times mean nothing after the next one.
    pub boot_id: String,
    pub sandbox: String,
}

impl Record {
    /// The record of a process that was just started.
    pub fn of(pid: u32, sandbox: &str) -> Self {
        Self { pid, start_time: start_time(pid).unwrap_or_default(), boot_id: boot_id(), sandbox: sandbox.to_owned() }
    }

    pub fn is_alive(&self) -> bool {
        self.boot_id == boot_id() && start_time(self.pid) == Some(self.start_time)
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

pub(super) struct Records {
    directory: PathBuf,
}

impl Records {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// All records. An unreadable one is of a container whose start was cut off; nothing can be known of it.
    pub fn read(&self) -> io::Result<Vec<(String, Record)>> {
        fs::create_dir_all(&self.directory)?;
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match self.get(&name) {
                Some(record) => records.push((name, record)),
                None => tracing::warn!(container = name, "ignoring an unreadable container record"),
            }
        }
        Ok(records)
    }

    pub fn get(&self, container: &str) -> Option<Record> {
        serde_json::from_slice(&fs::read(self.directory.join(container)).ok()?).ok()
    }

    pub fn write(&self, container: &str, record: &Record) -> io::Result<()> {
        let path = self.directory.join(container);
        let temporary = self.directory.join(format!("{container}.new"));
        fs::write(&temporary, serde_json::to_vec(record)?)?;
        fs::rename(temporary, path)
    }

    pub fn remove(&self, container: &str) {
        if let Err(error) = fs::remove_file(self.directory.join(container))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(container, %error, "cannot remove a container's record");
        }
    }
}
