//! What the outcomes of actions mean to the manager.

use super::manager::is_pod_creation;
use super::{Action, Answer, Failure, Manager, Outcome, Plan, Task, text};
use jiff::Timestamp;
use std::time::Duration;

/// How often the content of a dying namespace is listed again while objects are on their way out.
const NAMESPACE_RECHECK: Duration = Duration::from_secs(1);

/// How soon a volume is looked at again whose claim is there, though the watch hasn't shown it.
const CLAIM_RECHECK: Duration = Duration::from_secs(1);

impl Manager {
    /// Whether the action counts as done.
    pub(super) fn take_outcome(&mut self, now: Timestamp, task: &Task, action: &Action, outcome: Outcome) -> bool {
        let gone = matches!((action, &outcome), (Action::Delete { .. } | Action::Get { .. }, Err(Failure::NotFound)));
        match (task, action) {
            (Task::ReplicaSet(_) | Task::ReplicationController(_), _) => self.replica_outcome(task, action, &outcome),
            (Task::Garbage(_), Action::Get { uid, .. }) => match &outcome {
                Ok(Answer::Object(object)) => {
                    self.owners_found.insert(uid.clone(), text(object, "/metadata/uid") == uid);
                }
                Err(Failure::NotFound) => {
                    self.owners_found.insert(uid.clone(), false);
                }
                _ => {}
            },
            (Task::Volume(name), Action::Get { uid, .. }) => match &outcome {
                Ok(Answer::Object(claim)) if text(claim, "/metadata/uid") == uid => {}
                Ok(_) | Err(Failure::NotFound) => {
                    self.lost_claims.insert(name.clone(), uid.clone());
                }
                Err(_) => {}
            },
            (Task::Namespace(name), Action::List { resource, .. }) => {
                if let Ok(Answer::Objects(objects)) = &outcome {
                    self.progress.entry(name.clone()).or_default().listed(resource, objects);
                }
            }
            _ => {}
        }
        // The cache may not show yet what a run before made.
        let made_before = matches!((task, &outcome), (Task::Accounts(_), Err(Failure::AlreadyExists)));
        if gone && matches!(task, Task::Endpoints(_)) {
            self.queue.add(task, now);
        }
        // An event is for people: nothing waits for it.
        let only_told = action.resource().plural == "events";
        outcome.is_ok() || gone || made_before || only_told
    }

    /// The plan without an event that was the last one told about the same. Having nothing to tell forgets it.
    pub(super) fn untold(&mut self, task: &Task, mut plan: Plan) -> Plan {
        let is_event = |action: &Action| action.resource().plural == "events";
        let said = plan.actions.iter().find_map(|action| match action {
            Action::Create { object, .. } if is_event(action) => Some(object["message"].clone()),
            _ => None,
        });
        let before = match said.clone() {
            Some(said) => self.told.insert(task.clone(), said),
            None => self.told.remove(task),
        };
        if said.is_some() && before == said {
            plan.actions.retain(|action| !is_event(action));
        }
        plan
    }

    fn replica_outcome(&mut self, task: &Task, action: &Action, outcome: &Outcome) {
        if is_pod_creation(action) {
            match outcome {
                Ok(_) => {
                    self.create_failures.remove(task);
                }
                Err(failure) => {
                    // Without an answer the pod may have been made: the watch will show it, or the wait will end.
                    if !matches!(failure, Failure::Unreachable(_)) {
                        self.expectations.created(task);
                    }
                    if *failure != Failure::Skipped {
                        self.create_failures.insert(task.clone(), failure.to_string());
                    }
                }
            }
        } else if let (Action::Delete { uid, .. }, Err(_)) = (action, outcome) {
            self.expectations.deleted(task, uid);
        }
    }

    /// Tasks that go step by step: what was learned now leads to the next step.
    pub(super) fn next_step(&mut self, now: Timestamp, task: &Task, actions: &[Action], succeeded: bool) {
        let asked = |action: &Action| matches!(action, Action::Get { .. } | Action::List { .. });
        let only_asked = actions.iter().all(asked);
        match task {
            Task::Garbage(_) if succeeded && only_asked => self.queue.add(task, now),
            Task::Volume(name) if succeeded && only_asked && !actions.is_empty() => {
                // A claim that is there after all will be shown by its watch.
                let pause = if self.lost_claims.contains_key(name) { Duration::ZERO } else { CLAIM_RECHECK };
                self.queue.add(task, now + pause);
            }
            Task::Namespace(_) if succeeded && only_asked => self.queue.add(task, now),
            Task::Namespace(name) => {
                // Something was deleted, or the step failed: list again before going on.
                self.progress.remove(name);
                self.queue.add(task, now + NAMESPACE_RECHECK);
            }
            _ => {}
        }
    }
}
