//! Checkpoint files: replaced atomically and durably, one directory per thing.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use km_mesos_core::agent::Action;

#[derive(Clone)]
pub(super) struct Checkpoints {
    directory: PathBuf,
}

/// A change of the checkpoints.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Write { path: String, content: Vec<u8> },
    Remove { path: String },
}

impl Change {
    /// Takes the change out of an action, if it is one.
    pub fn of(action: Action) -> Result<Self, Action> {
        match action {
            Action::Write { path, content } => Ok(Self::Write { path, content }),
            Action::Remove { path } => Ok(Self::Remove { path }),
            other => Err(other),
        }
    }

    /// Whether this change makes an earlier one needless.
    fn overrules(&self, earlier: &Self) -> bool {
        let (Self::Write { path: old, .. } | Self::Remove { path: old }) = earlier;
        match self {
            Self::Write { path, .. } => path == old,
            Self::Remove { path } => path.is_empty() || path == old || old.starts_with(&format!("{path}/")),
        }
    }
}

impl Checkpoints {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// All files, with their paths relative to the directory.
    pub fn read(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut files = Vec::new();
        read_below(&self.directory, "", &mut files)?;
        Ok(files)
    }

    /// Makes changes durable, in order.
    pub fn apply(&self, changes: &[Change]) -> io::Result<()> {
        let mut touched = BTreeSet::new();
        for (index, change) in changes.iter().enumerate() {
            if changes[index + 1..].iter().any(|later| later.overrules(change)) {
                continue;
            }
            match change {
                Change::Write { path, content } => self.write(path, content, &mut touched)?,
                Change::Remove { path } => self.remove(path)?,
            }
        }
        for directory in touched.iter().filter(|directory| directory.exists()) {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }

    fn write(&self, path: &str, content: &[u8], touched: &mut BTreeSet<PathBuf>) -> io::Result<()> {
        let path = self.directory.join(path);
        let parent = path.parent().unwrap_or(&self.directory);
        fs::create_dir_all(parent)?;
        let temporary = path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_data()?;
        fs::rename(&temporary, &path)?;
        touched.insert(parent.to_owned());
        // A new directory must survive as well.
        touched.extend(parent.parent().map(Path::to_owned));
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.directory.join(path);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

fn read_below(directory: &Path, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_below(&entry.path(), &format!("{name}/"), files)?;
        } else if !name.ends_with(".new") {
            files.push((name, fs::read(entry.path())?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &str, content: &str) -> Change {
        Change::Write { path: path.to_owned(), content: content.as_bytes().to_vec() }
    }

    fn remove(path: &str) -> Change {
        Change::Remove { path: path.to_owned() }
    }

    #[test]
    fn what_is_read_is_what_was_written_last() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(directory.path().join("meta"));
        assert_eq!(checkpoints.read().unwrap(), []);
        let changes = [write("a/info", "1"), write("a/info", "2"), write("b/c/info", "3"), remove("b"), remove("gone")];
        checkpoints.apply(&changes).unwrap();
        assert_eq!(checkpoints.read().unwrap(), [("a/info".to_owned(), b"2".to_vec())]);
        checkpoints.apply(&[remove("a"), write("a/info", "4")]).unwrap();
        assert_eq!(checkpoints.read().unwrap(), [("a/info".to_owned(), b"4".to_vec())]);
        checkpoints.apply(&[remove("")]).unwrap();
        assert_eq!(checkpoints.read().unwrap(), []);
    }
}
