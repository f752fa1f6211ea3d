//! Quality of service class (Kubernetes docs, "Pod Quality of Service Classes").

use crate::quantity::Quantity;
use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as TypedQuantity;
use std::collections::BTreeMap;

/// The class; it decides who is killed first when a node runs out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl QosClass {
    /// Spelling in `status.qosClass`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// Guaranteed: every container has cpu and memory limits equal to its requests. BestEffort: none has either.
/// With pod-level resources those alone count.
#[must_use]
pub fn qos_class(spec: &PodSpec) -> QosClass {
    let pod_level =
        spec.resources.as_ref().filter(|resources| resources.requests.is_some() || resources.limits.is_some());
    let all: Vec<Option<&ResourceRequirements>> = match pod_level {
        Some(resources) => vec![Some(resources)],
        None => {
            let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
            containers.map(|container| container.resources.as_ref()).collect()
        }
    };
    let classes: Vec<QosClass> = all.into_iter().map(class_of).collect();
    if classes.iter().all(|class| *class == QosClass::BestEffort) {
        QosClass::BestEffort
    } else if classes.iter().all(|class| *class == QosClass::Guaranteed) {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

fn class_of(resources: Option<&ResourceRequirements>) -> QosClass {
    let Some(resources) = resources else { return QosClass::BestEffort };
    let pair = |name| (amount(resources.requests.as_ref(), name), amount(resources.limits.as_ref(), name));
    let pairs = [pair("cpu"), pair("memory")];
    if pairs.iter().all(|pair| matches!(pair, (None, None))) {
        return QosClass::BestEffort;
    }
    let guaranteed = |(request, limit): &(Option<Quantity>, Option<Quantity>)| {
        limit.is_some() && (request.is_none() || request == limit)
    };
    if pairs.iter().all(guaranteed) { QosClass::Guaranteed } else { QosClass::Burstable }
}

/// A set, positive amount.
fn amount(list: Option<&BTreeMap<String, TypedQuantity>>, name: &str) -> Option<Quantity> {
    let quantity = Quantity::try_from(list?.get(name)?).ok()?;
    (quantity > Quantity::ZERO).then_some(quantity)
}
