//! Cheap pods: the built-in image that only waits.

use std::collections::{BTreeMap, BTreeSet};

use km_testkit::{Kubectl, eventually};
use serde_json::Value;

/// Pods of one deployment, whose labels say `app=NAME`.
pub struct Workload {
    pub name: &'static str,
    pub replicas: u32,
    /// The Mesos roles that pods may use; empty for the scheduler's default.
    pub roles: &'static str,
    /// CPU that each pod asks for, such as `10m`.
    pub cpu: &'static str,
}

impl Workload {
    pub fn of(name: &'static str, replicas: u32) -> Self {
        Self { name, replicas, roles: "", cpu: "10m" }
    }

    pub fn apply(&self, kubectl: &Kubectl) {
        let Self { name, replicas, roles, cpu } = self;
        let roles = if roles.is_empty() { String::new() } else { format!("k8s.mesosphere.io/roles: {roles}") };
        kubectl.apply(&format!(
            r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata:
      labels: {{app: {name}}}
      annotations: {{{roles}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: pause
          image: localhost/km/pause:v1
          imagePullPolicy: IfNotPresent
          resources: {{requests: {{cpu: {cpu}, memory: 8Mi}}}}
"#
        ));
    }

    /// Waits until all replicas are ready, and none that is not wanted is left.
    #[track_caller]
    pub fn runs(&self, kubectl: &Kubectl) {
        eventually(&format!("all {} pods of {} run", self.replicas, self.name), || {
            let pods = self.pods(kubectl)?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            if ready == self.replicas as usize && pods.len() == ready {
                Ok(())
            } else {
                Err(format!("{ready} of {} pods are ready", pods.len()))
            }
        });
    }

    pub fn pods(&self, kubectl: &Kubectl) -> Result<Vec<Value>, String> {
        let list = kubectl.json(&format!("get pods -l app={}", self.name))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Node and container of each pod.
    pub fn places(&self, kubectl: &Kubectl) -> Result<BTreeMap<String, (String, String)>, String> {
        let text = |pod: &Value, path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or("none").to_owned();
        let place = |pod: &Value| (text(pod, "/spec/nodeName"), text(pod, "/status/containerStatuses/0/containerID"));
        Ok(self.pods(kubectl)?.iter().map(|pod| (text(pod, "/metadata/name"), place(pod))).collect())
    }

    /// The nodes that have a pod.
    pub fn nodes(&self, kubectl: &Kubectl) -> Result<BTreeSet<String>, String> {
        Ok(self.places(kubectl)?.into_values().map(|(node, _)| node).collect())
    }

    /// Waits until no pod is left on a node, and all run elsewhere.
    #[track_caller]
    pub fn leaves(&self, kubectl: &Kubectl, node: &str) {
        eventually(&format!("the pods of {} have left {node}", self.name), || match self.nodes(kubectl)? {
            nodes if nodes.contains(node) => Err(format!("they are on {nodes:?}")),
            _ => Ok(()),
        });
        self.runs(kubectl);
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
        && pod.pointer("/metadata/deletionTimestamp").is_none()
}
