//! What the pod's task holds. Mesos cannot change the resources of a task, so no resize may exceed it.

use k8s_openapi::api::core::v1::PodSpec;
use km_kube::{pod, quantity::Quantity};

/// The resources of a pod's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allotment {
    pub milli_cpu: i64,
    pub memory_bytes: i64,
    /// The task was given the pod's limits, not its requests: then those must stay within.
    pub of_limits: bool,
}

impl Allotment {
    /// Whether a pod of that spec stays within.
    ///
    /// # Errors
    /// The text names what the task holds and what is too much.
    pub fn check(&self, spec: &PodSpec) -> Result<(), String> {
        let (kind, wanted) =
            if self.of_limits { ("limits", pod::limits(spec)) } else { ("requests", pod::requests(spec)) };
        let cpu =
            (wanted.milli_cpu > self.milli_cpu).then(|| format!("cpu: {}", Quantity::from_milli(wanted.milli_cpu)));
        let memory = (wanted.memory_bytes > self.memory_bytes)
            .then(|| format!("memory: {}", Quantity::from_bytes(wanted.memory_bytes)));
        let excess: Vec<String> = cpu.into_iter().chain(memory).collect();
        if excess.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the pod's Mesos task holds cpu: {}, memory: {} and cannot grow; {kind} of {} are too much",
            Quantity::from_milli(self.milli_cpu),
            Quantity::from_bytes(self.memory_bytes),
            excess.join(", "),
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn requests_or_limits_must_stay_within_the_task() {
        let held = |of_limits| Allotment { milli_cpu: 500, memory_bytes: 64 << 20, of_limits };
        let one = |requests: Value, limits: Value| -> PodSpec {
            let resources = json!({"requests": requests, "limits": limits});
            from_value(json!({"containers": [{"name": "c", "resources": resources}]})).unwrap()
        };
        let exact = one(json!({"cpu": "0.5", "memory": "64Mi"}), json!({"cpu": "2", "memory": "1Gi"}));
        assert_eq!(held(false).check(&exact), Ok(()));
        let message = held(true).check(&exact).unwrap_err();
        assert_eq!(
            message,
            "the pod's Mesos task holds cpu: 500m, memory: 64Mi and cannot grow; limits of cpu: 2, memory: 1Gi are too much"
        );
        let more = one(json!({"cpu": "501m", "memory": "1Mi"}), json!({}));
        assert!(held(false).check(&more).unwrap_err().ends_with("requests of cpu: 501m are too much"));
    }
}
