//! Containers outlive the process that started them, and purge finds all of it.

use km_runtime::{ContainerState, Runtime, RuntimeError};
use km_testkit::free_port;

use crate::support::{Host, exited, log, port, sandbox, shell, until};

async fn reopened(host: &Host) -> km_runtime::oci::OciRuntime {
    until("the old runtime lets go of its state", async || {
        match km_runtime::oci::OciRuntime::open(host.config.clone()).await {
            Ok(_) => true,
            Err(RuntimeError::Other(message)) if message.contains("another process") => false,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    host.open().await
}

#[tokio::test]
async fn a_new_runtime_adopts_what_runs_and_learns_what_ended() {
    let host = Host::new();
    let host_port = free_port();
    let runtime = host.open().await;
    let mut pod = sandbox("p1");
    pod.ports = vec![port(8080, host_port)];
    pod.annotations = [("key".to_owned(), "value".to_owned())].into();
    let made = runtime.run_sandbox(&pod).await.unwrap();
    let mut server = shell("server", "p1", "");
    server.image = km_runtime::builtin::HELLO.into();
    server.command.clear();
    let before = runtime.start_container(&server).await.unwrap();
    let gate = host.path("gate");
    std::fs::create_dir(&gate).unwrap();
    let mut ends = shell("ends", "p1", "until test -e /gate/open; do usleep 20000; done; echo done; exit 5");
    ends.mounts = vec![km_runtime::Mount { host_path: gate.clone(), container_path: "/gate".into(), read_only: true }];
    runtime.start_container(&ends).await.unwrap();
    drop(runtime);

    let runtime = reopened(&host).await;
    assert_eq!(runtime.list_sandboxes().await.unwrap(), [made]);
    assert_eq!(runtime.run_sandbox(&pod).await.unwrap().spec, pod);
    assert_eq!(runtime.container_status("server").await.unwrap(), before);
    assert_eq!(runtime.start_container(&server).await.unwrap(), before, "it is not started twice");
    let url = format!("http://127.0.0.1:{host_port}/healthz");
    until("the adopted server answers", async || crate::network::get(&url).await.is_ok()).await;
    std::fs::write(gate.join("open"), "").unwrap();
    let status = exited(&runtime, "ends").await;
    assert_eq!((status.exit_code, log(&status.log_path).as_str()), (Some(5), "done\n"));
    runtime.signal_container("server", 15).await.unwrap();
    assert_eq!(exited(&runtime, "server").await.exit_code, Some(0));
    drop(runtime);

    let runtime = reopened(&host).await;
    assert_eq!(runtime.container_status("ends").await.unwrap(), status);
    runtime.remove_sandbox("p1").await.unwrap();
    assert!(runtime.list_containers(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_killed_shim_ends_its_container() {
    let host = Host::new();
    let runtime = host.open().await;
    runtime.run_sandbox(&sandbox("p1")).await.unwrap();
    runtime.start_container(&shell("c1", "p1", "sleep 600")).await.unwrap();
    let shim = std::fs::read_to_string(host.config.root.join("containers/c1/shim.json")).unwrap();
    let pid = shim.split(':').nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).unwrap();
    let status = exited(&runtime, "c1").await;
    assert_eq!((status.exit_code, status.reason.as_str()), (Some(137), "Error"));
    assert!(status.message.contains("supervising process"), "{}", status.message);
}

#[tokio::test]
async fn one_process_has_the_state_open() {
    let host = Host::new();
    let _runtime = host.open().await;
    let error = km_runtime::oci::OciRuntime::open(host.config.clone()).await.err().unwrap().to_string();
    assert!(error.contains("another process"), "{error}");
    let error = km_runtime::purge(&host.config.root).await.unwrap_err().to_string();
    assert!(error.contains("running process"), "{error}");
}

#[tokio::test]
async fn purge_leaves_nothing() {
    let host = Host::new();
    let runtime = host.open().await;
    let mut pod = sandbox("p1");
    pod.ports = vec![port(80, free_port())];
    runtime.run_sandbox(&pod).await.unwrap();
    runtime.start_container(&shell("c1", "p1", "sleep 600")).await.unwrap();
    runtime.start_container(&shell("c2", "p1", "sleep 600")).await.unwrap();
    assert_eq!(runtime.container_status("c2").await.unwrap().state, ContainerState::Running);
    let agent = std::fs::read_to_string(host.config.root.join("agent.json")).unwrap();
    let bridge = agent.split("\"bridge\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let subnet = runtime.pod_cidr().to_string().replace('/', "-");
    assert!(traces(&bridge, &subnet, &host.config.root.to_string_lossy()).len() > 2);
    drop(runtime);
    until("the purge", async || km_runtime::purge(&host.config.root).await.is_ok()).await;
    let left = traces(&bridge, &subnet, &host.config.root.to_string_lossy());
    assert!(left.is_empty(), "{left:?}");
    km_runtime::purge(&host.config.root).await.unwrap();
}

/// What the machine still has of an agent.
fn traces(bridge: &str, subnet: &str, root: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut look = |what: String, there: bool| {
        if there {
            found.push(what);
        }
    };
    look(format!("link {bridge}"), std::path::Path::new("/sys/class/net").join(bridge).exists());
    look(format!("claim {subnet}"), std::path::Path::new("/run/km/subnets").join(subnet).exists());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    look("mounts".into(), mounts.contains(root));
    look("state".into(), std::path::Path::new(root).exists());
    let short = bridge.strip_prefix("km-").unwrap();
    for line in mounts.lines().filter(|line| line.contains(" - cgroup")) {
        let group = std::path::Path::new(line.split(' ').nth(4).unwrap()).join("km").join(short);
        look(group.display().to_string(), group.exists());
    }
    let tables = std::process::Command::new("nft").args(["list", "tables"]).output().unwrap();
    look("table".into(), String::from_utf8_lossy(&tables.stdout).contains(&format!("km-rt-{short}")));
    for process in std::fs::read_dir("/proc").unwrap() {
        let command = std::fs::read(process.unwrap().path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        look(command.clone(), command.contains("km-runtime-shim") && command.contains(root));
    }
    found
}
