//! Creates pods of a workload and waits until the API server shows them bound.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use http::{Request, header};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use crate::api::{self, BarePod};

#[derive(clap::Args)]
pub struct Flags {
    /// Kubeconfig of the API server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// A pod as JSON; `NUMBER` in it becomes the pod's number, `APP` that of its application.
    #[arg(long)]
    template: PathBuf,
    #[arg(long, default_value_t = 1000)]
    pods: usize,
    /// Pods take turns between so many applications.
    #[arg(long, default_value_t = 1)]
    apps: usize,
    /// How many creations are under way at once.
    #[arg(long, default_value_t = 64)]
    parallel: usize,
    /// Do not wait until they are bound.
    #[arg(long)]
    create_only: bool,
    /// Longest time until all are bound, in seconds.
    #[arg(long, default_value_t = 600)]
    limit: u64,
}

const NAMESPACE: &str = "default";

pub async fn run(flags: Flags) -> anyhow::Result<()> {
    let client = api::client(&flags.kubeconfig).await?;
    let template = std::fs::read_to_string(&flags.template)
        .with_context(|| format!("--template: can't read {}", flags.template.display()))?;
    let pods: Api<BarePod> = Api::namespaced_with(client.clone(), NAMESPACE, &api::bare_pods());
    serde_json::from_str::<Pod>(&template).context("--template is no pod")?;
    let version = pods.list(&ListParams::default().limit(1)).await?.metadata.resource_version.unwrap_or_default();
    let began = Instant::now();
    let creating = create_all(&client, &template, &flags);
    let watching = async { if flags.create_only { Ok(()) } else { all_bound(&pods, &version, flags.pods).await } };
    let both = futures::future::try_join(creating, watching);
    timeout(Duration::from_secs(flags.limit), both)
        .await
        .with_context(|| format!("not all pods were bound within {} s", flags.limit))??;
    let took = began.elapsed().as_secs_f64();
    println!("{}", json!({ "pods": flags.pods, "seconds": took, "rate": flags.pods as f64 / took }));
    Ok(())
}

async fn create_all(client: &Client, template: &str, flags: &Flags) -> anyhow::Result<()> {
    stream::iter(0..flags.pods)
        .map(Ok)
        .try_for_each_concurrent(flags.parallel, |number| async move {
            let body = template.replace("NUMBER", &number.to_string());
            let body = body.replace("APP", &(number % flags.apps.max(1)).to_string()).into_bytes();
            let request = Request::post(format!("/api/v1/namespaces/{NAMESPACE}/pods"));
            let request = request.header(header::CONTENT_TYPE, "application/json").body(body)?;
            client.request_text(request).await.context("can't create a pod").map(drop)
        })
        .await
}

async fn all_bound(pods: &Api<BarePod>, version: &str, count: usize) -> anyhow::Result<()> {
    let mut version = version.to_owned();
    let mut bound = BTreeSet::new();
    // A watch ends by itself after some minutes.
    while bound.len() < count {
        let mut events = pods.watch(&WatchParams::default(), &version).await?.boxed();
        while let Some(event) = events.try_next().await? {
            let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
            version = pod.metadata.resource_version.clone().unwrap_or_default();
            if pod.spec.node_name.is_some() {
                bound.insert(pod.metadata.uid);
            }
            if bound.len() == count {
                break;
            }
        }
    }
    Ok(())
}
