//! Annotation and label keys. Those under `k8s.mesosphere.io/` are spelled as the first Kubernetes-Mesos spelled them,
//! so that manifests written for it keep working.

/// Prefix of all our keys.
pub const PREFIX: &str = "k8s.mesosphere.io/";

/// Pod annotation: host name of the agent. Its presence means that the pod was launched already.
pub const BINDING_HOST: &str = "k8s.mesosphere.io/bindingHost";
/// Pod annotation: Mesos task id.
pub const TASK_ID: &str = "k8s.mesosphere.io/taskId";
/// Pod annotation: Mesos agent id.
pub const SLAVE_ID: &str = "k8s.mesosphere.io/slaveId";
/// Pod annotation: id of the offer that the task was launched from.
pub const OFFER_ID: &str = "k8s.mesosphere.io/offerId";
/// Pod and node annotation: Mesos executor id.
pub const EXECUTOR_ID: &str = "k8s.mesosphere.io/executorId";
/// Taint of a node whose agent is to be emptied; its value says why: `draining`, `maintenance` or `deactivated`.
pub const UPKEEP_TAINT: &str = "k8s.mesosphere.io/upkeep";
/// Node annotation: resources of the executor itself.
pub const EXECUTOR_RESOURCES: &str = "k8s.mesosphere.io/executorResources";
/// Pod label: how host ports are chosen, `fixed` or `wildcard`.
pub const PORT_MAPPING: &str = "k8s.mesosphere.io/portMapping";
/// Pod annotation: file name of a static pod.
pub const STATIC_POD_FILENAME: &str = "k8s.mesosphere.io/staticPodFilename";
/// Pod annotation that a launch adds where tasks are given the limits of their pods instead of the requests.
pub const COUNTED: &str = "k8s.mesosphere.io/counted";
/// Value of [`COUNTED`].
pub const COUNTED_LIMITS: &str = "limits";
/// Pod annotation: comma-separated Mesos roles whose resources the pod may use, in order of preference.
pub const ROLES: &str = "k8s.mesosphere.io/roles";
/// Pod annotation: how its node is chosen among those that fit; see `km_placement::Strategy`.
pub const PLACEMENT: &str = "k8s.mesosphere.io/placement";
/// Pod annotation: Marathon-like constraints, a JSON list of lists `[field, operator, value]`.
pub const CONSTRAINTS: &str = "k8s.mesosphere.io/constraints";
/// Pod annotations: Mesos discovery info of the task.
pub const DISCOVERY_VISIBILITY: &str = "k8s.mesosphere.io/discovery-visibility";
/// See [`DISCOVERY_VISIBILITY`].
pub const DISCOVERY_NAME: &str = "k8s.mesosphere.io/discovery-name";
/// See [`DISCOVERY_VISIBILITY`].
pub const DISCOVERY_ENVIRONMENT: &str = "k8s.mesosphere.io/discovery-environment";
/// See [`DISCOVERY_VISIBILITY`].
pub const DISCOVERY_LOCATION: &str = "k8s.mesosphere.io/discovery-location";
/// See [`DISCOVERY_VISIBILITY`].
pub const DISCOVERY_VERSION: &str = "k8s.mesosphere.io/discovery-version";
/// Node label prefix: one label per attribute of the agent.
pub const ATTRIBUTE_PREFIX: &str = "k8s.mesosphere.io/attribute-";

/// Node label with the host name, set by every kubelet.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// Node labels with the fault domain.
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";
/// See [`REGION_LABEL`].
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Annotation that marks a mirror pod of a static pod.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// Where a pod's manifest came from (`file`, `http`, `api`).
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// Label of an EndpointSlice that names its Service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// Label of an EndpointSlice that names who manages it.
pub const ENDPOINTSLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Label of headless Services' endpoints.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// Label of a ReplicaSet and its pods: hash of the Deployment's pod template.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Annotation of a Deployment and its ReplicaSets: number of the roll-out.
pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";
/// Finalizer of namespaces.
pub const NAMESPACE_FINALIZER: &str = "kubernetes";
/// Finalizer that asks to orphan dependents.
pub const ORPHAN_FINALIZER: &str = "orphan";
/// Finalizer that asks to delete dependents first.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// Finalizer of volumes: one that is bound stays.
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Finalizer of claims: one that a pod uses stays.
pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Annotation of a StorageClass: `true` for claims that name none.
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Annotation of a claim: the node on which its first pod is to run, once the scheduler knows.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a claim: what binding it had to do is done.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of claims and volumes: the controller chose the other side, no user did.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotation of a volume: the provisioner that made it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Provisioner of classes whose volumes are made by hand.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Pod annotation `port_<PROTO>_<containerPort>` = host port.
#[must_use]
pub fn port_annotation(protocol: &str, container_port: i32) -> String {
    format!("{PREFIX}port_{}_{container_port}", protocol.to_uppercase())
}

/// Pod annotation `portName_<PROTO>_<portName>` = host port.
#[must_use]
pub fn port_name_annotation(protocol: &str, port_name: &str) -> String {
    format!("{PREFIX}portName_{}_{port_name}", protocol.to_uppercase())
}

/// Endpoints annotation `containerPort_<PROTO>_<hostIP>_<hostPort>` = container port.
#[must_use]
pub fn container_port_annotation(protocol: &str, host_ip: &str, host_port: i32) -> String {
    format!("{PREFIX}containerPort_{}_{host_ip}_{host_port}", protocol.to_uppercase())
}

/// Node label of an agent's attribute.
#[must_use]
pub fn attribute_label(attribute: &str) -> String {
    format!("{ATTRIBUTE_PREFIX}{attribute}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_keys_are_spelled_as_the_original_did() {
        assert_eq!(port_annotation("tcp", 80), "k8s.mesosphere.io/port_TCP_80");
        assert_eq!(port_name_annotation("UDP", "dns"), "k8s.mesosphere.io/portName_UDP_dns");
        assert_eq!(
            container_port_annotation("TCP", "10.0.0.1", 31000),
            "k8s.mesosphere.io/containerPort_TCP_10.0.0.1_31000"
        );
        assert_eq!(attribute_label("rack"), "k8s.mesosphere.io/attribute-rack");
    }
}
