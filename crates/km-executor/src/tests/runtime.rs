//! A container runtime in memory: containers run until they are told to end.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use km_runtime::{
    ContainerEvent, ContainerResources, ContainerSpec, ContainerState, ContainerStatus, ImageInfo, PortMapping,
    RegistryAuth, Result, Runtime, RuntimeError, Sandbox, SandboxSpec,
};
use tokio::sync::broadcast;

use super::journal::Journal;

#[derive(Clone)]
pub struct FakeRuntime {
    journal: Journal,
    state: Arc<Mutex<State>>,
    events: broadcast::Sender<ContainerEvent>,
    logs: PathBuf,
}

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<String, Sandbox>,
    containers: BTreeMap<String, ContainerStatus>,
    specs: BTreeMap<String, ContainerSpec>,
    /// Host ports that another process has.
    taken: Vec<u16>,
}

impl FakeRuntime {
    pub fn new(journal: Journal, logs: PathBuf) -> Self {
        Self { journal, state: Arc::default(), events: broadcast::channel(64).0, logs }
    }

    /// Another process listens on a host port.
    pub fn take_port(&self, port: u16) {
        self.state.lock().unwrap().taken.push(port);
    }

    /// A container's process ends.
    pub fn exit(&self, id: &str, code: i32) {
        let event = {
            let mut state = self.state.lock().unwrap();
            let status = state.containers.get_mut(id).unwrap();
            status.state = ContainerState::Exited;
            status.exit_code = Some(code);
            status.finished_at = Some(2_000_000_000);
            ContainerEvent { sandbox_id: status.sandbox_id.clone(), container_id: id.to_owned() }
        };
        self.journal.note(format!("exit {id} {code}"));
        // Nobody may listen yet or any more.
        let _listeners = self.events.send(event);
    }

    pub fn spec(&self, id: &str) -> ContainerSpec {
        self.state.lock().unwrap().specs[id].clone()
    }

    pub fn sandbox(&self, id: &str) -> SandboxSpec {
        self.state.lock().unwrap().sandboxes[id].spec.clone()
    }

    pub fn is_empty(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.sandboxes.is_empty() && state.containers.is_empty()
    }

    pub fn write_log(&self, id: &str, text: &str) {
        std::fs::write(self.logs.join(id), text).unwrap();
    }
}

fn missing(id: &str) -> RuntimeError {
    RuntimeError::NotFound { kind: "container", id: id.to_owned() }
}

#[async_trait]
impl Runtime for FakeRuntime {
    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox> {
        let taken = |port: &PortMapping| self.state.lock().unwrap().taken.contains(&port.host_port);
        if let Some(port) = spec.ports.iter().find(|port| taken(port)) {
            return Err(RuntimeError::HostPortTaken { port: port.host_port, protocol: "TCP" });
        }
        let sandbox = Sandbox { spec: spec.clone(), ip: Some("10.1.0.2".parse().unwrap()) };
        self.journal.note(format!("sandbox {}", spec.id));
        self.state.lock().unwrap().sandboxes.insert(spec.id.clone(), sandbox.clone());
        Ok(sandbox)
    }

    async fn remove_sandbox(&self, id: &str) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        state.sandboxes.remove(id);
        state.containers.retain(|_, container| container.sandbox_id != id);
        self.journal.note(format!("sandbox removed {id}"));
        Ok(())
    }

    async fn list_sandboxes(&self) -> Result<Vec<Sandbox>> {
        Ok(self.state.lock().unwrap().sandboxes.values().cloned().collect())
    }

    async fn start_container(&self, spec: &ContainerSpec) -> Result<ContainerStatus> {
        let log_path = self.logs.join(&spec.id);
        std::fs::write(&log_path, "").unwrap();
        let status = ContainerStatus {
            id: spec.id.clone(),
            sandbox_id: spec.sandbox_id.clone(),
            name: spec.name.clone(),
            attempt: spec.attempt,
            image: spec.image.clone(),
            image_id: "sha256:1".into(),
            state: ContainerState::Running,
            created_at: 1_000_000_000,
            started_at: Some(1_000_000_000),
            finished_at: None,
            exit_code: None,
            signal: None,
            reason: String::new(),
            message: String::new(),
            log_path,
            annotations: BTreeMap::new(),
        };
        {
            let mut state = self.state.lock().unwrap();
            state.containers.insert(spec.id.clone(), status.clone());
            state.specs.insert(spec.id.clone(), spec.clone());
        }
        self.journal.note(format!("start {}", spec.id));
        Ok(status)
    }

    async fn update_container(&self, id: &str, resources: ContainerResources) -> Result<()> {
        let ContainerResources { cpu_shares, cpu_limit_milli, memory_limit_bytes } = resources;
        self.journal.note(format!("resize {id} {cpu_shares} {cpu_limit_milli} {memory_limit_bytes}"));
        Ok(())
    }

    async fn signal_container(&self, id: &str, signal: i32) -> Result<()> {
        self.journal.note(format!("signal {id} {signal}"));
        self.exit(id, 128 + signal);
        Ok(())
    }

    async fn remove_container(&self, id: &str) -> Result<()> {
        self.state.lock().unwrap().containers.remove(id);
        Ok(())
    }

    async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        self.state.lock().unwrap().containers.get(id).cloned().ok_or_else(|| missing(id))
    }

    async fn list_containers(&self, sandbox_id: Option<&str>) -> Result<Vec<ContainerStatus>> {
        let state = self.state.lock().unwrap();
        let wanted = |one: &&ContainerStatus| sandbox_id.is_none_or(|id| one.sandbox_id == id);
        Ok(state.containers.values().filter(wanted).cloned().collect())
    }

    fn events(&self) -> broadcast::Receiver<ContainerEvent> {
        self.events.subscribe()
    }

    async fn image(&self, reference: &str) -> Result<Option<ImageInfo>> {
        let info = ImageInfo { id: "sha256:1".into(), references: Vec::new(), size: 1, user: String::new() };
        Ok((!reference.contains("absent")).then_some(info))
    }

    async fn list_images(&self) -> Result<Vec<ImageInfo>> {
        Ok(Vec::new())
    }

    async fn pull_image(&self, reference: &str, _auth: Option<RegistryAuth>) -> Result<ImageInfo> {
        Err(RuntimeError::Pull { reference: reference.to_owned(), message: "no such image".into() })
    }

    async fn remove_image(&self, _reference: &str) -> Result<()> {
        Ok(())
    }

    async fn load_image(&self, _file: &Path) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}
