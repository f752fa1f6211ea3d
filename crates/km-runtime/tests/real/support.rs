//! A runtime in temporary folders, which is purged after the test whatever its outcome.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use km_runtime::{
    ContainerSpec, ContainerState, ContainerStatus, Protocol, Runtime, SandboxSpec, builtin,
    oci::{OciConfig, OciRuntime},
};

pub const DEADLINE: Duration = Duration::from_secs(60);

pub struct Host {
    folder: Option<tempfile::TempDir>,
    pub config: OciConfig,
}

impl Host {
    pub fn new() -> Self {
        assert!(nix::unistd::geteuid().is_root(), "tests of real containers need root: run them as root");
        let folder = tempfile::tempdir().unwrap();
        let config = OciConfig {
            root: folder.path().join("state"),
            image_root: folder.path().join("images"),
            registry_certs: folder.path().join("certs"),
            name: folder.path().file_name().unwrap().to_string_lossy().into_owned(),
            pod_cidr: None,
            shim: PathBuf::from(env!("CARGO_BIN_EXE_km-runtime-shim")),
            shim_args: Vec::new(),
            log_dir: folder.path().join("logs"),
        };
        builtin::ensure(&config.image_root).unwrap();
        Self { folder: Some(folder), config }
    }

    pub async fn open(&self) -> OciRuntime {
        OciRuntime::open(self.config.clone()).await.unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.as_ref().unwrap().path().join(name)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let root = self.config.root.clone();
        let purge = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // The runtime object of the test may be about to let go of its lock.
                let deadline = tokio::time::Instant::now() + DEADLINE;
                while let Err(error) = km_runtime::purge(&root).await {
                    assert!(tokio::time::Instant::now() < deadline, "{error}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        });
        let purged = purge.join();
        if !std::thread::panicking() {
            purged.unwrap();
        }
    }
}

pub fn sandbox(id: &str) -> SandboxSpec {
    SandboxSpec {
        id: id.into(),
        namespace: "default".into(),
        name: format!("pod-{id}"),
        hostname: format!("host-{id}"),
        ..SandboxSpec::default()
    }
}

/// A busybox container that runs a shell script.
pub fn shell(id: &str, sandbox: &str, script: &str) -> ContainerSpec {
    ContainerSpec {
        id: id.into(),
        sandbox_id: sandbox.into(),
        name: id.into(),
        image: builtin::BUSYBOX.into(),
        command: vec!["sh".into(), "-c".into(), script.into()],
        ..ContainerSpec::default()
    }
}

pub async fn exited(runtime: &OciRuntime, id: &str) -> ContainerStatus {
    let mut events = runtime.events();
    tokio::time::timeout(DEADLINE, async {
        loop {
            let status = runtime.container_status(id).await.unwrap();
            if status.state == ContainerState::Exited {
                return status;
            }
            let _lagged_or_event = events.recv().await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("container {id} does not end"))
}

/// Runs a script to its end: its status and log without times.
pub async fn run(runtime: &OciRuntime, spec: ContainerSpec) -> (ContainerStatus, String) {
    runtime.start_container(&spec).await.unwrap();
    let status = exited(runtime, &spec.id).await;
    let log = log(&status.log_path);
    (status, log)
}

pub fn log(path: &Path) -> String {
    let text = std::fs::read(path).unwrap();
    let mut plain = String::new();
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let entry = km_runtime::crilog::parse(line).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(line)));
        plain.push_str(&String::from_utf8_lossy(entry.text));
        if !entry.partial {
            plain.push('\n');
        }
    }
    plain
}

pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn port(container_port: u16, host_port: u16) -> km_runtime::PortMapping {
    km_runtime::PortMapping { container_port, host_port, protocol: Protocol::Tcp }
}
