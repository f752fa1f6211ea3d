//! Carrying actions out, one HTTP call each.

use crate::core::{Action, Answer, Failure, Outcome, Resource};
use futures::StreamExt;
use kube::api::{
    DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::core::Request;
use serde_json::{Value, json};
use std::time::Duration;

/// A call without an answer after this time counts as unanswered.
const DEADLINE: Duration = Duration::from_secs(30);
/// Calls of one plan under way at one time, where order does not matter.
const AT_ONCE: usize = 16;

/// Carries the actions out and gives an outcome for each, in order. Runs of the same verb go side by side; creates in
/// batches that double, so that a refusal (a full quota, say) stops the rest soon.
pub(super) async fn all(client: &kube::Client, actions: &[Action]) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(actions.len());
    for run in actions.chunk_by(|one, other| one.verb() == other.verb()) {
        if run[0].verb() == "create" {
            outcomes.extend(creates(client, run).await);
        } else {
            outcomes.extend(side_by_side(client, run).await);
        }
    }
    outcomes
}

async fn creates(client: &kube::Client, run: &[Action]) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(run.len());
    let mut batch = 1;
    while outcomes.len() < run.len() {
        if outcomes.iter().any(Result::is_err) {
            outcomes.push(Err(Failure::Skipped));
            continue;
        }
        let end = run.len().min(outcomes.len() + batch);
        outcomes.extend(side_by_side(client, &run[outcomes.len()..end]).await);
        batch *= 2;
    }
    outcomes
}

async fn side_by_side(client: &kube::Client, run: &[Action]) -> Vec<Outcome> {
    let calls = run.iter().cloned().map(|action| {
        let client = client.clone();
        async move { one(&client, &action).await }
    });
    futures::stream::iter(calls).buffered(AT_ONCE).collect().await
}

async fn one(client: &kube::Client, action: &Action) -> Outcome {
    let request = request(action).map_err(|error| Failure::Refused(error.to_string()))?;
    let answer = match tokio::time::timeout(DEADLINE, client.request::<Value>(request)).await {
        Err(_) => return Err(Failure::Unreachable(format!("nothing within {} s", DEADLINE.as_secs()))),
        Ok(Err(error)) => return Err(failure(error)),
        Ok(Ok(answer)) => answer,
    };
    match action {
        Action::List { .. } => match answer.get("items").and_then(Value::as_array) {
            Some(items) => Ok(Answer::Objects(items.clone())),
            None => Err(Failure::Unreachable("the list has no items field".to_owned())),
        },
        _ => Ok(Answer::Object(answer)),
    }
}

fn request(action: &Action) -> anyhow::Result<http::Request<Vec<u8>>> {
    let at = |resource: &Resource, namespace: &str| Request::new(resource.path(namespace, "", None));
    let (post, change) = (PostParams::default(), PatchParams::default());
    Ok(match action {
        Action::Create { resource, namespace, object } => {
            at(resource, namespace).create(&post, serde_json::to_vec(&typed(resource, object))?)?
        }
        Action::Replace { resource, namespace, name, subresource, object } => {
            let body = serde_json::to_vec(&typed(resource, object))?;
            match subresource {
                Some(subresource) => at(resource, namespace).replace_subresource(subresource, name, &post, body)?,
                None => at(resource, namespace).replace(name, &post, body)?,
            }
        }
        Action::Patch { resource, namespace, name, subresource, patch } => {
            let patch = Patch::Merge(patch);
            match subresource {
                Some(subresource) => at(resource, namespace).patch_subresource(subresource, name, &change, &patch)?,
                None => at(resource, namespace).patch(name, &change, &patch)?,
            }
        }
        Action::Delete { resource, namespace, name, uid, propagation } => {
            let params = DeleteParams {
                propagation_policy: propagation.map(|policy| match policy {
                    "Orphan" => PropagationPolicy::Orphan,
                    "Foreground" => PropagationPolicy::Foreground,
                    _ => PropagationPolicy::Background,
                }),
                preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
                ..DeleteParams::default()
            };
            at(resource, namespace).delete(name, &params)?
        }
        Action::Get { resource, namespace, name, .. } => at(resource, namespace).get(name, &GetParams::default())?,
        Action::List { resource, namespace } => at(resource, namespace).list(&ListParams::default())?,
    })
}

/// Objects from a list carry no kind of their own.
fn typed(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    object
}

fn failure(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => match (status.code, status.reason.as_str()) {
            (404, _) => Failure::NotFound,
            (409, "AlreadyExists") => Failure::AlreadyExists,
            (409, _) => Failure::Conflict,
            (400..=499, _) => Failure::Refused(status.message),
            _ => Failure::Unreachable(status.message),
        },
        other => Failure::Unreachable(other.to_string()),
    }
}
