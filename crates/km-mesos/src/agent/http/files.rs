//! Sandbox files: browse, read, download. Nothing outside of the agent's work directory is served.

use std::{
    fs, io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::http::StatusCode;
use km_mesos_proto::v1::{FileInfo, TimeInfo};

use super::super::shared::Shared;
use crate::wire::{Refusal, refuse};

/// The most bytes that one read returns.
const LONGEST_READ: u64 = 4 << 20;

#[derive(Debug)]
pub(super) enum Problem {
    NotFound(String),
    Bad(String),
    Failed(io::Error),
}

impl Problem {
    pub fn into_refusal(self) -> Refusal {
        match self {
            Self::NotFound(path) => refuse(StatusCode::NOT_FOUND, format!("Failed to find '{path}'")),
            Self::Bad(why) => refuse(StatusCode::BAD_REQUEST, why),
            Self::Failed(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

/// The files of a directory.
pub(super) async fn list(shared: &Arc<Shared>, path: String) -> Result<Vec<FileInfo>, Problem> {
    blocking(shared, path, |path, shown| {
        let mut infos = Vec::new();
        for entry in fs::read_dir(path).map_err(Problem::Failed)? {
            let entry = entry.map_err(Problem::Failed)?;
            let name = format!("{}/{}", shown.trim_end_matches('/'), entry.file_name().to_string_lossy());
            // A file may go while the directory is read.
            if let Ok(metadata) = entry.metadata() {
                infos.push(info(name, &metadata));
            }
        }
        infos.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(infos)
    })
    .await
}

/// The size of a file, and its bytes from `offset`, at most `length`.
pub(super) async fn read(
    shared: &Arc<Shared>,
    path: String,
    offset: u64,
    length: Option<u64>,
) -> Result<(u64, Vec<u8>), Problem> {
    blocking(shared, path, move |path, shown| {
        if path.is_dir() {
            return Err(Problem::Bad(format!("Cannot read from directory '{shown}'")));
        }
        let file = fs::File::open(path).map_err(Problem::Failed)?;
        let size = file.metadata().map_err(Problem::Failed)?.len();
        let wanted = length.unwrap_or(LONGEST_READ).min(LONGEST_READ).min(size.saturating_sub(offset));
        let mut data = vec![0; usize::try_from(wanted).unwrap_or(0)];
        let count = file.read_at(&mut data, offset).map_err(Problem::Failed)?;
        data.truncate(count);
        Ok((size, data))
    })
    .await
}

/// A whole file.
pub(super) async fn download(shared: &Arc<Shared>, path: String) -> Result<Vec<u8>, Problem> {
    blocking(shared, path, |path, _| fs::read(path).map_err(Problem::Failed)).await
}

async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    shown: String,
    work: impl FnOnce(&Path, &str) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let root = shared.work_dir.clone();
    let task = tokio::task::spawn_blocking(move || {
        let path = resolve(&root, &shown)?;
        work(&path, &shown)
    });
    task.await.map_err(|error| Problem::Failed(io::Error::other(error)))?
}

/// The real path, if it is inside `root`. Paths are absolute or relative to it; links may not lead out.
fn resolve(root: &Path, shown: &str) -> Result<PathBuf, Problem> {
    let not_found = || Problem::NotFound(shown.to_owned());
    let path = Path::new(shown);
    let path = if path.starts_with(root) { path.to_owned() } else { root.join(shown.trim_start_matches('/')) };
    let real = path.canonicalize().map_err(|_| not_found())?;
    let secret = real.starts_with(root.join("meta"));
    if real.starts_with(root) && !secret { Ok(real) } else { Err(not_found()) }
}

fn info(path: String, metadata: &fs::Metadata) -> FileInfo {
    FileInfo {
        path,
        nlink: i32::try_from(metadata.nlink()).ok(),
        size: Some(metadata.len()),
        mtime: Some(TimeInfo { nanoseconds: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec() }),
        mode: Some(metadata.mode()),
        uid: Some(metadata.uid().to_string()),
        gid: Some(metadata.gid().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_work_directory_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("slaves/a")).unwrap();
        fs::create_dir_all(root.join("meta")).unwrap();
        fs::write(root.join("slaves/a/stdout"), "x").unwrap();
        fs::write(root.join("meta/lock"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", root.join("slaves/out")).unwrap();
        let absolute = root.join("slaves/a/stdout");
        for path in ["slaves/a/stdout", "/slaves/a/stdout", absolute.to_str().unwrap()] {
            assert_eq!(resolve(&root, path).unwrap(), absolute, "{path}");
        }
        for path in ["slaves/b", "/etc/passwd", "slaves/out/passwd", "../x", "meta/lock"] {
            assert!(resolve(&root, path).is_err(), "{path}");
        }
    }
}
