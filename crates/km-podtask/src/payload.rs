//! The pod as the executor gets it: `TaskInfo.data`.

use k8s_openapi::api::core::v1::{Container, Pod};
use km_kube::keys;

use crate::{PortEntry, Task};

/// The annotations that a launch adds, and which the executor carries over to the API server with the binding.
pub fn annotations(task: &Task) -> Vec<(String, String)> {
    let mut all = vec![
        (keys::TASK_ID.to_owned(), task.id.clone()),
        (keys::SLAVE_ID.to_owned(), task.agent_id.clone()),
        (keys::OFFER_ID.to_owned(), task.offer_id.clone()),
        (keys::EXECUTOR_ID.to_owned(), task.executor_id.clone()),
        (keys::BINDING_HOST.to_owned(), task.hostname.clone()),
    ];
    for entry in &task.ports {
        let port = entry.host_port.to_string();
        if let Some(name) = &entry.name {
            all.push((keys::port_name_annotation(&entry.protocol, name), port.clone()));
        }
        all.push((keys::port_annotation(&entry.protocol, i32::from(entry.container_port)), port));
    }
    all
}

/// The annotated pod with its host ports filled in.
pub fn launched_pod(mut pod: Pod, task: &Task) -> Pod {
    pod.metadata.managed_fields = None;
    pod.metadata.annotations.get_or_insert_default().extend(annotations(task));
    if let Some(spec) = &mut pod.spec {
        let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        containers.for_each(|container| fill_ports(container, &task.ports));
    }
    pod
}

fn fill_ports(container: &mut Container, entries: &[PortEntry]) {
    for entry in entries.iter().filter(|entry| entry.container == container.name) {
        if let Some(port) = container.ports.as_mut().and_then(|ports| ports.get_mut(entry.index)) {
            port.host_port = Some(i32::from(entry.host_port));
        }
    }
}
