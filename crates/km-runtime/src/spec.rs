//! The OCI runtime configuration of a container: what the pod asks for over what its image says. No IO.
//! Rules: the OCI runtime specification 1.0, and Kubernetes' table of command and args over entrypoint and cmd.

#[cfg(test)]
pub mod tests;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{ContainerSpec, bundle::ContainerRecord, user::Identity};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What Docker and containerd give a container that asks for nothing.
const DEFAULT_CAPABILITIES: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// All capabilities by number.
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// What the machine gives: read by the shim, not decided here.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Bits of the capability bounding set of the shim; a container never gets more.
    pub capability_bounds: u64,
    /// Device nodes of the host, for privileged containers.
    pub devices: Vec<Device>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub path: PathBuf,
    /// `c` or `b`.
    pub kind: char,
    pub major: u32,
    pub minor: u32,
    pub mode: u32,
}

/// The command line.
///
/// # Errors
/// Neither the pod nor the image names one.
pub fn arguments(record: &ContainerRecord) -> Result<Vec<String>, String> {
    let (spec, image) = (&record.spec, &record.image_config);
    let entrypoint = if spec.command.is_empty() { &image.entrypoint } else { &spec.command };
    let cmd = if spec.command.is_empty() && spec.args.is_empty() { &image.cmd } else { &spec.args };
    let line: Vec<String> = entrypoint.iter().chain(cmd).cloned().collect();
    if line.is_empty() {
        return Err(format!("no command specified: neither the pod nor the image {:?} names one", spec.image));
    }
    Ok(line)
}

/// The folder in which the first process starts.
pub fn working_dir(record: &ContainerRecord) -> PathBuf {
    let chosen = record.spec.working_dir.as_deref().filter(|dir| !dir.is_empty());
    Path::new("/").join(chosen.unwrap_or(&record.image_config.working_dir))
}

/// The image's variables, then the pod's; later ones win, each name stands once.
fn environment(record: &ContainerRecord, identity: &Identity) -> Vec<String> {
    let mut variables: Vec<(String, String)> = vec![("PATH".to_owned(), DEFAULT_PATH.to_owned())];
    if let Some(hostname) = &record.hostname {
        variables.push(("HOSTNAME".to_owned(), hostname.clone()));
    }
    variables.push(("HOME".to_owned(), identity.home.clone()));
    let image = record.image_config.env.iter().filter_map(|line| line.split_once('='));
    let image = image.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for (name, value) in image.chain(record.spec.env.iter().cloned()) {
        match variables.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => variables.push((name, value)),
        }
    }
    variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn capabilities(spec: &ContainerSpec, bounds: u64) -> Vec<String> {
    let plain = |name: &String| name.to_ascii_uppercase().trim_start_matches("CAP_").to_owned();
    let add: BTreeSet<String> = spec.add_capabilities.iter().map(plain).collect();
    let drop: BTreeSet<String> = spec.drop_capabilities.iter().map(plain).collect();
    let all = |set: &BTreeSet<String>| set.contains("ALL");
    CAPABILITIES
        .iter()
        .enumerate()
        .filter(|(number, name)| {
            let by_default = spec.privileged || (DEFAULT_CAPABILITIES.contains(name) && !all(&drop));
            let wanted = (by_default && !drop.contains(**name)) || all(&add) || add.contains(**name);
            let wanted = wanted && !(all(&add) && drop.contains(**name));
            wanted && bounds & (1 << number) != 0
        })
        .map(|(_, name)| format!("CAP_{name}"))
        .collect()
}

/// The whole configuration, as libcontainer reads it from `config.json`.
///
/// # Errors
/// See [`arguments`].
pub fn build(record: &ContainerRecord, identity: &Identity, machine: &Machine) -> Result<Value, String> {
    let spec = &record.spec;
    let capabilities = capabilities(spec, machine.capability_bounds);
    let mut value = json!({
        "ociVersion": "1.0.2",
        "root": { "path": "rootfs", "readonly": spec.read_only_root },
        "mounts": mounts(record),
        "process": {
            "terminal": false,
            "user": {
                "uid": identity.uid,
                "gid": identity.gid,
                "additionalGids": additional_gids(spec, identity),
            },
            "args": arguments(record)?,
            "env": environment(record, identity),
            "cwd": working_dir(record),
            "noNewPrivileges": spec.no_new_privileges && !spec.privileged,
            "capabilities": {
                "bounding": capabilities,
                // Only root keeps capabilities over an exec, unless the program's file grants them.
                "permitted": capabilities,
                "effective": capabilities,
            },
        },
        "linux": {
            "namespaces": [
                { "type": "pid" }, { "type": "ipc" }, { "type": "uts" }, { "type": "mount" }, { "type": "cgroup" },
            ],
            "cgroupsPath": record.cgroup,
            "resources": resources(spec),
        },
    });
    if let Some(hostname) = &record.hostname {
        value["hostname"] = json!(hostname);
    }
    let linux = &mut value["linux"];
    if spec.privileged {
        linux["devices"] = machine.devices.iter().map(device).collect();
    } else {
        linux["maskedPaths"] = json!([
            "/proc/acpi",
            "/proc/asound",
            "/proc/kcore",
            "/proc/keys",
            "/proc/latency_stats",
            "/proc/timer_list",
            "/proc/timer_stats",
            "/proc/sched_debug",
            "/proc/scsi",
            "/sys/firmware",
        ]);
        linux["readonlyPaths"] = json!(["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]);
    }
    Ok(value)
}

fn additional_gids(spec: &ContainerSpec, identity: &Identity) -> Vec<u32> {
    let gids: BTreeSet<u32> = identity.additional_gids.iter().chain(&spec.supplemental_groups).copied().collect();
    gids.into_iter().collect()
}

fn device(device: &Device) -> Value {
    json!({
        "path": device.path, "type": device.kind.to_string(), "major": device.major, "minor": device.minor,
        "fileMode": device.mode, "uid": 0, "gid": 0,
    })
}

fn resources(spec: &ContainerSpec) -> Value {
    let mut cpu = json!({ "shares": spec.cpu_shares.max(2) });
    if spec.cpu_limit_milli > 0 {
        // The kernel refuses quotas under 1 ms.
        cpu["period"] = json!(100_000);
        cpu["quota"] = json!((spec.cpu_limit_milli.saturating_mul(100)).max(1000));
    }
    let mut resources = json!({
        "devices": [{ "allow": spec.privileged, "access": "rwm" }],
        "cpu": cpu,
    });
    if spec.memory_limit_bytes > 0 {
        resources["memory"] = json!({ "limit": spec.memory_limit_bytes });
    }
    resources
}

fn mounts(record: &ContainerRecord) -> Vec<Value> {
    let spec = &record.spec;
    let mount = |destination: &str, kind: &str, options: &[&str]| json!({ "destination": destination, "type": kind, "source": kind, "options": options });
    let sys_mode = if spec.privileged { "rw" } else { "ro" };
    let mut mounts = vec![
        mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
        mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
        mount("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", sys_mode]),
    ];
    for (file, destination) in
        [("hosts", "/etc/hosts"), ("hostname", "/etc/hostname"), ("resolv.conf", "/etc/resolv.conf")]
    {
        if !spec.mounts.iter().any(|mount| mount.container_path == Path::new(destination)) {
            mounts.push(bind(&record.sandbox_files.join(file), Path::new(destination), false));
        }
    }
    // A mount must not hide one inside it.
    let mut own: Vec<_> = spec.mounts.iter().collect();
    own.sort_by_key(|mount| mount.container_path.components().count());
    mounts.extend(own.into_iter().map(|mount| bind(&mount.host_path, &mount.container_path, mount.read_only)));
    mounts
}

fn bind(source: &Path, destination: &Path, read_only: bool) -> Value {
    let mode = if read_only { "ro" } else { "rw" };
    json!({ "destination": destination, "type": "bind", "source": source, "options": ["rbind", "rprivate", mode] })
}
