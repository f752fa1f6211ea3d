//! The framework that does nothing but launch tasks: what a master and its agents allow at most.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use futures::StreamExt;
use km_mesos_client::scheduler::{EventStream, Options, Session, connect};
use km_mesos_proto::{
    resources::Resources,
    v1::{
        self,
        scheduler::{Call, call, event},
    },
};
use serde_json::json;
use tokio::time::timeout;

use crate::mesos::{self, Acknowledgements};

/// What each task takes, and what its executor takes once an agent.
const TASK: &str = "cpus:0.001;mem:1";
const EXECUTOR: &str = "cpus:0.01;mem:32";

#[derive(clap::Args)]
pub struct Flags {
    /// The Mesos master, host:port.
    #[arg(long)]
    master: String,
    /// How many tasks to launch.
    #[arg(long, default_value_t = 200)]
    tasks: usize,
    /// The most of them on one agent, so that they spread as what they are compared with does.
    #[arg(long, default_value_t = usize::MAX)]
    per_agent: usize,
    /// Whether agents keep its tasks on disk, as those of km's framework.
    #[arg(long)]
    checkpoint: bool,
    /// Longest time until all are RUNNING, in seconds.
    #[arg(long, default_value_t = 300)]
    limit: u64,
}

pub async fn run(flags: Flags) -> anyhow::Result<()> {
    let client = connect(Options::new(flags.master.parse().context("--master")?))?;
    let (session, mut events) =
        client.subscribe(mesos::framework(flags.checkpoint), Vec::new()).await.context("can't subscribe")?;
    let began = Instant::now();
    let result = timeout(Duration::from_secs(flags.limit), launch_all(&session, &mut events, &flags)).await;
    let took = began.elapsed();
    // The stream is open still: without it the framework would be gone already.
    let teardown = Call { r#type: Some(call::Type::Teardown.into()), ..Call::default() };
    session.call(teardown).await.context("can't tear the framework down")?;
    let accepts = result.with_context(|| format!("not all tasks ran within {} s", flags.limit))??;
    let rate = flags.tasks as f64 / took.as_secs_f64();
    println!("{}", json!({ "tasks": flags.tasks, "seconds": took.as_secs_f64(), "rate": rate, "accepts": accepts }));
    Ok(())
}

/// Launches the tasks on whatever is offered; answers the number of ACCEPT calls when all are RUNNING.
async fn launch_all(session: &Session, events: &mut EventStream, flags: &Flags) -> anyhow::Result<usize> {
    let (task, executor) = (Resources::parse(TASK, "*")?, Resources::parse(EXECUTOR, "*")?);
    let (tasks, mut launched, mut accepts) = (flags.tasks, 0, 0);
    let mut by_agent = BTreeMap::<String, usize>::new();
    let mut running = BTreeSet::new();
    let mut acknowledgements = Acknowledgements::new(session);
    while running.len() < tasks {
        let event = events.next().await.context("the master closed the stream")?.context("the stream broke")?;
        match event.r#type() {
            event::Type::Offers => {
                for offer in event.offers.map(|offers| offers.offers).unwrap_or_default() {
                    let here = by_agent.entry(offer.agent_id.value.clone()).or_default();
                    let room = mesos::room(&offer, if *here == 0 { Some(&executor) } else { None }, &task)?;
                    let count = room.min(tasks - launched).min(flags.per_agent.saturating_sub(*here));
                    *here += count;
                    accepts += usize::from(count > 0);
                    let tasks = tasks_of(&offer, launched..launched + count, &task, &executor)?;
                    session.call(mesos::launch(&offer, tasks)).await?;
                    launched += count;
                }
            }
            event::Type::Update => {
                let status = event.update.context("an update without status")?.status;
                acknowledgements.send(&status)?;
                match status.state() {
                    v1::TaskState::TaskRunning => running.insert(status.task_id.value),
                    v1::TaskState::TaskStarting => false,
                    state => bail!("task {} is {}: {:?}", status.task_id.value, state.as_str_name(), status.message),
                };
            }
            _ => {}
        }
    }
    Ok(accepts)
}

fn tasks_of(
    offer: &v1::Offer,
    names: std::ops::Range<usize>,
    task: &Resources,
    executor: &Resources,
) -> anyhow::Result<Vec<v1::TaskInfo>> {
    let program = std::env::current_exe().context("can't find the path of this program")?.display().to_string();
    let executor = v1::ExecutorInfo {
        r#type: Some(v1::executor_info::Type::Custom.into()),
        executor_id: "null".into(),
        command: Some(v1::CommandInfo {
            shell: Some(false),
            value: Some(program.clone()),
            arguments: vec![program, "null-executor".to_owned()],
            ..v1::CommandInfo::default()
        }),
        resources: executor.to_protos(),
        ..v1::ExecutorInfo::default()
    };
    let tasks = names.map(|number| v1::TaskInfo {
        name: format!("null-{number}"),
        task_id: format!("null-{number}").into(),
        agent_id: offer.agent_id.clone(),
        executor: Some(executor.clone()),
        resources: task.to_protos(),
        ..v1::TaskInfo::default()
    });
    Ok(tasks.collect())
}
