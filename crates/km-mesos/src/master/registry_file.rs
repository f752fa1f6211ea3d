//! The registry on disk: a log. Its first line is all that was known when it was last written anew, each further line is
//! one change, on disk before the master says anything that rests on it. When the changes outgrow the first line, the log
//! is written anew; so what a change costs doesn't depend on how much is known.

mod lines;

use std::{
    fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use km_mesos_core::master::{Registry, RegistryChange};

/// Changes of less than this in all are no reason to write the log anew.
const FEW_BYTES: usize = 1 << 16;

/// Where the registry is, and its end.
pub(super) struct RegistryFile {
    path: PathBuf,
    /// Where the next change goes. None: the log is written anew instead, as there is none or its end is damaged.
    log: Option<Log>,
}

struct Log {
    file: fs::File,
    /// Bytes of the first line, and of all others.
    whole: usize,
    changes: usize,
}

impl RegistryFile {
    /// Makes the directory if need be.
    pub fn open(work_dir: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(work_dir).with_context(|| format!("--work_dir: {} can't be made", work_dir.display()))?;
        Ok(Self { path: work_dir.join("registry.json"), log: None })
    }

    /// What is there; nothing when there is no file yet.
    pub fn read(&self) -> anyhow::Result<Registry> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Registry::default()),
            Err(error) => return Err(error).with_context(|| format!("{} can't be read", self.path.display())),
        };
        let damaged = |line: usize| {
            let path = self.path.display();
            format!("{path} is damaged in line {line}; move it away to start with an empty registry")
        };
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let mut registry = lines::read_whole(lines.next().unwrap_or_default()).with_context(|| damaged(1))?;
        for (number, line) in lines.enumerate() {
            if !line.ends_with(b"\n") {
                // It was being written when the machine stopped; nobody was told of it.
                break;
            }
            registry.apply(lines::read_change(line).with_context(|| damaged(number + 2))?);
        }
        Ok(registry)
    }

    /// Writes a change down. `all` gives what is known with it, for when the log is written anew.
    pub fn write(&mut self, change: &RegistryChange, all: impl FnOnce() -> Registry) -> anyhow::Result<()> {
        let room = |log: &&mut Log| log.changes <= log.whole.max(FEW_BYTES);
        let Some(log) = self.log.as_mut().filter(room) else { return self.replace(&all()) };
        let line = lines::of_change(change)?;
        let written = log.file.write_all(&line).and_then(|()| log.file.sync_data());
        log.changes += line.len();
        if written.is_err() {
            // Nobody knows what of it is there.
            self.log = None;
        }
        Ok(written?)
    }

    /// Writes the log anew.
    pub fn replace(&mut self, registry: &Registry) -> anyhow::Result<()> {
        self.log = None;
        let text = lines::of_whole(registry)?;
        let fresh = self.path.with_extension("new");
        let mut file = fs::File::create(&fresh)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(&fresh, &self.path)?;
        // The new name must be there before anything is added under it.
        if let Some(directory) = self.path.parent() {
            fs::File::open(directory)?.sync_all()?;
        }
        self.log = Some(Log { file, whole: text.len(), changes: 0 });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
