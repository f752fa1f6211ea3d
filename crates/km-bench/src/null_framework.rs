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
        self, Filters,
        offer::{Operation, operation},
        scheduler::{Call, call, event},
    },
};
use serde_json::json;
use tokio::{task::JoinSet, time::timeout};

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
        client.subscribe(framework(flags.checkpoint), Vec::new()).await.context("can't subscribe")?;
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

fn framework(checkpoint: bool) -> v1::FrameworkInfo {
    use v1::framework_info::{Capability, capability::Type};
    let capability = |kind: Type| Capability { r#type: Some(kind as i32) };
    v1::FrameworkInfo {
        user: "root".to_owned(),
        name: "null".to_owned(),
        checkpoint: Some(checkpoint),
        roles: vec!["*".to_owned()],
        capabilities: vec![capability(Type::MultiRole), capability(Type::PartitionAware)],
        ..v1::FrameworkInfo::default()
    }
}

/// Launches the tasks on whatever is offered; answers the number of ACCEPT calls when all are RUNNING.
async fn launch_all(session: &Session, events: &mut EventStream, flags: &Flags) -> anyhow::Result<usize> {
    let (task, executor) = (Resources::parse(TASK, "*")?, Resources::parse(EXECUTOR, "*")?);
    let (tasks, mut launched, mut accepts) = (flags.tasks, 0, 0);
    let mut by_agent = BTreeMap::<String, usize>::new();
    let mut running = BTreeSet::new();
    // Waiting for each answer would make the way to the master the limit.
    let mut acknowledgements = JoinSet::new();
    while running.len() < tasks {
        let event = events.next().await.context("the master closed the stream")?.context("the stream broke")?;
        match event.r#type() {
            event::Type::Offers => {
                for offer in event.offers.map(|offers| offers.offers).unwrap_or_default() {
                    let here = by_agent.entry(offer.agent_id.value.clone()).or_default();
                    let room = room(&offer, if *here == 0 { Some(&executor) } else { None }, &task)?;
                    let count = room.min(tasks - launched).min(flags.per_agent.saturating_sub(*here));
                    *here += count;
                    accepts += usize::from(count > 0);
                    session.call(accept(&offer, launched..launched + count, &task, &executor)?).await?;
                    launched += count;
                }
            }
            event::Type::Update => {
                let status = event.update.context("an update without status")?.status;
                if let Some(acknowledgement) = acknowledgement(&status) {
                    let session = session.clone();
                    acknowledgements.spawn(async move { session.call(acknowledgement).await });
                }
                while let Some(ended) = acknowledgements.try_join_next() {
                    ended.context("an acknowledgement panicked")?.context("the master took no acknowledgement")?;
                }
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

/// How many tasks fit into an offer.
fn room(offer: &v1::Offer, executor: Option<&Resources>, task: &Resources) -> anyhow::Result<usize> {
    let mut offered = Resources::from_protos(&offer.resources)?;
    offered.unallocate();
    let left = |name: &str| {
        let executor = executor.map_or(0, |executor| executor.scalar(name).milli());
        ((offered.scalar(name).milli() - executor) / task.scalar(name).milli()).max(0)
    };
    Ok(usize::try_from(left("cpus").min(left("mem")))?)
}

/// With no task it is the offer's decline.
fn accept(
    offer: &v1::Offer,
    names: std::ops::Range<usize>,
    task: &Resources,
    executor: &Resources,
) -> anyhow::Result<Call> {
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
    let launch = Operation {
        r#type: Some(operation::Type::Launch as i32),
        launch: Some(operation::Launch { task_infos: tasks.collect() }),
        ..Operation::default()
    };
    Ok(Call {
        r#type: Some(call::Type::Accept.into()),
        accept: Some(call::Accept {
            offer_ids: vec![offer.id.clone()],
            operations: vec![launch],
            filters: Some(Filters { refuse_seconds: Some(0.0) }),
        }),
        ..Call::default()
    })
}

fn acknowledgement(status: &v1::TaskStatus) -> Option<Call> {
    let (uuid, agent_id) = (status.uuid.clone()?, status.agent_id.clone()?);
    let acknowledge = call::Acknowledge { agent_id, task_id: status.task_id.clone(), uuid };
    Some(Call { r#type: Some(call::Type::Acknowledge.into()), acknowledge: Some(acknowledge), ..Call::default() })
}
