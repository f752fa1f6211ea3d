//! What the benchmarks compare with: parts that speak the real protocols and do nothing besides.
//!
//! Each command prints one line of JSON with what it measured. `bench/` starts them and computes the ratios.

mod api;
mod hollow;
mod load;
mod mesos;
mod null_executor;
mod null_framework;
mod null_mesos_scheduler;
mod null_scheduler;
mod task;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "km-bench", about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A framework that launches tasks and does nothing else.
    NullFramework(null_framework::Flags),
    /// The executor of that framework: each task is RUNNING at once.
    NullExecutor,
    /// A scheduler that binds each pod at once, to one node after the other.
    NullScheduler(null_scheduler::Flags),
    /// A scheduler that launches each pod at once as a task of the first offer with room.
    NullMesosScheduler(null_mesos_scheduler::Flags),
    /// Mesos agents whose executors bind pods and start no container.
    HollowAgents(hollow::Flags),
    /// Creates pods and waits until all are bound.
    Load(load::Flags),
}

fn main() -> ExitCode {
    km_observe::init_logging("warn");
    // Only the first provider counts, and there is no other.
    let _first = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        match Cli::parse().command {
            Command::NullFramework(flags) => null_framework::run(flags).await,
            Command::NullExecutor => null_executor::run().await,
            Command::NullScheduler(flags) => null_scheduler::run(flags).await,
            Command::NullMesosScheduler(flags) => null_mesos_scheduler::run(flags).await,
            Command::HollowAgents(flags) => hollow::run(flags).await,
            Command::Load(flags) => load::run(flags).await,
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
