//! Files of a volume that change all at once.
//!
//! As the kubelet does it: the files lie in a folder with a name of its own, `..data` is a link to that folder, and
//! each file's visible name is a link through `..data`. A new content is a new folder and one rename of the link.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
};

/// One file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Relative, without `..`.
    pub path: String,
    pub mode: u32,
    pub content: Vec<u8>,
}

/// Whether a file may have that path.
pub fn is_safe(path: &str) -> bool {
    let parts = Path::new(path).components();
    !path.is_empty() && !path.starts_with("..") && parts.into_iter().all(|part| matches!(part, Component::Normal(_)))
}

/// Makes `root` show exactly these files; does nothing when it does already.
pub fn write(root: &Path, files: &[File]) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let link = root.join("..data");
    let old = fs::read_link(&link).ok();
    if old.as_ref().is_some_and(|old| holds(&root.join(old), files)) {
        return Ok(());
    }
    let fresh = PathBuf::from(format!("..{}", uuid::Uuid::new_v4().simple()));
    for file in files {
        let path = root.join(&fresh).join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
    }
    fs::create_dir_all(root.join(&fresh))?;
    let next = root.join("..data_tmp");
    remove_if_there(&next)?;
    symlink(&fresh, &next)?;
    fs::rename(&next, &link)?;
    show(root, files)?;
    match old {
        Some(old) => fs::remove_dir_all(root.join(old)),
        None => Ok(()),
    }
}

/// Sets the visible links: one per first part of a path.
fn show(root: &Path, files: &[File]) -> io::Result<()> {
    let wanted: BTreeSet<&str> = files.iter().filter_map(|file| file.path.split('/').next()).collect();
    for name in &wanted {
        let path = root.join(name);
        if fs::symlink_metadata(&path).is_err() {
            symlink(Path::new("..data").join(name), &path)?;
        }
    }
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(&*name) {
            remove_if_there(&root.join(&*name))?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn holds(dir: &Path, files: &[File]) -> bool {
    let same = |file: &File| {
        let path = dir.join(&file.path);
        let mode = fs::metadata(&path).map(|meta| meta.permissions().mode() & 0o7777);
        mode.is_ok_and(|mode| mode == file.mode) && fs::read(&path).is_ok_and(|content| content == file.content)
    };
    files.iter().all(same) && count(dir).is_ok_and(|count| count == files.len())
}

fn count(dir: &Path) -> io::Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        files += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(files)
}
