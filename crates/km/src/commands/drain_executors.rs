//! `km drain-executors`: empties the agents that still run an executor of an earlier configuration, a few at a time.
//!
//! A node is cordoned, its pods are evicted within their disruption budgets, and once the scheduler has ended the idle
//! executor the node is opened again: the next pod there brings the new executor.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, anyhow};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{EvictParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    scheduler::{Target, cell},
    status,
};
use crate::exit::{Exit, Failed};

/// Pause between two looks, and between two tries of an eviction that a budget refused.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    target: Target,
    /// Kubeconfig of the API server [default: the local cluster's].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    /// Only these agents, by host name, comma-separated.
    #[arg(long, value_delimiter = ',', value_name = "HOST")]
    agents: Vec<String>,
    /// So many agents at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    max_unavailable: u16,
    /// Seconds after which an agent that isn't empty is given up.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    timeout: u64,
    /// Only tell which agents would be emptied.
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(flags: Flags) -> Result<(), Failed> {
    let old = old_executors(&flags.target).await?;
    let known: BTreeSet<String> = executors(&flags.target).await?.iter().map(|line| cell(line, "hostname")).collect();
    if let Some(unknown) = flags.agents.iter().find(|agent| !known.contains(*agent)) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let error = anyhow!("--agents: there is no agent {unknown}; known are {}", known.join(", "));
        return Err(Failed::new(Exit::Usage, error));
    }
    let wanted = |host: &String| flags.agents.is_empty() || flags.agents.contains(host);
    let hosts: Vec<String> = old.into_iter().filter(wanted).collect();
    if hosts.is_empty() {
        println!("all executors are of the present configuration");
        return Ok(());
    }
    if flags.dry_run {
        hosts.iter().for_each(|host| println!("{host}"));
        return Ok(());
    }
    let client = match &flags.kubeconfig {
        Some(path) => status::client_of(path).await?,
        None => status::client(&flags.target.data.layout()).await?,
    };
    let (client, flags) = (&client, &flags);
    let work = stream::iter(hosts).map(|host| async move {
        let done = renew(client, flags, &host).await;
        done.with_context(|| format!("{host} could not be emptied"))
    });
    let done = work.buffer_unordered(usize::from(flags.max_unavailable));
    Ok(done.try_for_each(async |()| Ok(())).await?)
}

fn ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

async fn executors(target: &Target) -> Result<Vec<Value>, Failed> {
    let document = target.get("/debug/inspect/executors").await?;
    Ok(document["executors"].as_array().cloned().unwrap_or_default())
}

/// Host names with an executor of an earlier configuration.
async fn old_executors(target: &Target) -> Result<BTreeSet<String>, Failed> {
    let all = executors(target).await?;
    Ok(all.iter().filter(|line| line["current"] == false).map(|line| cell(line, "hostname")).collect())
}

async fn renew(client: &Client, flags: &Flags, host: &str) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get(host).await?;
    let closed = node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
    let cordon = async |close: bool| {
        let patch = json!({ "spec": { "unschedulable": close.then_some(true) } });
        nodes.patch(host, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    };
    if !closed {
        cordon(true).await?;
    }
    eprintln!("{host}: emptying");
    let emptied = tokio::time::timeout(Duration::from_secs(flags.timeout), empty(client, flags, host)).await;
    // Whoever closed the node before opens it.
    if !closed {
        cordon(false).await?;
    }
    emptied.map_err(|_| anyhow!("its pods did not leave within {} s", flags.timeout))??;
    println!("{host}");
    Ok(())
}

/// Evicts until the old executor has ended.
async fn empty(client: &Client, flags: &Flags, host: &str) -> anyhow::Result<()> {
    let mut told = String::new();
    let mut look = Instant::now();
    loop {
        if !old_executors(&flags.target).await.map_err(|failed| failed.error)?.contains(host) {
            return Ok(());
        }
        let here = ListParams::default().fields(&format!("spec.nodeName={host}"));
        for pod in Api::<Pod>::all(client.clone()).list(&here).await? {
            if pod.metadata.deletion_timestamp.is_some() || ended(&pod) {
                continue;
            }
            let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
            match pods.evict(&pod.name_any(), &EvictParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    let why = format!("{host}: {} waits: {}", pod.name_any(), status.message);
                    if why != told {
                        eprintln!("{why}");
                        told = why;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        look += PAUSE;
        tokio::time::sleep_until(look).await;
    }
}
