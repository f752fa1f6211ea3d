//! The two clusters that are compared: Apache Mesos as processes of its own, and the embedded master and agents.

use std::{
    env,
    net::TcpListener,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use km_mesos::{agent, master};
use km_observe::Started;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// What both clusters are started with.
pub struct Setup {
    /// How many agents; `{n}` in an agent's flag is its number.
    pub agents: usize,
    /// The agents' `--resources`.
    pub resources: &'static str,
    /// More flags of the master, `name=value`.
    pub master_flags: Vec<String>,
}

/// One agent or more of this size, and attributes of every type.
pub const RESOURCES: &str = "cpus:4;mem:4096;disk:4096;ports:[31000-31999]";
const ATTRIBUTES: &str = "rack:r{n};bar:baz;num:123;span:[1-17];dup:foo;dup:baz";
const MASTER_FLAGS: [&str; 3] = ["allocation_interval=50ms", "agent_ping_timeout=5secs", "max_agent_ping_timeouts=3"];
const AGENT_FLAGS: [&str; 4] = [
    "registration_backoff_factor=10ms",
    "executor_registration_timeout=10secs",
    "executor_reregistration_timeout=1secs",
    "executor_shutdown_grace_period=1secs",
];

impl Setup {
    fn master_flags(&self) -> impl Iterator<Item = &str> {
        MASTER_FLAGS.into_iter().chain(self.master_flags.iter().map(String::as_str))
    }
}

/// A running cluster.
pub struct Cluster {
    /// `host:port` of the master.
    pub master: String,
    /// Where scripts put files; removed with the cluster.
    pub folder: TempDir,
    running: Option<Running>,
}

enum Running {
    Real { program: PathBuf },
    Embedded { stop: CancellationToken, parts: Vec<Started> },
}

impl Cluster {
    /// Apache Mesos, as `KM_TEST_REAL_MESOS` (the script) and `KM_TEST_MESOS` (where it is installed) say.
    pub fn real(setup: &Setup) -> Result<Self> {
        let variable = |name: &str| {
            let value = env::var_os(name).map(PathBuf::from);
            value.with_context(|| format!("{name} is not set: run this suite by `cargo xtask test`"))
        };
        let (program, installed) = (variable("KM_TEST_REAL_MESOS")?, variable("KM_TEST_MESOS")?);
        let folder = tempfile::tempdir()?;
        for part in ["bin", "lib"] {
            let target = installed.join(part);
            ensure!(target.is_dir(), "{} is missing: run this suite by `cargo xtask test`", target.display());
            symlink(target, folder.path().join(part))?;
        }
        let port = free_ports(1 + setup.agents)?;
        let mut up = Command::new(&program);
        up.arg("up").arg(folder.path()).args(["--agents", &setup.agents.to_string(), "--port", &port.to_string()]);
        up.args(["--resources", setup.resources, "--attributes", ATTRIBUTES]);
        setup.master_flags().for_each(|flag| drop(up.args(["--master-flag", flag])));
        AGENT_FLAGS.iter().for_each(|flag| drop(up.args(["--agent-flag", flag])));
        let done = up.output().with_context(|| format!("cannot run {}", program.display()))?;
        ensure!(done.status.success(), "real-mesos up: {}", String::from_utf8_lossy(&done.stderr));
        Ok(Self { master: format!("127.0.0.1:{port}"), folder, running: Some(Running::Real { program }) })
    }

    /// The embedded master and agents, in this process.
    pub async fn embedded(setup: &Setup) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let stop = CancellationToken::new();
        let flags = parse::<master::Flags>(setup.master_flags().chain(["port=0"]))?;
        let master = master::start(flags, stop.clone()).await?;
        let address = master.address.to_string();
        let mut parts = vec![master];
        for number in 0..setup.agents {
            let number = number.to_string();
            let work_dir = format!("work_dir={}", folder.path().join("agent-{n}").display());
            let own = [
                format!("master={address}"),
                format!("resources={}", setup.resources),
                format!("attributes={ATTRIBUTES}"),
                work_dir,
            ];
            let own = own.map(|flag| flag.replace("{n}", &number));
            let flags = AGENT_FLAGS.into_iter().chain(["port=0", "hostname=127.0.0.1"]);
            let flags = parse::<agent::Flags>(flags.chain(own.iter().map(String::as_str)))?;
            parts.push(agent::start(flags, stop.clone()).await?);
        }
        Ok(Self { master: address, folder, running: Some(Running::Embedded { stop, parts }) })
    }

    /// Ends it, with all that it started.
    pub async fn end(mut self) -> Result<()> {
        match self.running.take() {
            None => Ok(()),
            Some(Running::Real { program }) => down(&program, self.folder.path()),
            Some(Running::Embedded { stop, parts }) => {
                stop.cancel();
                for part in parts {
                    part.task.await??;
                }
                Ok(())
            }
        }
    }
}

impl Drop for Cluster {
    /// After a panic: processes of their own would stay.
    fn drop(&mut self) {
        if let Some(Running::Real { program }) = self.running.take()
            && let Err(error) = down(&program, self.folder.path())
        {
            eprintln!("{error:#}");
        }
    }
}

fn down(program: &Path, folder: &Path) -> Result<()> {
    let done = Command::new(program).arg("down").arg(folder).output()?;
    ensure!(done.status.success(), "real-mesos down: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

fn parse<'a, F: clap::Args>(flags: impl Iterator<Item = &'a str>) -> Result<F> {
    #[derive(Parser)]
    struct Line<F: clap::Args> {
        #[command(flatten)]
        flags: F,
    }
    // The command line here has hyphens where that of Apache Mesos has underscores.
    let argument = |flag: &str| match flag.split_once('=') {
        Some((name, value)) => format!("--{}={value}", name.replace('_', "-")),
        None => format!("--{flag}"),
    };
    let arguments = flags.map(argument);
    Ok(Line::<F>::try_parse_from(["mesos".to_owned()].into_iter().chain(arguments))?.flags)
}

/// The first of so many neighbouring ports that were free a moment ago.
fn free_ports(count: usize) -> Result<u16> {
    for _ in 0..100 {
        let first = TcpListener::bind(("127.0.0.1", 0))?;
        let port = first.local_addr()?.port();
        let free = |offset: usize| {
            let port = u16::try_from(usize::from(port) + offset).ok()?;
            TcpListener::bind(("127.0.0.1", port)).ok()
        };
        let others: Option<Vec<TcpListener>> = (1..count).map(free).collect();
        if others.is_some() {
            return Ok(port);
        }
    }
    anyhow::bail!("no {count} neighbouring ports are free")
}
