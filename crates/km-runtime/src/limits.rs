//! Changes the limits of a control group whose processes run. What a new group gets is libcontainer's matter; the
//! files written here are the same, so that a changed container is as one that was started so.

use std::{fs, io, path::Path};

use crate::{ContainerResources, cgroup};

/// Microseconds in which a CPU limit is counted.
const PERIOD: u64 = 100_000;
/// The kernel refuses quotas under 1 ms.
const MIN_QUOTA: u64 = 1000;

/// Sets all limits of a group, in each hierarchy that has them. CPU first, since memory may be refused.
///
/// # Errors
/// More memory is in use than would be allowed, or the kernel refuses a value.
pub fn set(group: &str, resources: &ContainerResources) -> io::Result<()> {
    let folders = cgroup::folders(group)?;
    for folder in &folders {
        for (file, value) in cpu_files(resources) {
            write_if_there(&folder.join(file), &value)?;
        }
    }
    folders.iter().try_for_each(|folder| set_memory(folder, resources.memory_limit_bytes))
}

/// Files of both versions and what belongs into them.
fn cpu_files(resources: &ContainerResources) -> [(&'static str, String); 5] {
    let shares = resources.cpu_shares.max(2);
    let quota =
        (resources.cpu_limit_milli > 0).then(|| resources.cpu_limit_milli.saturating_mul(PERIOD / 1000).max(MIN_QUOTA));
    let text = |none: &str| quota.map_or_else(|| none.to_owned(), |quota| quota.to_string());
    [
        ("cpu.shares", shares.to_string()),
        ("cpu.weight", weight(shares).to_string()),
        ("cpu.cfs_period_us", PERIOD.to_string()),
        ("cpu.cfs_quota_us", text("-1")),
        ("cpu.max", format!("{} {PERIOD}", text("max"))),
    ]
}

/// Shares of version 1 as the weight of version 2, by the same curve as libcontainer and runc 1.3.2 have. It is a power
/// of ten, hence the floats.
fn weight(shares: u64) -> u64 {
    match shares {
        0..=2 => 1,
        262_144.. => 10_000,
        _ => {
            let log = (shares as f64).log2();
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            (10f64.powf(exponent).ceil() as u64).clamp(1, 10_000)
        }
    }
}

/// A limit below what is in use would make the kernel kill instead of refuse.
fn set_memory(folder: &Path, limit: u64) -> io::Result<()> {
    for (limit_file, usage_file, none) in
        [("memory.limit_in_bytes", "memory.usage_in_bytes", "-1"), ("memory.max", "memory.current", "max")]
    {
        let file = folder.join(limit_file);
        if !file.exists() {
            continue;
        }
        if limit == 0 {
            return write_if_there(&file, none);
        }
        let used: u64 = fs::read_to_string(folder.join(usage_file))?.trim().parse().map_err(io::Error::other)?;
        if used > limit {
            let message = format!("a memory limit of {limit} bytes is below the {used} bytes in use");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
        }
        return write_if_there(&file, &limit.to_string());
    }
    Ok(())
}

fn write_if_there(file: &Path, value: &str) -> io::Result<()> {
    if !file.exists() {
        return Ok(());
    }
    fs::write(file, value)
        .map_err(|error| io::Error::new(error.kind(), format!("writing {value} to {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_their_form_in_each_version() {
        let texts = |resources| cpu_files(&resources).map(|(_, value)| value);
        let limited = ContainerResources { cpu_shares: 512, cpu_limit_milli: 250, memory_limit_bytes: 0 };
        assert_eq!(texts(limited), ["512", "59", "100000", "25000", "25000 100000"]);
        let open = ContainerResources::default();
        assert_eq!(texts(open), ["2", "1", "100000", "-1", "max 100000"]);
        let least = ContainerResources { cpu_limit_milli: 1, ..limited };
        assert_eq!(cpu_files(&least)[3].1, "1000");
        assert_eq!([2, 1024, 262_144].map(weight), [1, 100, 10_000]);
    }

    #[test]
    fn memory_follows_the_version_and_never_goes_below_what_is_used() {
        for (limit, usage, none) in
            [("memory.limit_in_bytes", "memory.usage_in_bytes", "-1"), ("memory.max", "memory.current", "max")]
        {
            let folder = tempfile::tempdir().unwrap();
            let read = || fs::read_to_string(folder.path().join(limit)).unwrap();
            fs::write(folder.path().join(limit), "").unwrap();
            fs::write(folder.path().join(usage), "1000\n").unwrap();
            set_memory(folder.path(), 1000).unwrap();
            assert_eq!(read(), "1000");
            assert!(set_memory(folder.path(), 999).unwrap_err().to_string().contains("1000 bytes in use"));
            assert_eq!(read(), "1000");
            set_memory(folder.path(), 0).unwrap();
            assert_eq!(read(), none);
        }
    }
}
