//! The scheduler that launches each pod as a Mesos task without a thought: what is left of a real one's way when the
//! scheduler itself costs as little as can be.

use std::{
    collections::{HashSet, VecDeque},
    path::PathBuf,
};

use anyhow::{Context, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use km_mesos_client::scheduler::{Options, connect};
use km_mesos_proto::{
    resources::Resources,
    v1::{self, scheduler::event},
};
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};

use crate::{
    api,
    mesos::{self, Acknowledgements},
};

/// What each pod takes, whatever it asks for, and what the executor takes once an agent.
const TASK: &str = "cpus:0.1;mem:64";
const EXECUTOR: &str = "cpus:0.25;mem:128";

#[derive(clap::Args)]
pub struct Flags {
    /// Kubeconfig of the API server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The Mesos master, host:port. Its agents are hollow ones: they bind the pods.
    #[arg(long)]
    master: String,
}

/// Pods that wait, offers that wait, and what a task of any pod says.
struct Matching {
    pods: VecDeque<Pod>,
    offers: VecDeque<v1::Offer>,
    task: Resources,
    executor: Resources,
}

/// Runs until it is ended. It prints `ready` when it is subscribed.
pub async fn run(flags: Flags) -> anyhow::Result<()> {
    let client = api::client(&flags.kubeconfig).await?;
    let master = connect(Options::new(flags.master.parse().context("--master")?))?;
    let (session, mut events) =
        master.subscribe(mesos::framework(true), Vec::new()).await.context("can't subscribe")?;
    let pods = watcher(Api::<Pod>::all(client), watcher::Config::default().fields("spec.nodeName="));
    let pods = pods.default_backoff().applied_objects();
    let mut pods = std::pin::pin!(pods.ready_chunks(256));
    let mut acknowledgements = Acknowledgements::new(&session);
    let mut matching = Matching {
        pods: VecDeque::new(),
        offers: VecDeque::new(),
        task: Resources::parse(TASK, "*")?,
        executor: Resources::parse(EXECUTOR, "*")?,
    };
    // A pod that is changed before it is bound comes again.
    let mut seen = HashSet::new();
    println!("ready");
    loop {
        tokio::select! {
            some = pods.next() => {
                for pod in some.context("the watch ended")? {
                    let pod = pod.context("the watch broke")?;
                    if seen.insert(pod.metadata.uid.clone()) && pod.metadata.deletion_timestamp.is_none() {
                        matching.pods.push_back(pod);
                    }
                }
            }
            event = events.next() => {
                let event = event.context("the master closed the stream")?.context("the stream broke")?;
                match event.r#type() {
                    event::Type::Offers => {
                        matching.offers.extend(event.offers.map(|offers| offers.offers).unwrap_or_default());
                    }
                    event::Type::Update => {
                        let status = event.update.context("an update without status")?.status;
                        acknowledgements.send(&status)?;
                        if !matches!(status.state(), v1::TaskState::TaskStarting | v1::TaskState::TaskRunning) {
                            bail!("{} is {}", status.task_id.value, status.state().as_str_name());
                        }
                    }
                    _ => {}
                }
            }
        }
        while let Some((offer, tasks)) = matching.next()? {
            session.call(mesos::launch(&offer, tasks)).await?;
        }
    }
}

impl Matching {
    /// As many pods as fit into the first offer, in the order in which they came.
    fn next(&mut self) -> anyhow::Result<Option<(v1::Offer, Vec<v1::TaskInfo>)>> {
        if self.pods.is_empty() {
            return Ok(None);
        }
        let Some(offer) = self.offers.pop_front() else { return Ok(None) };
        let room = mesos::room(&offer, Some(&self.executor), &self.task)?;
        let count = room.min(self.pods.len());
        let pods = self.pods.drain(..count);
        let executor = v1::ExecutorInfo {
            r#type: Some(v1::executor_info::Type::Custom.into()),
            executor_id: "null".into(),
            command: Some(v1::CommandInfo { value: Some("true".to_owned()), ..v1::CommandInfo::default() }),
            resources: self.executor.to_protos(),
            ..v1::ExecutorInfo::default()
        };
        let tasks = pods.map(|pod| {
            Ok(v1::TaskInfo {
                name: pod.metadata.name.clone().unwrap_or_default(),
                task_id: pod.metadata.uid.as_deref().unwrap_or_default().into(),
                agent_id: offer.agent_id.clone(),
                executor: Some(executor.clone()),
                resources: self.task.to_protos(),
                data: Some(serde_json::to_vec(&pod)?),
                ..v1::TaskInfo::default()
            })
        });
        let tasks = tasks.collect::<anyhow::Result<_>>()?;
        Ok(Some((offer, tasks)))
    }
}
