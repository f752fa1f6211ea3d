//! Agents by the thousand in one process: each has its own link to the embedded master, and an executor that binds
//! pods through the API server and starts no container.

mod agent;
mod executor;

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use km_mesos::agent::link;
use km_mesos_proto::resources::Resources;

use crate::api;
use agent::{Agent, Template};
use executor::Executor;

#[derive(clap::Args)]
pub struct Flags {
    /// The embedded Mesos master, host:port.
    #[arg(long)]
    master: String,
    /// Kubeconfig that the executors bind pods with.
    #[arg(long)]
    kubeconfig: PathBuf,
    #[arg(long, default_value_t = 100)]
    agents: usize,
    /// What each agent has.
    #[arg(long, default_value = "cpus:32;mem:65536;disk:102400;ports:[31000-32000]")]
    resources: String,
}

/// Runs until it is ended, or an agent is refused. It prints `ready` when all agents are registered.
pub async fn run(flags: Flags) -> anyhow::Result<()> {
    let client = api::client(&flags.kubeconfig).await?;
    let resources = Resources::parse(&flags.resources, "*").context("--resources")?.to_protos();
    let template = Arc::new(Template { resources, executor: Executor::new(client) });
    let http = link::client();
    let (registered, mut arrivals) = tokio::sync::mpsc::channel(flags.agents.max(1));
    let mut agents = tokio::task::JoinSet::new();
    for number in 1..=flags.agents {
        let link = (flags.master.clone(), http.clone());
        agents.spawn(Agent::new(number, Arc::clone(&template), link).run(registered.clone()));
    }
    for _ in 0..flags.agents {
        tokio::select! {
            arrival = arrivals.recv() => arrival.context("no agent is left")?,
            ended = agents.join_next() => return ended.context("no agent is left")?.context("an agent panicked")?,
        }
    }
    println!("ready");
    agents.join_next().await.context("there are no agents")?.context("an agent panicked")?
}
