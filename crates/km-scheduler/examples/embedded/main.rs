//! A program that runs one pod on Mesos by itself, without an API server.
//!
//! ```text
//! embedded --master 127.0.0.1:5050 --machine HOSTNAME -- sleep 1000
//! ```
//!
//! waits for an offer of that machine, launches a pod there, says when it runs, deletes it, and ends when it is gone.
//! Mesos starts the same program as the executor (`embedded executor`): it runs the containers' commands as processes.

mod executor;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use clap::Parser;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use km_mesos_client::scheduler::Options;
use km_mesos_proto::v1;
use km_scheduler::embed::{Error, MesosDriver, PodKey, Scheduler, fcfs};
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Flags {
    /// `host:port` of the Mesos master.
    #[arg(long)]
    master: String,
    /// Host names of agents that the pod may run on.
    #[arg(long, required = true)]
    machine: Vec<String>,
    /// Seconds to wait for each step.
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// What the pod's container runs.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("executor") {
        return executor::run().await;
    }
    km_observe::init_logging("warn");
    let flags = Flags::parse();
    let scheduler = Arc::new(Scheduler::new(this_program_as_executor()?, fcfs));
    let (driver, connection) = MesosDriver::new(Options::new(flags.master.parse().context("--master")?));
    scheduler.set_driver(driver);

    let stop = CancellationToken::new();
    let connected = {
        let (scheduler, stop) = (Arc::clone(&scheduler), stop.clone());
        tokio::spawn(async move { connection.run(&scheduler, framework(), &stop).await })
    };
    let pod = tokio::task::spawn_blocking(move || run_pod(&scheduler, &flags)).await?;
    stop.cancel();
    connected.await??;
    pod
}

/// The life of the pod. Blocks.
fn run_pod(scheduler: &Scheduler, flags: &Flags) -> anyhow::Result<()> {
    let patience = Duration::from_secs(flags.patience);
    let (pod, key) = (pod(&flags.command), PodKey::new("default", "embedded"));
    let machine = scheduler.schedule_within(patience, pod, || Ok::<_, std::io::Error>(flags.machine.clone()))?;
    println!("scheduled on {machine}");
    scheduler.create_pod(&key)?;
    wait(patience, "the pod runs", || {
        let status = scheduler.get_pod(&key)?.status.unwrap_or_default();
        let ready = status.container_statuses.into_iter().flatten().filter(|container| container.ready).count();
        Ok((status.phase.as_deref() == Some("Running")).then_some(ready))
    })
    .map(|ready| println!("running with {ready} container(s)"))?;
    scheduler.delete_pod(&key)?;
    wait(patience, "the pod is gone", || match scheduler.get_pod(&key) {
        Ok(_) => Ok(None),
        Err(Error::UnknownPod(_)) => Ok(Some(())),
        Err(other) => Err(other.into()),
    })?;
    println!("gone");
    Ok(())
}

/// Waits until `look` finds something.
fn wait<T>(patience: Duration, what: &str, mut look: impl FnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let start = std::time::Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        anyhow::ensure!(start.elapsed() < patience, "{what}: not within {} s", patience.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pod(command: &[String]) -> Pod {
    let container = Container { name: "main".to_owned(), command: Some(command.to_vec()), ..Container::default() };
    let mut pod = Pod { spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }), ..Pod::default() };
    pod.metadata.name = Some("embedded".to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod
}

fn framework() -> v1::FrameworkInfo {
    v1::FrameworkInfo { user: "root".to_owned(), name: "embedded".to_owned(), ..v1::FrameworkInfo::default() }
}

/// Agents must find this program under the path it has here.
fn this_program_as_executor() -> anyhow::Result<v1::ExecutorInfo> {
    let program = std::env::current_exe().context("can't find the running program")?.display().to_string();
    let command = v1::CommandInfo {
        shell: Some(false),
        value: Some(program.clone()),
        arguments: vec![program, "executor".to_owned()],
        ..v1::CommandInfo::default()
    };
    Ok(v1::ExecutorInfo {
        executor_id: "embedded".into(),
        r#type: Some(v1::executor_info::Type::Custom as i32),
        command: Some(command),
        ..v1::ExecutorInfo::default()
    })
}
