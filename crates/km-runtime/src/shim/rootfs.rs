//! Reads and makes paths inside a container's root from outside, never following a link out of it.

use std::{fs, io, os::fd::OwnedFd, path::Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

/// Larger files are no user databases.
const MAX_TEXT: u64 = 1 << 20;

fn open_root(root: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A text file of the image; empty when it is not there.
pub fn read_text(root: &Path, path: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match openat2(open_root(root)?, path.trim_start_matches('/'), flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        Ok(file) => {
            let mut text = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(fs::File::from(file), MAX_TEXT), &mut text)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
}

/// Makes a folder and its parents where they are missing, as Docker does for a working directory.
pub fn make_folder(root: &Path, path: &Path) -> io::Result<()> {
    let mut folder = open_root(root)?;
    let top = folder.try_clone()?;
    let mut walked = std::path::PathBuf::from("/");
    for part in path.components() {
        let std::path::Component::Normal(name) = part else { continue };
        walked.push(name);
        let inside = walked.strip_prefix("/").unwrap_or(&walked);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        folder = match openat2(&top, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Ok(next) => next,
            Err(rustix::io::Errno::NOENT) => {
                rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
                openat2(&top, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT)?
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_inside_the_root() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/real"), "inside").unwrap();
        std::os::unix::fs::symlink("/etc/real", root.path().join("etc/passwd")).unwrap();
        assert_eq!(read_text(root.path(), "/etc/passwd").unwrap(), "inside");
        assert_eq!(read_text(root.path(), "/etc/none").unwrap(), "");
    }

    #[test]
    fn folders_are_made_and_existing_ones_kept() {
        let root = tempfile::tempdir().unwrap();
        make_folder(root.path(), Path::new("/a/b")).unwrap();
        make_folder(root.path(), Path::new("/a/b/c")).unwrap();
        make_folder(root.path(), Path::new("/")).unwrap();
        assert!(root.path().join("a/b/c").is_dir());
        fs::write(root.path().join("file"), "").unwrap();
        assert!(make_folder(root.path(), Path::new("/file/x")).is_err());
    }
}
