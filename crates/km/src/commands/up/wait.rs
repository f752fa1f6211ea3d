//! Waiting until what was applied runs.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, Client, api::ListParams, core::Selector};
use tokio::time::Instant;

use super::apply::Applied;
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
            return Err(Failed::new(Exit::Failure, error)
                .way_out("`kubectl describe pods` and `kubectl get events` say why; --wait gives them longer"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn not_ready(client: &Client, applied: &[Applied]) -> Result<Vec<String>> {
    let mut waiting = Vec::new();
    for object in applied {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let ready = match object.kind.as_str() {
            "Deployment" => {
                let found = Api::<Deployment>::namespaced(client.clone(), namespace).get(&object.name).await?;
                available(&found) && has_its_pods(client, namespace, &found).await?
            }
            "Pod" => is_ready(&Api::<Pod>::namespaced(client.clone(), namespace).get(&object.name).await?),
            _ => true,
        };
        if !ready {
            waiting.push(format!("{} {namespace}/{}", object.kind, object.name));
        }
    }
    Ok(waiting)
}

/// Whether as many of its pods are ready as it wants. Its status alone may be that of an earlier run of the cluster.
async fn has_its_pods(client: &Client, namespace: &str, deployment: &Deployment) -> Result<bool> {
    let selector = Selector::try_from(deployment.spec.selector.clone()).context("the Deployment's selector")?;
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels_from(&selector)).await.context("cannot list pods")?;
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    Ok(i32::try_from(ready).is_ok_and(|ready| ready >= wanted(deployment)))
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
