//! The command line: which command, in which runtime.

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::{
    commands::{
        check, down, drain_executors, explain, image, kubeconfig, offers, reconcile, reset, scheduler, status, tasks,
        up, version,
    },
    exit::{Exit, Failed},
    role,
};

/// Kubernetes as a framework of Apache Mesos, in one binary.
#[derive(Parser, Debug)]
#[command(name = "km", version, arg_required_else_help = true, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
#[expect(clippy::large_enum_variant, reason = "one value a process; boxing would only hide the flags")]
enum Command {
    /// Start a whole cluster on this machine.
    Up(up::Flags),
    /// Stop the cluster of a data directory; its objects stay.
    Down(down::Flags),
    /// Stop the cluster and delete its data directory.
    Reset(reset::Flags),
    /// Tell what runs.
    Status(status::Flags),
    /// Tell whether this machine can run containers.
    Check(check::Flags),
    /// Load, list and remove container images.
    #[command(subcommand)]
    Image(image::Command),
    /// Print or merge the cluster's kubeconfig.
    Kubeconfig(kubeconfig::Flags),
    /// Tell why a pod waits, agent by agent.
    #[command(subcommand)]
    Explain(explain::Command),
    /// List the offers that the scheduler holds or declined.
    Offers(scheduler::Question),
    /// List the Mesos tasks of pods.
    Tasks(scheduler::Question),
    /// Ask Mesos for the state of tasks.
    Reconcile(reconcile::Flags),
    /// Empty the agents that run an executor of an earlier configuration.
    DrainExecutors(drain_executors::Flags),
    /// Print the version.
    Version(version::Flags),
    /// The Kubernetes API server.
    Apiserver(km_apiserver::Flags),
    /// The Kubernetes controllers.
    ControllerManager(km_controllers::Flags),
    /// The scheduler: a Mesos framework.
    Scheduler(km_scheduler::Flags),
    /// The executor: a Mesos executor with a kubelet inside (started by `km minion`).
    Executor(km_executor::Flags),
    /// The supervisor of executor and proxy (started by a Mesos agent).
    Minion(km_minion::Flags),
    /// The service proxy (started by `km minion`).
    Proxy(km_proxy::Flags),
    /// An embedded Mesos master.
    MesosMaster(km_mesos::master::Flags),
    /// An embedded Mesos agent.
    MesosAgent(km_mesos::agent::Flags),
}

/// Runs the command that `arguments` name.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(with_hyphens(with_old_name(arguments))) {
        Ok(cli) => cli,
        Err(error) => {
            let asked_for = !error.use_stderr();
            // A closed stdout or stderr leaves nobody to tell.
            let _gone = error.print();
            return if asked_for { ExitCode::SUCCESS } else { ExitCode::from(Exit::Usage as u8) };
        }
    };
    // The first installation wins; nothing else installs one before this line.
    let _first = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failed::from(error).report(),
    };
    let result = runtime.block_on(dispatch(cli.command));
    // What still blocks (a read of stdin, a slow disk) must not hold up the end.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    match result {
        Ok(code) => code,
        Err(failed) => failed.report(),
    }
}

/// The names of the original's binaries, kept alive by links to this one: `k8sm-scheduler` is `km scheduler`.
fn with_old_name(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    let role = match name.unwrap_or_default() {
        "k8sm-scheduler" => "scheduler",
        "k8sm-executor" => "executor",
        "k8sm-controller-manager" => "controller-manager",
        _ => return arguments,
    };
    arguments.insert(1, role.into());
    arguments
}

/// Flags may be written with underscores, as Mesos and the first k8sm did: `--work_dir=/x_y` is `--work-dir=/x_y`. What
/// stands behind a `--` alone is none of ours.
fn with_hyphens(mut arguments: Vec<OsString>) -> Vec<OsString> {
    for word in arguments.iter_mut().skip(1).take_while(|word| *word != "--") {
        let Some(flag) = word.to_str().filter(|text| text.starts_with("--")) else { continue };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let name = name.replace('_', "-");
        *word = value.map_or_else(|| name.clone(), |value| format!("{name}={value}")).into();
    }
    arguments
}

async fn dispatch(command: Command) -> Result<ExitCode, Failed> {
    match command {
        Command::Up(flags) => up::run(flags).await?,
        Command::Down(flags) => down::run(flags).await?,
        Command::Reset(flags) => reset::run(flags).await?,
        Command::Status(flags) => status::run(flags).await?,
        Command::Check(flags) => check::run(&flags).await?,
        Command::Image(command) => image::run(command).await?,
        Command::Kubeconfig(flags) => kubeconfig::run(&flags)?,
        Command::Explain(command) => explain::run(command).await?,
        Command::Offers(flags) => offers::run(flags).await?,
        Command::Tasks(flags) => tasks::run(flags).await?,
        Command::Reconcile(flags) => reconcile::run(flags).await?,
        Command::DrainExecutors(flags) => drain_executors::run(flags).await?,
        Command::Version(flags) => version::run(&flags)?,
        Command::Minion(flags) => {
            let stop = role::stop_on_signal();
            km_observe::init_logging("info");
            return Ok(ExitCode::from(km_minion::run(flags, stop).await?));
        }
        Command::Apiserver(flags) => role::run(|stop| km_apiserver::start(flags, stop)).await?,
        Command::ControllerManager(flags) => role::run(|stop| km_controllers::start(flags, stop)).await?,
        Command::Scheduler(flags) => role::run(|stop| km_scheduler::start(flags, stop)).await?,
        Command::Executor(flags) => role::run(|stop| km_executor::start(flags, stop)).await?,
        Command::Proxy(flags) => role::run(|stop| km_proxy::start(flags, stop)).await?,
        Command::MesosMaster(flags) => role::run(|stop| km_mesos::master::start(flags, stop)).await?,
        Command::MesosAgent(flags) => role::run(|stop| km_mesos::agent::start(flags, stop)).await?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn old_names_choose_the_role() {
        let words = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            with_old_name(words(&["/x/k8sm-executor", "--port=1"])),
            words(&["/x/k8sm-executor", "executor", "--port=1"])
        );
        assert_eq!(with_old_name(words(&["/x/km", "up"])), words(&["/x/km", "up"]));
    }

    #[test]
    fn flags_may_have_underscores() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let table = [
            ("km mesos-agent --work_dir=/a_b", "km mesos-agent --work-dir=/a_b"),
            ("km scheduler --mesos_master m_1:5050", "km scheduler --mesos-master m_1:5050"),
            ("k_m up -o a_b", "k_m up -o a_b"),
            ("km up -- --a_b", "km up -- --a_b"),
            ("km x --minion_flag=--executor_arg=--a_b", "km x --minion-flag=--executor_arg=--a_b"),
        ];
        for (given, expected) in table {
            assert_eq!(with_hyphens(words(given)), words(expected));
        }
        let line = words("km scheduler --kubeconfig=/k --failover_timeout=60 --framework_name=a_b");
        let Command::Scheduler(flags) = Cli::try_parse_from(with_hyphens(line)).expect("a good line").command else {
            panic!("another command");
        };
        assert_eq!((flags.failover_timeout, flags.framework_name.as_str()), (60.0, "a_b"));
    }
}
