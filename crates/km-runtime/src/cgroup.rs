//! Control groups, by path below each mounted hierarchy: version 1 with one hierarchy per controller, version 2, or
//! both side by side. libcontainer creates the groups of containers; counting, killing and removing is done here.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::files::{absent_is_fine, remove_if_empty};

/// Where control groups are mounted by convention.
const ROOT: &str = "/sys/fs/cgroup";

/// How long the kernel may take to let go of a group whose processes were killed.
const REMOVAL_DEADLINE: Duration = Duration::from_secs(5);

/// Mount points of all hierarchies.
///
/// # Errors
/// `/proc/self/mountinfo` cannot be read.
pub fn hierarchies() -> io::Result<Vec<PathBuf>> {
    Ok(parse_hierarchies(&fs::read_to_string("/proc/self/mountinfo")?))
}

fn parse_hierarchies(mountinfo: &str) -> Vec<PathBuf> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (fixed, source) = line.split_once(" - ")?;
            let kind = source.split(' ').next()?;
            matches!(kind, "cgroup" | "cgroup2").then(|| fixed.split(' ').nth(4).map(PathBuf::from))?
        })
        .collect()
}

/// Folders of `group` (a path from the root of the hierarchies) that exist.
pub(crate) fn folders(group: &str) -> io::Result<Vec<PathBuf>> {
    let relative = group.trim_start_matches('/');
    Ok(hierarchies()?.into_iter().map(|root| root.join(relative)).filter(|folder| folder.is_dir()).collect())
}

/// How many processes of the group the kernel killed because the group's memory was used up.
pub fn oom_kills(group: &str) -> io::Result<u64> {
    let mut kills = 0;
    for folder in folders(group)? {
        for file in ["memory.events", "memory.oom_control"] {
            if let Ok(text) = fs::read_to_string(folder.join(file)) {
                kills = kills.max(parse_oom_kills(&text));
            }
        }
    }
    Ok(kills)
}

fn parse_oom_kills(text: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
}

/// Kills all processes of the group and of the groups in it, and removes them. Succeeds when nothing is left.
///
/// # Errors
/// A group still has processes after 5 s.
pub fn remove(group: &str) -> io::Result<()> {
    let deadline = Instant::now() + REMOVAL_DEADLINE;
    for folder in folders(group)? {
        remove_folder(&folder, deadline)?;
    }
    Ok(())
}

/// Removes a group that others may share, when no process and no group is in it.
pub fn remove_if_unused(group: &str) -> io::Result<()> {
    folders(group)?.iter().try_for_each(|folder| remove_if_empty(folder))
}

fn remove_folder(folder: &Path, deadline: Instant) -> io::Result<()> {
    let children = match fs::read_dir(folder) {
        Ok(children) => children,
        Err(error) => return absent_is_fine(error),
    };
    for child in children {
        let child = child?;
        if child.file_type()?.is_dir() {
            remove_folder(&child.path(), deadline)?;
        }
    }
    loop {
        kill_processes(folder)?;
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                // Killed processes leave their group only when they are done; there is no event for that which all
                // versions of control groups have.
                std::thread::sleep(Duration::from_millis(5));
            }
            result => {
                return result.or_else(absent_is_fine).map_err(|error| {
                    io::Error::new(error.kind(), format!("removing the control group {}: {error}", folder.display()))
                });
            }
        }
    }
}

fn kill_processes(folder: &Path) -> io::Result<()> {
    let processes = match fs::read_to_string(folder.join("cgroup.procs")) {
        Ok(processes) => processes,
        Err(error) => return absent_is_fine(error),
    };
    for pid in processes.lines().filter_map(|line| line.trim().parse().ok()).filter_map(rustix::process::Pid::from_raw)
    {
        match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether groups can be made here: tries it in every hierarchy that has a controller we set limits with.
pub fn check_writable() -> Result<(), String> {
    let roots = hierarchies().map_err(|error| error.to_string())?;
    if roots.is_empty() {
        return Err("no control group hierarchy is mounted".to_owned());
    }
    for root in roots {
        let probe = root.join(format!("km-check-{}", std::process::id()));
        fs::create_dir(&probe)
            .and_then(|()| fs::remove_dir(&probe))
            .map_err(|error| format!("no group can be made in {}: {error}", root.display()))?;
    }
    check_controllers()
}

/// Where version 2 is alone, limits need its controllers: one that a hierarchy of version 1 has, or that the outer
/// container does not pass on, is missing there.
fn check_controllers() -> Result<(), String> {
    let table = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    if !is_unified(&table) {
        return Ok(());
    }
    let file = Path::new(ROOT).join("cgroup.controllers");
    let controllers = fs::read_to_string(&file).map_err(|error| format!("reading {}: {error}", file.display()))?;
    match missing_controllers(&controllers).as_slice() {
        [] => Ok(()),
        missing => Err(format!("control groups of version 2 without {}, see {}", missing.join(", "), file.display())),
    }
}

/// Whether version 2 is mounted where all look first; the last mount on a folder counts.
fn is_unified(mountinfo: &str) -> bool {
    let mut kinds = mountinfo.lines().rev().filter_map(|line| {
        let (fixed, source) = line.split_once(" - ")?;
        (fixed.split(' ').nth(4) == Some(ROOT)).then(|| source.split(' ').next())?
    });
    kinds.next() == Some("cgroup2")
}

fn missing_controllers(controllers: &str) -> Vec<&'static str> {
    ["cpu", "memory"].into_iter().filter(|needed| !controllers.split_whitespace().any(|one| one == *needed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found_in_the_mount_table() {
        let table = "25 1 0:22 / /sys rw - sysfs sysfs rw\n\
            26 25 0:23 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n\
            27 26 0:24 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw\n\
            28 26 0:25 / /sys/fs/cgroup/memory rw shared:5 master:1 - cgroup cgroup rw,memory\n";
        let expected = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"].map(PathBuf::from);
        assert_eq!(parse_hierarchies(table), expected);
    }

    #[test]
    fn version_2_alone_needs_its_controllers() {
        let unified = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let hybrid = "26 25 0:23 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n27 26 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        for (table, wanted) in [(unified, true), (hybrid, false), (&*format!("{hybrid}{unified}"), true), ("", false)] {
            assert_eq!(is_unified(table), wanted, "{table}");
        }
        for (controllers, missing) in [
            ("cpuset cpu io memory hugetlb pids\n", vec![]),
            ("hugetlb\n", vec!["cpu", "memory"]),
            ("cpuset memory\n", vec!["cpu"]),
        ] {
            assert_eq!(missing_controllers(controllers), missing);
        }
    }

    #[test]
    fn kills_are_counted_in_the_files_of_both_versions() {
        assert_eq!(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
        assert_eq!(parse_oom_kills("low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n"), 1);
        assert_eq!(parse_oom_kills(""), 0);
    }
}
