//! Limits reach the control groups, and their breach is told.

use std::path::PathBuf;

use km_runtime::{ContainerResources, ContainerState, Runtime, RuntimeError};

use crate::support::{Host, exited, run, sandbox, shell};

/// The value of the first of these files that exists below any hierarchy, for the group that ends so.
fn group_file(suffix: &str, names: &[&str]) -> String {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let roots = table.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4));
    for root in roots {
        for agent in std::fs::read_dir(PathBuf::from(root).join("km")).into_iter().flatten() {
            for name in names {
                if let Ok(value) = std::fs::read_to_string(agent.as_ref().unwrap().path().join(suffix).join(name)) {
                    return value.trim().to_owned();
                }
            }
        }
    }
    panic!("no file {names:?} of a group {suffix}");
}

#[tokio::test]
async fn limits_are_set_and_the_groups_vanish() {
    let host = Host::new();
    let runtime = host.open().await;
    runtime.run_sandbox(&sandbox("p-limits")).await.unwrap();
    let mut spec = shell("c-limits", "p-limits", "sleep 600");
    spec.memory_limit_bytes = 32 << 20;
    spec.cpu_limit_milli = 250;
    spec.cpu_shares = 512;
    runtime.start_container(&spec).await.unwrap();
    let group = "p-limits/c-limits";
    assert_eq!(group_file(group, &["memory.limit_in_bytes", "memory.max"]), (32 << 20).to_string());
    let quota = group_file(group, &["cpu.cfs_quota_us", "cpu.max"]);
    assert!(quota == "25000" || quota == "25000 100000", "{quota}");
    let shares = group_file(group, &["cpu.shares", "cpu.weight"]);
    assert!(shares == "512" || shares.parse::<u64>().unwrap() < 100, "{shares}");
    // In place, while it runs; what the machine cannot give changes nothing of memory.
    let more = ContainerResources { cpu_shares: 1024, cpu_limit_milli: 500, memory_limit_bytes: 48 << 20 };
    runtime.update_container("c-limits", more).await.unwrap();
    assert_eq!(group_file(group, &["memory.limit_in_bytes", "memory.max"]), (48 << 20).to_string());
    let quota = group_file(group, &["cpu.cfs_quota_us", "cpu.max"]);
    assert!(quota == "50000" || quota == "50000 100000", "{quota}");
    assert!(["1024", "100"].contains(&group_file(group, &["cpu.shares", "cpu.weight"]).as_str()));
    let too_little = ContainerResources { memory_limit_bytes: 4096, ..more };
    let refused = runtime.update_container("c-limits", too_little).await.unwrap_err().to_string();
    assert!(refused.contains("a memory limit of 4096 bytes is below"), "{refused}");
    assert_eq!(group_file(group, &["memory.limit_in_bytes", "memory.max"]), (48 << 20).to_string());
    runtime.update_container("c-limits", ContainerResources::default()).await.unwrap();
    assert_ne!(group_file(group, &["memory.limit_in_bytes", "memory.max"]), (48 << 20).to_string());
    let status = runtime.container_status("c-limits").await.unwrap();
    assert_eq!(status.state, ContainerState::Running);
    runtime.remove_sandbox("p-limits").await.unwrap();
    let gone = runtime.update_container("c-limits", more).await.unwrap_err();
    assert!(matches!(gone, RuntimeError::NotFound { .. }), "{gone}");
    assert!(std::panic::catch_unwind(|| group_file("p-limits", &["cgroup.procs"])).is_err());
}

#[tokio::test]
async fn too_much_memory_is_told_as_such() {
    let host = Host::new();
    let runtime = host.open().await;
    runtime.run_sandbox(&sandbox("p1")).await.unwrap();
    // The shell itself grows, so it is the first process that is killed.
    let mut spec = shell("c1", "p1", "a=0123456789abcdef; while true; do a=$a$a; done");
    spec.memory_limit_bytes = 16 << 20;
    let (status, _) = run(&runtime, spec).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (Some(137), "OOMKilled"));
    // The limit is the container's own.
    runtime.start_container(&shell("c2", "p1", "exit 1")).await.unwrap();
    assert_eq!(exited(&runtime, "c2").await.reason, "Error");
}
