//! What a stopped cluster may not leave behind.

use std::{fs, path::Path, process::Command};

/// Everything of the cluster on `data_dir` that is still on this machine: processes, mounts, network, cgroups, rules.
/// Empty when it left nothing.
pub fn leftovers(data_dir: &Path) -> Vec<String> {
    let place = data_dir.display().to_string();
    let mut found = Vec::new();
    found.extend(processes(&place));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    found.extend(mounts.lines().filter(|line| line.contains(&place)).map(|line| format!("mount: {line}")));
    let links = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let links = links.map(|entry| entry.file_name().to_string_lossy().into_owned());
    found.extend(
        links
            .filter(|name| name.starts_with("km-") || name.starts_with("kmv"))
            .map(|name| format!("network link: {name}")),
    );
    let rules = Command::new("nft").args(["list", "tables"]).output();
    let rules = rules.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    found.extend(
        rules
            .lines()
            .filter(|line| line.contains(" km-") || line.contains(" km_"))
            .map(|line| format!("nftables: {line}")),
    );
    found.extend(cgroups());
    found.extend(Path::new("/run/km").exists().then(|| "folder: /run/km".to_owned()));
    found
}

fn processes(place: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    ids.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()) && *id != own)
        .filter_map(|id| {
            let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(place).then(|| format!("process {id}: {line}"))
        })
        .collect()
}

fn cgroups() -> Vec<String> {
    let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let roots = hierarchies.map(|entry| entry.path()).chain([Path::new("/sys/fs/cgroup").to_owned()]);
    let shared: Vec<_> = roots.map(|root| root.join("km")).filter(|group| group.is_dir()).collect();
    let within = shared.iter().flat_map(|group| fs::read_dir(group).into_iter().flatten().flatten());
    let agents = within.map(|entry| entry.path()).filter(|path| path.is_dir());
    agents.chain(shared.clone()).map(|path| format!("cgroup: {}", path.display())).collect()
}
