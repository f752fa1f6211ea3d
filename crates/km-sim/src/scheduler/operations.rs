//! The core's operations on the API server: some fail, some succeed without an answer.

use km_fakeapi::WriteError;
use km_scheduler::core::{Action, ApiFailure, ApiReply, PodListing};

use crate::{delivery::ToScheduler, world::World};

impl World {
    pub(super) fn operation_arrives(&mut self, process: usize, action: Action) {
        let Some(op) = action.operation() else { return };
        let unavailable = |why: &str| ApiReply::Failed(ApiFailure::Unavailable(why.to_owned()));
        let reply = if !self.reaches_api(process) || self.mishap(0.01) {
            unavailable("it can't be reached")
        } else if self.mishap(0.01) && matches!(action, Action::EndPod { .. }) {
            // The shell gives up after some tries.
            unavailable("conflict")
        } else {
            let reply = self.perform(process, action);
            if self.mishap(0.01) { unavailable("the answer got lost") } else { reply }
        };
        let delay = self.latency();
        self.at_scheduler(process, delay, ToScheduler::Reply(op, Box::new(reply)));
    }

    fn perform(&mut self, process: usize, action: Action) -> ApiReply {
        match action {
            Action::CreateNode { node, .. } => {
                self.note(|| format!("scheduler {process} creates a node: {:?}", node.metadata.name));
                self.api.create_node(*node);
                ApiReply::Done
            }
            Action::PatchNode { name, patch, .. } => reply(self.api.patch_node(&name, &patch)),
            Action::DeleteNode { name, .. } => {
                self.note(|| format!("scheduler {process} deletes node {name}"));
                self.check_node_deletion(&name);
                reply(self.api.delete_node(&name))
            }
            Action::DeletePod { pod, uid, .. } => {
                self.note(|| format!("scheduler {process} deletes {pod}"));
                self.check_deletion(&pod, &uid);
                reply(self.api.remove_exactly(&pod, &uid))
            }
            Action::EvictPod { pod, uid, budgets, .. } => {
                self.note(|| format!("scheduler {process} evicts {pod}"));
                self.check_eviction(&pod, &uid);
                reply(self.api.evict(&pod, &uid, budgets))
            }
            Action::FetchPod { pod, uid, .. } => ApiReply::Pod(self.api.fetch(&pod, &uid).cloned()),
            Action::EndPod { pod, uid, phase, .. } => {
                self.note(|| format!("scheduler {process} ends {pod}: {phase}"));
                reply(self.api.set_phase(&pod, &uid, phase))
            }
            Action::PatchPodStatus { pod, uid, reason, message, .. } => {
                reply(self.api.set_condition(&pod, &uid, ("PodScheduled", "False"), (&reason, &message)))
            }
            Action::NominatePod { pod, uid, node, .. } => reply(self.api.nominate(&pod, &uid, node)),
            Action::PreemptPod { pod, uid, message, .. } => {
                self.note(|| format!("scheduler {process} preempts {pod}"));
                let why = ("PreemptionByScheduler", message.as_str());
                let marked = self.api.set_condition(&pod, &uid, ("DisruptionTarget", "True"), why);
                reply(marked.and_then(|()| self.api.evict(&pod, &uid, false)))
            }
            Action::ReserveVolume { volume, version, claim, uid, .. } => {
                self.note(|| format!("scheduler {process} reserves {volume} for {claim}"));
                reply(self.api.reserve_volume(&volume, &version, &claim, &uid))
            }
            Action::SelectNode { claim, version, node, .. } => {
                self.note(|| format!("scheduler {process} has the volume of {claim} made for {node}"));
                reply(self.api.select_node(&claim, &version, &node))
            }
            Action::ListPods { .. } => ApiReply::Pods(PodListing { uids: self.api.uids(), ours: true }),
            other => ApiReply::Failed(ApiFailure::Refused(format!("no operation of the API server: {other:?}"))),
        }
    }
}

fn reply(result: Result<(), WriteError>) -> ApiReply {
    match result {
        Ok(()) => ApiReply::Done,
        Err(WriteError::Gone) => ApiReply::Failed(ApiFailure::Gone),
        Err(WriteError::Refused(why)) => ApiReply::Failed(ApiFailure::Refused(why)),
    }
}
