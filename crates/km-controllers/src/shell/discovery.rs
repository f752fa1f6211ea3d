//! Which resources the API server has, and a watch for each.

use super::watch;
use crate::core::{Event, Resource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;

/// How often the API server is asked for new resources.
const REFRESH: Duration = Duration::from_secs(30);
/// How soon it is asked again when it did not answer.
const RETRY: Duration = Duration::from_secs(1);
/// Many and short-lived; they own nothing and nobody owns them.
const UNWATCHED: [&str; 2] = ["events", "leases"];

/// Starts a watch for every resource that appears, until `stop`.
pub(super) async fn keep_watching(client: kube::Client, events: Sender<Event>, stop: CancellationToken) {
    let mut watched = BTreeSet::new();
    let mut announced = Vec::new();
    loop {
        let pause = match resources(&client).await {
            Ok(found) => {
                for resource in found.iter().filter(|one| !UNWATCHED.contains(&one.plural.as_str())) {
                    if watched.insert(resource.clone()) {
                        let watch = watch::follow(client.clone(), resource.clone(), events.clone());
                        let stop = stop.clone();
                        tokio::spawn(async move { stop.run_until_cancelled(watch).await });
                    }
                }
                if found != announced && events.send(Event::Resources(found.clone())).await.is_ok() {
                    announced = found;
                }
                REFRESH
            }
            Err(error) => {
                tracing::warn!(%error, "cannot ask the API server for its resources");
                RETRY
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Everything that can be listed, watched and deleted, each in its group's preferred version.
async fn resources(client: &kube::Client) -> kube::Result<Vec<Resource>> {
    let mut found = from_list("", "v1", client.list_core_api_resources("v1").await?);
    for group in client.list_api_groups().await?.groups {
        let Some(version) = group.preferred_version.or_else(|| group.versions.into_iter().next()) else { continue };
        match client.list_api_group_resources(&version.group_version).await {
            Ok(list) => found.extend(from_list(&group.name, &version.version, list)),
            // One group of many, perhaps of an extension server that is down: the others still count.
            Err(error) => tracing::warn!(group = group.name, %error, "cannot list the resources of a group"),
        }
    }
    Ok(found)
}

fn from_list(group: &str, version: &str, list: APIResourceList) -> Vec<Resource> {
    let usable = list.resources.into_iter().filter(|resource| {
        let can = |verb: &str| resource.verbs.iter().any(|have| have == verb);
        !resource.name.contains('/') && can("list") && can("watch") && can("delete")
    });
    usable.map(|one| Resource::new(group, version, &one.kind, &one.name, one.namespaced)).collect()
}
