//! The scheduler that does nothing but bind: what the API server allows at most.

use std::{collections::BTreeMap, path::PathBuf};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::ListParams,
    runtime::{WatchStreamExt, watcher},
};

use crate::api::{self, BarePod};

#[derive(clap::Args)]
pub struct Flags {
    /// Kubeconfig of the API server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// How many bindings are under way at once.
    #[arg(long, default_value_t = 64)]
    parallel: usize,
}

/// Runs until it is ended. It prints `ready` when it watches.
pub async fn run(flags: Flags) -> anyhow::Result<()> {
    let client = api::client(&flags.kubeconfig).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes: Vec<String> =
        nodes.list(&ListParams::default()).await?.into_iter().filter_map(|node| node.metadata.name).collect();
    anyhow::ensure!(!nodes.is_empty(), "the API server has no node to bind to");
    let pods: Api<BarePod> = Api::all_with(client.clone(), &api::bare_pods());
    let pending = watcher(pods, watcher::Config::default().fields("spec.nodeName="));
    println!("ready");
    pending
        .default_backoff()
        .applied_objects()
        .try_filter(|pod| std::future::ready(pod.metadata.deletion_timestamp.is_none()))
        .enumerate()
        .map(|(number, pod)| pod.map(|pod| (nodes[number % nodes.len()].clone(), pod)))
        .map_err(anyhow::Error::from)
        .try_for_each_concurrent(flags.parallel, |(node, pod)| {
            let client = client.clone();
            async move {
                match api::bind(&client, &pod.metadata, &node, BTreeMap::new()).await {
                    // Seen again after it was bound.
                    Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                    result => result.map_err(anyhow::Error::from),
                }
            }
        })
        .await
}
