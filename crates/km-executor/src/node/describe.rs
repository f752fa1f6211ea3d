//! What the Node object says.

use std::{collections::BTreeMap, fs, net::IpAddr};

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo,
    },
    apimachinery::pkg::{
        api::resource::Quantity as RawQuantity,
        apis::meta::v1::{ObjectMeta, Time},
    },
};
use km_kube::{keys, names, quantity::Quantity};
use km_mesos_proto::{
    resources::{ResourceError, Resources, Scalar},
    v1::{self, value},
};
use km_pod::Allocatable;
use prost::Message;

const MIB: i64 = 1 << 20;

/// Everything that the Node object is made of.
#[derive(Clone, Debug)]
pub struct Description {
    pub name: String,
    pub addresses: Vec<IpAddr>,
    pub kubelet_port: u16,
    pub max_pods: u32,
    pub allocatable: Allocatable,
    pub disk_bytes: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub info: NodeInfo,
    pub since: Timestamp,
}

/// Facts of the machine.
pub type NodeInfo = NodeSystemInfo;

impl Description {
    /// From what the agent told: its resources without those of the executor itself.
    ///
    /// # Errors
    /// A resource is malformed.
    pub fn new(
        name: &str,
        agent: &v1::AgentInfo,
        executor: &v1::ExecutorInfo,
        address: Option<IpAddr>,
        kubelet_port: u16,
        max_pods: u32,
    ) -> Result<Self, ResourceError> {
        let total = Resources::from_protos(&agent.resources)?;
        let own = Resources::from_protos(&executor.resources)?;
        let left = |name: &str| Scalar((total.scalar(name) - own.scalar(name)).0.max(0));
        let mut labels = attribute_labels(&agent.attributes);
        labels.insert(keys::HOSTNAME_LABEL.into(), name.to_owned());
        labels.insert("kubernetes.io/os".into(), "linux".into());
        labels.insert("kubernetes.io/arch".into(), architecture().into());
        Ok(Self {
            name: name.to_owned(),
            addresses: address.into_iter().collect(),
            kubelet_port,
            max_pods,
            // Scalars are thousandths: of a CPU, and of a MiB.
            allocatable: Allocatable { milli_cpu: left("cpus").0, memory_bytes: left("mem").0 * MIB / 1000 },
            disk_bytes: left("disk").0 * MIB / 1000,
            labels,
            annotations: BTreeMap::from([
                (keys::EXECUTOR_ID.to_owned(), executor.executor_id.value.clone()),
                (keys::EXECUTOR_RESOURCES.to_owned(), encode_resources(&executor.resources)),
            ]),
            info: machine(),
            since: Timestamp::now(),
        })
    }

    pub fn node(&self) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels.clone()),
                annotations: Some(self.annotations.clone()),
                ..Default::default()
            },
            ..Default::default()
        }
    }

    pub fn status(&self) -> NodeStatus {
        let raw = |quantity: Quantity| RawQuantity(quantity.to_string());
        let resources = BTreeMap::from([
            ("cpu".to_owned(), raw(Quantity::from_milli(self.allocatable.milli_cpu))),
            ("memory".to_owned(), raw(Quantity::from_bytes(self.allocatable.memory_bytes))),
            ("ephemeral-storage".to_owned(), raw(Quantity::from_bytes(self.disk_bytes))),
            ("pods".to_owned(), raw(Quantity::from_value(i64::from(self.max_pods)))),
        ]);
        let address = |kind: &str, address: String| NodeAddress { type_: kind.into(), address };
        let mut addresses: Vec<NodeAddress> =
            self.addresses.iter().map(|ip| address("InternalIP", ip.to_string())).collect();
        addresses.push(address("Hostname", self.name.clone()));
        NodeStatus {
            capacity: Some(resources.clone()),
            allocatable: Some(resources),
            addresses: Some(addresses),
            conditions: Some(self.conditions()),
            daemon_endpoints: Some(NodeDaemonEndpoints {
                kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(self.kubelet_port) }),
            }),
            node_info: Some(self.info.clone()),
            ..Default::default()
        }
    }

    fn conditions(&self) -> Vec<NodeCondition> {
        let now = Timestamp::now();
        [
            ("MemoryPressure", "False", "KubeletHasSufficientMemory", "Memory is limited per task by Mesos"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "Disk is not watched by the executor"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "PIDs are not watched by the executor"),
            ("Ready", "True", "KubeletReady", "The executor is subscribed and runs pods"),
        ]
        .into_iter()
        .map(|(kind, status, reason, message)| NodeCondition {
            type_: kind.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(Time(self.since)),
        })
        .collect()
    }
}

/// Comma-separated base64 of each resource, as the scheduler reads it from the annotation.
fn encode_resources(resources: &[v1::Resource]) -> String {
    let words: Vec<String> =
        resources.iter().map(|resource| BASE64_STANDARD.encode(resource.encode_to_vec())).collect();
    words.join(",")
}

/// Agent attributes as labels; what makes no valid label is left out.
fn attribute_labels(attributes: &[v1::Attribute]) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for attribute in attributes {
        let value = match attribute.r#type() {
            value::Type::Text => attribute.text.as_ref().map(|text| text.value.clone()).unwrap_or_default(),
            value::Type::Scalar => attribute.scalar.as_ref().map(|scalar| scalar.value.to_string()).unwrap_or_default(),
            _ => String::new(),
        };
        let key = keys::attribute_label(&attribute.name);
        if names::qualified_name(&key).is_ok() && names::label_value(&value).is_ok() {
            labels.insert(key, value);
        } else {
            tracing::warn!(attribute = attribute.name, "the attribute makes no valid label");
        }
    }
    labels
}

/// As Kubernetes calls the machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn machine() -> NodeInfo {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let release = read("/etc/os-release");
    let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let boot_id = read("/proc/sys/kernel/random/boot_id");
    let machine_id = read("/etc/machine-id");
    NodeInfo {
        architecture: architecture().into(),
        boot_id,
        system_uuid: machine_id.clone(),
        machine_id,
        container_runtime_version: format!("km://{}", km_observe::VERSION),
        kernel_version: read("/proc/sys/kernel/osrelease"),
        kube_proxy_version: String::new(),
        kubelet_version: km_observe::KUBERNETES_VERSION.into(),
        operating_system: "linux".into(),
        os_image: pretty.unwrap_or("Linux").trim_matches('"').to_owned(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_the_agent_without_the_executor() {
        let agent = v1::AgentInfo {
            hostname: "h".into(),
            resources: Resources::parse("cpus:4;mem:1024;disk:10;ports:[1-2]", "*").unwrap().to_protos(),
            attributes: vec![v1::Attribute {
                name: "rack".into(),
                r#type: value::Type::Text.into(),
                text: Some(value::Text { value: "r1".into() }),
                ..Default::default()
            }],
            ..Default::default()
        };
        let executor = v1::ExecutorInfo {
            executor_id: "e".into(),
            resources: Resources::parse("cpus:0.25;mem:64", "*").unwrap().to_protos(),
            ..Default::default()
        };
        let description = Description::new("h", &agent, &executor, None, 10250, 110).unwrap();
        let status = description.status();
        let capacity = status.allocatable.unwrap();
        assert_eq!(capacity["cpu"].0, "3750m");
        assert_eq!(capacity["memory"].0, "960Mi");
        assert_eq!(capacity["pods"].0, "110");
        assert_eq!(status.daemon_endpoints.unwrap().kubelet_endpoint.unwrap().port, 10250);
        let node = description.node();
        assert_eq!(node.metadata.labels.unwrap()["k8s.mesosphere.io/attribute-rack"], "r1");
        assert!(node.metadata.annotations.unwrap()[keys::EXECUTOR_RESOURCES].contains(','));
    }
}
