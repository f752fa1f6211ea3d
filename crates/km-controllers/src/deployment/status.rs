//! The status of a deployment: counts and conditions.

use super::State;
use super::revision::patch;
use crate::core::{Action, Resource, integer, timestamp};
use serde_json::{Value, json};
use std::time::Duration;

struct Counts {
    replicas: i64,
    updated: i64,
    ready: i64,
    available: i64,
    unavailable: i64,
}

impl Counts {
    fn of(state: &State<'_>) -> Self {
        let sum = |of: fn(&super::ReplicaSet) -> i64| state.sets.iter().map(of).sum::<i64>();
        let available = sum(|set| set.available);
        Self {
            replicas: sum(|set| set.actual),
            updated: state.new_set().map_or(0, |set| set.actual),
            ready: sum(|set| set.ready),
            available,
            unavailable: (state.total() - available).max(0),
        }
    }
}

/// Whether all wanted replicas are of the current template and available, and no others are left.
pub(super) fn is_complete(state: &State<'_>) -> bool {
    let counts = Counts::of(state);
    let wanted = state.deployment.replicas;
    counts.updated == wanted && counts.replicas == wanted && counts.available == wanted && state.new.is_some()
}

/// The write that makes the status true, if it is not, and when to look again.
pub(super) fn change(state: &State<'_>) -> (Option<Action>, Option<Duration>) {
    let deployment = state.deployment;
    let counts = Counts::of(state);
    let mut wanted = json!({
        "observedGeneration": deployment.generation,
        "replicas": counts.replicas,
        "updatedReplicas": counts.updated,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
        "unavailableReplicas": counts.unavailable,
    });
    let progressing = progressing(state, &counts);
    let recheck = deadline_left(state, &progressing);
    let known = |condition: &&Value| condition["type"] != "Available" && condition["type"] != "Progressing";
    let old = deployment.status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions: Vec<Value> = old.iter().filter(known).cloned().collect();
    conditions.push(settle(state, available(state, &counts), false));
    conditions.extend(progressing);
    wanted["conditions"] = json!(conditions);
    let fields = wanted.as_object().cloned().unwrap_or_default();
    let same = fields.iter().all(|(name, value)| {
        let have = deployment.status.get(name).unwrap_or(&Value::Null);
        if name == "conditions" {
            same_conditions(&old, &conditions)
        } else {
            have == value || (have.is_null() && value == &json!(0))
        }
    });
    let write = patch(
        state,
        &Resource::deployments(),
        &deployment.name,
        Some("status"),
        json!({
            "metadata": {"uid": deployment.uid}, "status": wanted,
        }),
    );
    ((!same).then_some(write), recheck)
}

/// Conditions in any order.
fn same_conditions(old: &[Value], new: &[Value]) -> bool {
    old.len() == new.len() && new.iter().all(|condition| old.contains(condition))
}

fn available(state: &State<'_>, counts: &Counts) -> Value {
    if counts.available >= state.deployment.min_available() {
        condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        condition("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

fn existing<'a>(state: &State<'a>, kind: &str) -> Option<&'a Value> {
    state.deployment.status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Puts times on a condition: kept while nothing changed; `touch` renews the time of the last update anyway.
fn settle(state: &State<'_>, mut new: Value, touch: bool) -> Value {
    let now = json!(state.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let kind = new["type"].as_str().unwrap_or_default().to_owned();
    let old = existing(state, &kind);
    let same = |name: &str| old.is_some_and(|old| old[name] == new[name]);
    let (same_status, same_reason) = (same("status"), same("reason"));
    let kept = |name: &str| old.map_or_else(|| now.clone(), |old| old[name].clone());
    let transition = if same_status { kept("lastTransitionTime") } else { now.clone() };
    let update = if same_status && same_reason && !touch { kept("lastUpdateTime") } else { now.clone() };
    new["lastTransitionTime"] = transition;
    new["lastUpdateTime"] = update;
    new
}

/// Whether the roll-out moves on; none while paused.
fn progressing(state: &State<'_>, counts: &Counts) -> Option<Value> {
    let old = existing(state, "Progressing");
    let deployment = state.deployment;
    if deployment.paused {
        return Some(settle(
            state,
            condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"),
            false,
        ));
    }
    let what = match state.new_set() {
        Some(set) => format!("ReplicaSet {:?}", set.name),
        None => format!("Deployment {:?}", deployment.name),
    };
    if is_complete(state) {
        let message = format!("{what} has successfully progressed.");
        return Some(settle(state, condition("Progressing", "True", "NewReplicaSetAvailable", &message), false));
    }
    let before = |name: &str| integer(&deployment.status, &format!("/{name}")).unwrap_or(0);
    let old_now = counts.replicas - counts.updated;
    let old_before = before("replicas") - before("updatedReplicas");
    let moved = counts.updated > before("updatedReplicas")
        || old_now < old_before
        || counts.ready > before("readyReplicas")
        || counts.available > before("availableReplicas");
    // A roll-out that was complete starts anew when something changed.
    let fresh = old.is_none_or(|old| old["reason"] == "NewReplicaSetAvailable" || old["reason"] == "DeploymentPaused");
    if moved || fresh {
        let message = format!("{what} is progressing.");
        return Some(settle(state, condition("Progressing", "True", "ReplicaSetUpdated", &message), true));
    }
    let since = old.and_then(|old| timestamp(old, "/lastUpdateTime"));
    let stuck = since.is_some_and(|since| state.now.as_second() - since.as_second() >= deployment.deadline);
    if stuck {
        let message = format!("{what} has timed out progressing.");
        return Some(settle(state, condition("Progressing", "False", "ProgressDeadlineExceeded", &message), false));
    }
    old.cloned()
}

/// How long until a roll-out that does not move counts as stuck.
fn deadline_left(state: &State<'_>, progressing: &Option<Value>) -> Option<Duration> {
    let condition = progressing.as_ref().filter(|condition| condition["reason"] == "ReplicaSetUpdated")?;
    let since = timestamp(condition, "/lastUpdateTime")?;
    let left = since.as_second() + state.deployment.deadline - state.now.as_second();
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0).max(1)))
}
