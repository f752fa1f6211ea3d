//! The placement of waiting pods.

use std::{cmp::Reverse, sync::Arc};

use crate::{
    class::{Class, World},
    engine::{Assigned, Engine},
    explain,
    need::Need,
    plan::{Placement, Plan},
    reasons::Summary,
};

/// A pod that waits for a place.
#[derive(Clone, Debug)]
pub struct PendingPod {
    /// Namespace and name with a slash between.
    pub id: String,
    pub need: Arc<Need>,
    /// Of pods with the same priority the lower number goes first.
    pub queued: u64,
}

impl Engine {
    /// Places one pod, and counts it as being there at once. The node that is kept for it is tried first.
    ///
    /// A pod costs about the logarithm of the number of nodes, once the class of its need is known; the first of a
    /// class, and the first refusal after a change, cost a look at each node.
    pub fn place(&mut self, pod: &PendingPod) -> Result<Placement, Arc<Summary>> {
        match self.try_place(pod) {
            Some(placement) => Ok(placement),
            None => Err(self.why_not(pod)),
        }
    }

    /// The same for those who don't ask why not, which costs more than the decision.
    pub fn try_place(&mut self, pod: &PendingPod) -> Option<Placement> {
        let found = self.with_class(&pod.need, |class, world| {
            let node = nominated(class, pod, world).or_else(|| class.best(world))?;
            Some((node, world.nodes.at(node).room(&pod.need, &Default::default()).ok()?))
        });
        let (node, pool) = found?;
        if let Some(at) = self.nominees.remove(&pod.id) {
            self.nodes.touch(at, false);
        }
        let taken = self.nodes.at_mut(node).take(&pod.need, pool);
        let name = self.nodes.at(node).name.clone();
        if let Some(at) = self.by_id.get(pod.id.as_str()).copied() {
            // An earlier pod of that name.
            self.drop_pod(at);
        }
        let need = Arc::clone(&pod.need);
        // It starts later than all that run.
        let assigned = Assigned {
            id: pod.id.as_str().into(),
            need,
            node,
            terminating: false,
            started: i64::MAX,
            preempted: false,
        };
        self.put(assigned);
        let with_executor = taken.executors.is_some();
        Some(Placement { pod: pod.id.clone(), node: name, pool, with_executor, taken })
    }

    /// Why a pod that was just refused fits nowhere.
    pub fn why_not(&mut self, pod: &PendingPod) -> Arc<Summary> {
        let told = self.told;
        self.with_class(&pod.need, |class, world| refusal(class, &pod.id, told, world))
    }

    /// Takes a placement back. What the node offered since is left as it is.
    pub fn undo(&mut self, placement: Placement) {
        if let Some(at) = self.by_id.get(placement.pod.as_str()).copied() {
            self.drop_pod(at);
        }
        if let Some(node) = self.nodes.find(&placement.node) {
            self.give_back(node, placement.taken);
        }
        self.told += 1;
    }

    /// Places all that can be placed, the most important first. Each decision sees what the earlier ones took.
    pub fn place_all(&mut self, pods: &[PendingPod]) -> Plan {
        let mut order: Vec<usize> = (0..pods.len()).collect();
        order.sort_by_key(|index| (Reverse(pods[*index].need.priority), pods[*index].queued, *index));
        let mut plan = Plan::default();
        for index in order {
            match self.place(&pods[index]) {
                Ok(placement) => plan.placed.push((index, placement)),
                Err(why) => plan.refused.push((index, why)),
            }
        }
        plan
    }
}

/// The node that is kept for the pod, if it fits.
fn nominated(class: &Class, pod: &PendingPod, world: World<'_>) -> Option<u32> {
    let node = world.nominees.of(&pod.id)?;
    let come = world.nominees.others_on(node, &pod.need, &pod.id);
    let fits = class.check(node, &come, world).is_ok() && class.check(node, &[], world).is_ok();
    fits.then_some(node)
}

/// Why nothing fits. Between two changes from outside room only shrinks, so the reasons found first are told to all
/// of the class, give or take what the pods between took.
fn refusal(class: &mut Class, pod: &str, told: u64, world: World<'_>) -> Arc<Summary> {
    match &class.refusal {
        Some((at, summary)) if *at == told => Arc::clone(summary),
        _ => {
            let summary = Arc::new(explain::summarize(class, pod, world));
            class.refusal = Some((told, Arc::clone(&summary)));
            summary
        }
    }
}
