//! What a pod takes, in the terms of placement and of Mesos, and its way into the queue.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use km_kube::pod;
use km_placement::{Context, Need, NeedError, PendingPod, compile};
use km_podtask::{PodKey, PortStrategy, Want, limits, memory_counted, memory_to_mesos, roles, strategy_of};

use super::{
    Action, Core,
    pods::{owner, uid},
    unschedulable::Hold,
};

impl Core {
    /// Lets a pod into the queue, or renews what is known of one that waits. What can't be understood stays out.
    pub(super) fn enqueue(&mut self, now: Duration, pod: &Arc<Pod>, not_before: Duration, out: &mut Vec<Action>) {
        let key = PodKey::of(&pod.metadata);
        let (settled, want, context) = self.settle(pod);
        let need = match compile(&settled, context) {
            Ok(need) => self.feed.engine.share(need),
            Err(error) => {
                self.queue.remove(&key);
                self.hold_back(&key, pod, Hold::Wrong(error.to_string()), out);
                return;
            }
        };
        self.queue.held.remove(&key);
        let known = self.queue.get(&key).filter(|waiting| waiting.uid == uid(pod));
        let fresh = known.is_none();
        let other = known.is_some_and(|waiting| !Arc::ptr_eq(&waiting.pending.need, &need));
        let pending = PendingPod { id: key.to_string(), need, queued: 0 };
        self.queue.put(now, key.clone(), uid(pod), (pending, settled, want), not_before);
        if other {
            self.queue.stir_one(now, &key);
        }
        if fresh || other {
            self.demand.touch(now);
        }
    }

    /// The need of a pod that has its place.
    pub(super) fn placed_need(&mut self, pod: &Arc<Pod>) -> Result<Arc<Need>, NeedError> {
        let (settled, _, context) = self.settle(pod);
        let need = compile(&settled, Context { placed: true, ..context })?;
        Ok(self.feed.engine.share(need))
    }

    /// The pod as it is launched, its amounts as Mesos counts them, and what placement must know besides it.
    fn settle(&self, pod: &Arc<Pod>) -> (Arc<Pod>, Want, Context) {
        let mut settled = Arc::clone(pod);
        let mut amounts = limits::settle_shared(&mut settled, self.config.accounting, &self.config.default_limits);
        let disk = amounts.other.get("ephemeral-storage").copied().unwrap_or(0);
        let mut want = Want::with_disk(amounts.milli_cpu, amounts.memory_bytes, disk);
        amounts.memory_bytes = memory_counted(memory_to_mesos(amounts.memory_bytes));
        amounts.other.retain(|_, amount| *amount > 0);
        if disk > 0 {
            amounts.other.insert("ephemeral-storage".to_owned(), memory_counted(memory_to_mesos(disk)));
        }
        let extended: Vec<String> = amounts.other.keys().filter(|name| pod::is_extended(name)).cloned().collect();
        for name in &extended {
            want.add_units(self.config.resource_names.in_mesos(name), amounts.other[name]);
        }
        let any_ports = match strategy_of(pod, self.config.port_strategy) {
            PortStrategy::Wildcard => settled.spec.as_ref().map_or(0, open_ports),
            PortStrategy::Fixed => 0,
        };
        let framework = &self.config.framework;
        let roles = roles::of_pod(pod, &framework.roles, &framework.default_pod_roles);
        let pools = roles::named(&roles);
        // As the admission plugin ExtendedResourceToleration of Kubernetes has it.
        let tolerated = extended;
        let (default_spread, mates) = self.spread_of(pod);
        let context = Context {
            amounts,
            roles,
            pools,
            any_ports,
            tolerated,
            default_spread,
            mates,
            owner: owner(pod),
            placed: false,
        };
        (settled, want, context)
    }
}

/// Container ports without a host port.
fn open_ports(spec: &PodSpec) -> usize {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| pod::is_sidecar(container));
    let all = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    all.filter(|port| port.host_port.unwrap_or(0) == 0).count()
}
