//! Unpacks one layer's tar into a folder that overlayfs takes as a lower folder: whiteouts of the image format
//! (`.wh.NAME`, `.wh..wh..opq`, see the OCI image specification, "Representing Changes") become those of overlayfs.

use std::{
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use flate2::bufread::MultiGzDecoder;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use sha2::{Digest, Sha256};
use tar::{Archive, EntryType};

const WHITEOUT_PREFIX: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[derive(Debug)]
pub struct Unpacked {
    /// `sha256:…` of the uncompressed tar.
    pub diff_id: String,
    /// Bytes of the files in it.
    pub size: u64,
}

/// What one entry of a layer asks for.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    /// Put the entry there.
    Unpack,
    /// Hide the path of the layers below.
    Hide(PathBuf),
    /// Hide all that the layers below have in the folder.
    HideContent(PathBuf),
}

fn action(path: &Path) -> Action {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let parent = path.parent().unwrap_or(Path::new(""));
    if name == OPAQUE {
        return Action::HideContent(parent.to_owned());
    }
    match name.strip_prefix(WHITEOUT_PREFIX) {
        Some(hidden) if !hidden.is_empty() => Action::Hide(parent.join(OsStr::from_bytes(hidden))),
        _ => Action::Unpack,
    }
}

/// Unpacks a plain or gzip-compressed tar. The folder must not exist.
pub fn unpack(input: impl Read, folder: &Path) -> io::Result<Unpacked> {
    unpack_any(input, folder).map_err(with_causes)
}

/// The tar reader tells which file failed and keeps the reason, such as a full disk, behind that.
fn with_causes(error: io::Error) -> io::Error {
    let mut text = error.to_string();
    let mut cause = error.get_ref().and_then(|inner| inner.source());
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    io::Error::new(error.kind(), text)
}

fn unpack_any(input: impl Read, folder: &Path) -> io::Result<Unpacked> {
    fs::create_dir(folder)?;
    let mut input = BufReader::with_capacity(64 * 1024, input);
    let start = peek(&mut input)?;
    if start.starts_with(&ZSTD) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the layer is compressed with zstd, which is not supported: build or push the image with gzip",
        ));
    }
    if start.starts_with(&GZIP) {
        unpack_plain(MultiGzDecoder::new(input), folder)
    } else {
        unpack_plain(input, folder)
    }
}

fn peek(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    Ok(input.fill_buf()?.iter().take(4).copied().collect())
}

fn unpack_plain(input: impl Read, folder: &Path) -> io::Result<Unpacked> {
    let mut input = Hashing { inner: input, hash: Sha256::new() };
    let mut archive = Archive::new(&mut input);
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_unpack_xattrs(true);
    archive.set_overwrite(true);
    let mut size = 0;
    // The times of folders change when something is put into them, so they come last.
    let mut folders = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        match action(&path) {
            Action::Hide(hidden) => hide(folder, &hidden)?,
            Action::HideContent(hidden) => hide_content(folder, &hidden)?,
            Action::Unpack if entry.header().entry_type() == EntryType::Directory => folders.push(entry),
            Action::Unpack if is_node(entry.header().entry_type()) => make_node(folder, &path, entry.header())?,
            Action::Unpack => {
                size += entry.size();
                if !entry.unpack_in(folder)? {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("the layer holds {}, a path that leads out of it", path.display()),
                    ));
                }
            }
        }
    }
    // Outer folders last: an inner one that is made would change the times of the outer.
    folders.sort_by(|a, b| b.path_bytes().cmp(&a.path_bytes()));
    for mut entry in folders {
        entry.unpack_in(folder)?;
        let time = i64::try_from(entry.header().mtime()?).unwrap_or(0);
        set_time(&place(folder, &entry.path()?)?, time)?;
    }
    // What follows the end mark belongs to the digest too.
    io::copy(&mut input, &mut io::sink())?;
    Ok(Unpacked { diff_id: format!("sha256:{:x}", input.hash.finalize()), size })
}

/// The tar reader sets the times of files only.
fn set_time(path: &Path, seconds: i64) -> io::Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn is_node(kind: EntryType) -> bool {
    matches!(kind, EntryType::Char | EntryType::Block | EntryType::Fifo)
}

/// The place of an entry in the folder, with its parents made. Symbolic links in it are not followed out: a parent
/// that is one is refused.
fn place(folder: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut place = folder.to_owned();
    let parts: Vec<&OsStr> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(Ok(name)),
            Component::ParentDir => {
                Some(Err(io::Error::new(io::ErrorKind::InvalidData, "a path of the layer leads out of it")))
            }
            _ => None,
        })
        .collect::<io::Result<_>>()?;
    for (index, part) in parts.iter().enumerate() {
        place.push(part);
        if index + 1 == parts.len() {
            break;
        }
        match fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{} is not a folder, but the layer puts {} in it", place.display(), path.display()),
                ));
            }
            Err(_absent) => fs::create_dir(&place)?,
        }
    }
    Ok(place)
}

fn hide(folder: &Path, hidden: &Path) -> io::Result<()> {
    let place = place(folder, hidden)?;
    if fs::symlink_metadata(&place).is_ok() {
        // The same layer has the path as well: its own content wins.
        return Ok(());
    }
    Ok(rustix::fs::mknodat(CWD, &place, FileType::CharacterDevice, Mode::empty(), 0)?)
}

fn hide_content(folder: &Path, hidden: &Path) -> io::Result<()> {
    let place = place(folder, hidden)?;
    if !place.is_dir() {
        fs::create_dir(&place)?;
    }
    Ok(rustix::fs::setxattr(&place, "trusted.overlay.opaque", b"y", XattrFlags::empty())?)
}

fn make_node(folder: &Path, path: &Path, header: &tar::Header) -> io::Result<()> {
    let place = place(folder, path)?;
    let kind = match header.entry_type() {
        EntryType::Char => FileType::CharacterDevice,
        EntryType::Block => FileType::BlockDevice,
        _ => FileType::Fifo,
    };
    let (major, minor) = (header.device_major()?.unwrap_or(0), header.device_minor()?.unwrap_or(0));
    let mode = Mode::from_raw_mode(header.mode()? & 0o7777);
    crate::files::remove_tree(&place)?;
    rustix::fs::mknodat(CWD, &place, kind, mode, rustix::fs::makedev(major, minor))?;
    rustix::fs::chmod(&place, mode)?;
    let owner = (u32::try_from(header.uid()?).unwrap_or(0), u32::try_from(header.gid()?).unwrap_or(0));
    std::os::unix::fs::lchown(&place, Some(owner.0), Some(owner.1))
}

struct Hashing<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.hash.update(&buffer[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn tar_of(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(if *kind == EntryType::Directory { 0o750 } else { 0o640 });
            header.set_mtime(1000);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(if *kind == EntryType::Regular { content.len() as u64 } else { 0 });
            if *kind == EntryType::Symlink {
                header.set_link_name(content).unwrap();
            }
            // Written as raw bytes: the builder refuses the bad paths that are tested.
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            let body = if *kind == EntryType::Regular { content.as_bytes() } else { b"" };
            builder.append(&header, body).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn unpacked(tar: &[u8]) -> (tempfile::TempDir, io::Result<Unpacked>) {
        let folder = tempfile::tempdir().unwrap();
        let result = unpack(tar, &folder.path().join("d"));
        (folder, result)
    }

    #[test]
    fn names_of_whiteouts_are_read() {
        for (path, expected) in [
            ("a/b", Action::Unpack),
            ("a/.wh.b", Action::Hide("a/b".into())),
            (".wh.b", Action::Hide("b".into())),
            ("a/.wh..wh..opq", Action::HideContent("a".into())),
            ("a/.wh.", Action::Unpack),
        ] {
            assert_eq!(action(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn whiteouts_become_those_of_overlayfs() {
        let tar = tar_of(&[
            ("gone/", EntryType::Directory, ""),
            ("gone/.wh.file", EntryType::Regular, ""),
            ("clean/.wh..wh..opq", EntryType::Regular, ""),
        ]);
        let (folder, result) = unpacked(&tar);
        result.unwrap();
        let node = fs::symlink_metadata(folder.path().join("d/gone/file")).unwrap();
        assert!(node.file_type().is_char_device() && node.rdev() == 0);
        let mut value = [0; 4];
        let length =
            rustix::fs::getxattr(folder.path().join("d/clean"), "trusted.overlay.opaque", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"y");
    }

    #[test]
    fn gzip_and_plain_give_the_same_digest_and_files() {
        let tar = tar_of(&[("dir/", EntryType::Directory, ""), ("dir/file", EntryType::Regular, "hello")]);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        io::copy(&mut &tar[..], &mut gzip).unwrap();
        let expected = format!("sha256:{:x}", Sha256::digest(&tar));
        for input in [tar, gzip.finish().unwrap()] {
            let (folder, result) = unpacked(&input);
            let result = result.unwrap();
            assert_eq!((result.diff_id.as_str(), result.size), (expected.as_str(), 5));
            assert_eq!(fs::read_to_string(folder.path().join("d/dir/file")).unwrap(), "hello");
            let dir = fs::metadata(folder.path().join("d/dir")).unwrap();
            assert_eq!((dir.permissions().mode() & 0o7777, dir.mtime()), (0o750, 1000));
        }
    }

    #[test]
    fn what_cannot_be_unpacked_says_why() {
        let (_folder, zstd) = unpacked(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0]);
        assert!(zstd.unwrap_err().to_string().contains("zstd"));
        for (tar, reason) in [
            (tar_of(&[("../evil", EntryType::Regular, "x")]), "leads out"),
            (tar_of(&[("../.wh.evil", EntryType::Regular, "")]), "leads out"),
            (tar_of(&[("link", EntryType::Symlink, "/tmp"), ("link/.wh.x", EntryType::Regular, "")]), "not a folder"),
        ] {
            let (_folder, result) = unpacked(&tar);
            let error = result.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
