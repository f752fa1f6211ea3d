//! Roles: whose resources a pod may take, in which order.

use k8s_openapi::api::core::v1::Pod;
use km_kube::keys;
use km_mesos_proto::v1;

/// The role of unreserved resources.
pub const ANY: &str = "*";

/// The roles a pod may use: its `k8s.mesosphere.io/roles` annotation, limited to the framework's roles, else the
/// default. An annotation that leaves none makes the pod unschedulable, which the empty list says.
pub fn of_pod(pod: &Pod, framework: &[String], default: &[String]) -> Vec<String> {
    let any = [ANY.to_owned()];
    let framework = if framework.is_empty() { &any } else { framework };
    let default = if default.is_empty() { &any } else { default };
    match pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(keys::ROLES)) {
        None => default.to_vec(),
        Some(list) => distinct(list.split(','), |role| framework.iter().any(|allowed| allowed == role)),
    }
}

/// The non-empty roles that `keep` likes, trimmed, each once, in the given order.
pub fn distinct<'a>(roles: impl IntoIterator<Item = &'a str>, keep: impl Fn(&str) -> bool) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for role in roles {
        let role = role.trim();
        if !role.is_empty() && keep(role) && !kept.iter().any(|seen| seen == role) {
            kept.push(role.to_owned());
        }
    }
    kept
}

/// The roles in whose name a pod may be launched, out of those whose resources it may take: the named ones. A pod for
/// unreserved resources alone has none, and may be launched in the name of any: the framework subscribes in the name of
/// `*` only when it has no other role.
pub fn named(roles: &[String]) -> Vec<String> {
    roles.iter().filter(|role| *role != ANY).cloned().collect()
}

/// The role a resource is reserved for, in both formats of Mesos (`reservations`, or the older `role`); `*` when it is
/// unreserved.
pub fn of_resource(resource: &v1::Resource) -> &str {
    let refined = resource.reservations.last().and_then(|reservation| reservation.role.as_deref());
    #[allow(deprecated)]
    let plain = resource.role.as_deref();
    refined.or(plain).filter(|role| !role.is_empty()).unwrap_or(ANY)
}
