//! Waiting until what was applied runs.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, Client, api::ListParams, core::Selector};
use tokio::time::Instant;

use super::{apply::Applied, why};
use crate::exit::{Exit, Failed};

/// Waits until every applied Deployment has all its replicas available and every applied Pod is ready. Answers the
/// number of pods that run.
pub async fn until_ready(client: &Client, applied: &[Applied], deadline: Instant) -> Result<usize, Failed> {
    loop {
        let waiting = not_ready(client, applied).await?;
        if waiting.is_empty() {
            return Ok(running(client).await?);
        }
        if Instant::now() >= deadline {
            let error = anyhow!("in time not ready: {}", waiting.join(", "));
            return Err(Failed::new(Exit::Failure, error).way_out(
                "--wait gives them longer; without --apply the cluster stays up, so that `kubectl describe` can tell more",
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Each object that is not ready, with the reason if one is known: whoever reads this cannot ask the cluster any more.
async fn not_ready(client: &Client, applied: &[Applied]) -> Result<Vec<String>> {
    let mut waiting = Vec::new();
    for object in applied {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        let (ready, why) = match object.kind.as_str() {
            "Deployment" => {
                let found = Api::<Deployment>::namespaced(client.clone(), namespace).get(&object.name).await?;
                let selector = Selector::try_from(found.spec.selector.clone()).context("the Deployment's selector")?;
                let pods =
                    pods.list(&ListParams::default().labels_from(&selector)).await.context("cannot list pods")?;
                // Its status alone may be that of an earlier run of the cluster.
                let enough = i32::try_from(pods.iter().filter(|pod| is_ready(pod)).count())
                    .is_ok_and(|ready| ready >= wanted(&found));
                let why = pods.iter().filter(|pod| !is_ready(pod)).find_map(why::pod_waits);
                (available(&found) && enough, why)
            }
            "Pod" => {
                let found = pods.get(&object.name).await?;
                (is_ready(&found), why::pod_waits(&found))
            }
            _ => (true, None),
        };
        if !ready {
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            waiting.push(format!("{} {namespace}/{}{why}", object.kind, object.name));
        }
    }
    Ok(waiting)
}

async fn running(client: &Client) -> Result<usize> {
    let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await.context("cannot list pods")?;
    Ok(pods.iter().filter(|pod| is_ready(pod)).count())
}

fn available(deployment: &Deployment) -> bool {
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.available_replicas.unwrap_or(0) >= wanted(deployment)
    })
}

fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    if status.and_then(|status| status.phase.as_deref()) == Some("Succeeded") {
        return true;
    }
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|list| list.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
}
