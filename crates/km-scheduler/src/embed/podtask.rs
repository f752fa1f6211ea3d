//! A pod as one Mesos task.

use k8s_openapi::api::core::v1::Pod;
use km_mesos_proto::v1;
use km_podtask::{PortStrategy, ProcurementError, Want, procure, roles, take, thousandths};

/// What each pod takes, whatever it asks for: thousandths of a CPU, and bytes.
pub const CPUS_PER_POD: i64 = 1000;
/// See [`CPUS_PER_POD`].
pub const MEMORY_PER_POD: i64 = 512 << 20;
/// The Mesos name of every task.
pub const TASK_NAME: &str = "PodTask";

/// The chosen machine on its way from the policy to whom waits for it: room for one host name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectedMachine(Option<String>);

impl SelectedMachine {
    /// Puts a host name in. When one is there already, it stays and the new one comes back.
    pub fn put(&mut self, hostname: String) -> Result<(), String> {
        match self.0 {
            Some(_) => Err(hostname),
            None => {
                self.0 = Some(hostname);
                Ok(())
            }
        }
    }

    /// Takes it out.
    pub fn take(&mut self) -> Option<String> {
        self.0.take()
    }
}

/// A pod that is to become a task, or is one.
#[derive(Clone, Debug, PartialEq)]
pub struct PodTask {
    /// The task's own id, another for each attempt.
    pub id: String,
    pub pod: Pod,
    /// The host names that it may run on.
    pub machines: Vec<String>,
    pub selected_machine: SelectedMachine,
    /// What is launched. Name and executor are set from the start, the rest by [`PodTask::fill_task_info`].
    pub task_info: v1::TaskInfo,
    /// The offers that it uses.
    pub offer_ids: Vec<v1::OfferId>,
}

/// Why a task can't be filled in.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    #[error(transparent)]
    Offer(#[from] ProcurementError),
    #[error("the pod can't be written as YAML: {0}")]
    Manifest(String),
}

impl PodTask {
    pub fn new(id: String, pod: Pod, machines: Vec<String>, executor: v1::ExecutorInfo) -> Self {
        let task_info =
            v1::TaskInfo { name: TASK_NAME.to_owned(), executor: Some(executor), ..v1::TaskInfo::default() };
        Self { id, pod, machines, selected_machine: SelectedMachine::default(), task_info, offer_ids: Vec::new() }
    }

    /// Every host port of all containers in the order of declaration, zeros (for no port) and repeated ones included.
    pub fn ports(&self) -> Vec<u64> {
        let containers = self.pod.spec.iter().flat_map(|spec| &spec.containers);
        let ports = containers.flat_map(|container| container.ports.iter().flatten());
        ports.map(|port| port.host_port.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)).collect()
    }

    /// Whether the offer has what the task takes: CPU, memory, each host port that the pod names, and what the executor
    /// needs when it doesn't run there yet.
    pub fn accept_offer(&self, offer: &v1::Offer) -> bool {
        self.take_from(offer).is_ok()
    }

    /// Makes the task one of that agent and offer.
    pub fn fill_task_info(&mut self, offer: &v1::Offer) -> Result<(), FillError> {
        let resources = self.take_from(offer)?;
        let manifest = serde_saphyr::to_string(&self.pod).map_err(|error| FillError::Manifest(error.to_string()))?;
        self.task_info.task_id = self.id.clone().into();
        self.task_info.agent_id = offer.agent_id.clone();
        self.task_info.resources = resources;
        self.task_info.data = Some(manifest.into_bytes());
        self.offer_ids.push(offer.id.clone());
        Ok(())
    }

    /// Undoes [`PodTask::fill_task_info`]: the task waits again.
    pub(super) fn reset(&mut self) {
        let executor = self.task_info.executor.take().unwrap_or_default();
        *self = Self::new(
            std::mem::take(&mut self.id),
            std::mem::take(&mut self.pod),
            std::mem::take(&mut self.machines),
            executor,
        );
    }

    fn take_from(&self, offer: &v1::Offer) -> Result<Vec<v1::Resource>, ProcurementError> {
        let mut offered = offer.resources.clone();
        // Reserved resources are only ours to use, so they go first.
        let reserved = offered.iter().map(|resource| roles::of_resource(resource).to_owned());
        let reserved: Vec<String> = reserved.filter(|role| role != roles::ANY).collect();
        let allowed = roles::distinct(reserved.iter().map(String::as_str).chain([roles::ANY]), |_| true);
        let want = Want::new(CPUS_PER_POD, MEMORY_PER_POD);
        let spec = self.pod.spec.clone().unwrap_or_default();
        let taken = procure(&mut offered, &want, &spec, &allowed, PortStrategy::Fixed)?;
        let executor =
            self.task_info.executor.iter().filter(|executor| !offer.executor_ids.contains(&executor.executor_id));
        for resource in executor.flat_map(|executor| &executor.resources) {
            let Some(scalar) = &resource.scalar else { continue };
            let found = take(&mut offered, &resource.name, thousandths(scalar.value), &allowed);
            found.ok_or_else(|| ProcurementError::Insufficient(resource.name.clone()))?;
        }
        Ok(taken.resources)
    }
}
