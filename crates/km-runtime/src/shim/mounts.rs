//! The shim's private mount namespace, with the container's root in it.

use std::{fs, io, path::Path};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};

use crate::bundle::{Bundle, ContainerRecord};

/// Leaves the host's mount namespace. Mounts made here are seen by the container only; unmounts on the host still
/// reach us where the host shares them.
pub fn isolate() -> io::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Lets go of copies of mounts that would keep alive what the host gives up: network namespaces of other pods.
pub fn release_namespaces() -> io::Result<()> {
    for point in mount_points(|kind| kind == "nsfs")? {
        detach(&point)?;
    }
    Ok(())
}

/// Lets go of everything that is not needed to watch the container, once it runs.
pub fn release_rest(bundle: &Bundle, log: &Path) -> io::Result<()> {
    let keep = |point: &str| bundle.0.starts_with(point) || log.starts_with(point);
    let releasable = |kind: &str| matches!(kind, "tmpfs" | "overlay" | "nsfs");
    for point in mount_points(releasable)? {
        if !keep(&point) && !["/proc", "/sys", "/dev"].iter().any(|root| Path::new(&point).starts_with(root)) {
            detach(&point)?;
        }
    }
    Ok(())
}

/// Innermost first.
fn mount_points(wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mut points: Vec<String> = table
        .lines()
        .filter_map(|line| {
            let (fixed, source) = line.split_once(" - ")?;
            wanted(source.split(' ').next()?).then(|| fixed.split(' ').nth(4).map(unescape))?
        })
        .collect();
    points.reverse();
    Ok(points)
}

/// The mount table writes blanks and the like as octal numbers.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn detach(point: &str) -> io::Result<()> {
    match unmount(point, UnmountFlags::DETACH) {
        // Not a mount point any more: it was inside one that is gone.
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Mounts the image's layers with the container's writable layer over them at `rootfs`.
pub fn mount_root(bundle: &Bundle, record: &ContainerRecord) -> io::Result<()> {
    let (upper, work, root) = (bundle.path("upper"), bundle.path("work"), bundle.path("rootfs"));
    // The root folder of an overlay has the permissions of its upper layer: others than root must be able to enter.
    for folder in [&upper, &work, &root] {
        fs::create_dir_all(folder)?;
        rustix::fs::chmod(folder, rustix::fs::Mode::from_raw_mode(0o755))?;
    }
    for folder in [&upper, &work] {
        if folder.to_str().is_none_or(|text| text.contains([':', ',', '\\'])) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the state folder {} must not contain ':', ',' or '\\'", folder.display()),
            ));
        }
    }
    // Mount options are limited to one page: layers are named relative to their folder.
    let before = std::env::current_dir()?;
    std::env::set_current_dir(&record.layer_root)?;
    let options =
        format!("lowerdir={},upperdir={},workdir={}", record.layers.join(":"), upper.display(), work.display());
    let options = std::ffi::CString::new(options)?;
    let mounted = mount("overlay", &root, "overlay", MountFlags::empty(), Some(options.as_c_str()));
    std::env::set_current_dir(before)?;
    mounted.map_err(|error| io::Error::new(io::Error::from(error).kind(), format!("overlayfs: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_the_mount_table_are_read() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
    }
}
