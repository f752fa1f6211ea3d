//! What the agent offers: as the flag says, the rest as detected.

use std::{fs, path::Path};

use anyhow::Context;
use km_mesos_proto::{
    resources::{Resources, attributes},
    v1,
};
use nix::sys::statvfs::statvfs;

use super::Flags;

/// What Mesos assumes when it cannot find out, in MB.
const DEFAULT_MEMORY: u64 = 1024;
const DEFAULT_DISK: u64 = 10_240;
/// From a machine's memory and disk, Mesos leaves as much to others: half, but no more than this many MB.
const MEMORY_FOR_OTHERS: u64 = 1024;
const DISK_FOR_OTHERS: u64 = 5 * 1024;

pub(super) fn resources(flags: &Flags, work_dir: &Path) -> anyhow::Result<Vec<v1::Resource>> {
    let given = flags.resources.as_deref().unwrap_or_default();
    let (none, given) = without_zeros(given);
    let given = Resources::parse(&given, "*").context("--resources is malformed")?;
    let mut missing = Vec::new();
    for (name, value) in detected(work_dir) {
        if !given.names().contains(name) && !none.contains(&name) {
            missing.push(format!("{name}:{value}"));
        }
    }
    let missing = Resources::parse(&missing.join(";"), "*").context("cannot detect resources")?;
    Ok((given + missing).to_protos())
}

/// `mem:0` means that there is none and that none is to be detected: such names, and the text without them.
fn without_zeros(text: &str) -> (Vec<&str>, String) {
    if text.trim_start().starts_with(['[', '{']) {
        // JSON, where a zero is an error.
        return (Vec::new(), text.to_owned());
    }
    let (mut none, mut others) = (Vec::new(), Vec::new());
    for item in text.split(';') {
        match item.split_once(':') {
            Some((name, value)) if value.trim().parse() == Ok(0.0) => none.push(name.trim()),
            _ => others.push(item),
        }
    }
    (none, others.join(";"))
}

pub(super) fn attributes(flags: &Flags) -> anyhow::Result<Vec<v1::Attribute>> {
    attributes::parse(flags.attributes.as_deref().unwrap_or_default()).context("--attributes is malformed")
}

fn detected(work_dir: &Path) -> [(&'static str, String); 4] {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = memory_mb().map_or(DEFAULT_MEMORY, |total| leave(total, MEMORY_FOR_OTHERS));
    let disk = disk_mb(work_dir).map_or(DEFAULT_DISK, |total| leave(total, DISK_FOR_OTHERS));
    [
        ("cpus", cpus.to_string()),
        ("mem", memory.to_string()),
        ("disk", disk.to_string()),
        ("ports", "[31000-32000]".to_owned()),
    ]
}

fn leave(total: u64, for_others: u64) -> u64 {
    if total > 2 * for_others { total - for_others } else { total / 2 }
}

fn memory_mb() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

fn disk_mb(path: &Path) -> Option<u64> {
    let stat = statvfs(path).ok()?;
    Some(stat.blocks() * stat.fragment_size() / (1 << 20))
}

/// The machine's host name.
pub(super) fn hostname() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_say_that_there_is_none() {
        for (text, none, others) in [
            ("cpus:2;mem:0;disk:0.0", vec!["mem", "disk"], "cpus:2"),
            ("cpus:2;ports:[0-0]", vec![], "cpus:2;ports:[0-0]"),
            ("", vec![], ""),
            (r#"[{"name":"mem"}]"#, vec![], r#"[{"name":"mem"}]"#),
        ] {
            assert_eq!(without_zeros(text), (none, others.to_owned()), "{text}");
        }
    }
}
