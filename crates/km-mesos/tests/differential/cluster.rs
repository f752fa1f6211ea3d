//! The two clusters that are compared: Apache Mesos as processes of its own, and the embedded master and agents.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    net::{SocketAddr, TcpListener},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use km_mesos::{agent, master};
use km_observe::Started;
use tempfile::TempDir;
use tokio::sync::Mutex;
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
    /// The last of each name counts.
    fn master_flags(&self) -> BTreeMap<&str, &str> {
        let flags = MASTER_FLAGS.into_iter().chain(self.master_flags.iter().map(String::as_str));
        flags.filter_map(|flag| flag.split_once('=')).collect()
    }
}

/// A running cluster.
pub struct Cluster {
    /// `host:port` of the master.
    pub master: String,
    /// Where scripts put files; removed with the cluster.
    pub folder: TempDir,
    /// `master`, `agent-0`, ...
    pub parts: Arc<Parts>,
    ended: bool,
}

/// The parts of a cluster, which can be stopped and started one by one.
pub enum Parts {
    /// Processes, controlled by the script.
    Real {
        /// The script.
        program: PathBuf,
        /// Of the cluster.
        folder: PathBuf,
    },
    /// Of this process.
    Embedded(Mutex<BTreeMap<String, Part>>),
}

/// A part of the embedded cluster.
pub struct Part {
    flags: Flags,
    running: Option<(CancellationToken, Started)>,
}

#[derive(Clone)]
enum Flags {
    Master(master::Flags),
    Agent(agent::Flags),
}

impl Part {
    async fn start(&mut self) -> Result<SocketAddr> {
        let stop = CancellationToken::new();
        let started = match self.flags.clone() {
            Flags::Master(flags) => master::start(flags, stop.clone()).await?,
            Flags::Agent(flags) => agent::start(flags, stop.clone()).await?,
        };
        let address = started.address;
        self.running = Some((stop, started));
        Ok(address)
    }

    async fn stop(&mut self) -> Result<()> {
        let Some((stop, started)) = self.running.take() else { return Ok(()) };
        stop.cancel();
        started.join().await
    }
}

impl Parts {
    /// Stops a part. An agent ends its executors and tells the master; the master just ends.
    pub async fn stop(&self, name: &str) -> Result<()> {
        match self {
            Self::Real { program, folder } => {
                let signal = if name == "master" { "KILL" } else { "USR1" };
                control(
                    program,
                    &["stop".as_ref(), folder.as_ref(), name.as_ref(), "--signal".as_ref(), signal.as_ref()],
                )
            }
            Self::Embedded(parts) => parts.lock().await.get_mut(name).context("a known part")?.stop().await,
        }
    }

    /// Starts it again with the same flags.
    pub async fn start(&self, name: &str) -> Result<()> {
        match self {
            Self::Real { program, folder } => control(program, &["start".as_ref(), folder.as_ref(), name.as_ref()]),
            Self::Embedded(parts) => {
                parts.lock().await.get_mut(name).context("a known part")?.start().await?;
                Ok(())
            }
        }
    }
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
        for (name, value) in setup.master_flags() {
            up.args(["--master-flag", &format!("{name}={value}")]);
        }
        for flag in AGENT_FLAGS {
            up.args(["--agent-flag", flag]);
        }
        let done = up.output().with_context(|| format!("cannot run {}", program.display()))?;
        ensure!(done.status.success(), "real-mesos up: {}", String::from_utf8_lossy(&done.stderr));
        let parts = Arc::new(Parts::Real { program, folder: folder.path().to_owned() });
        Ok(Self { master: format!("127.0.0.1:{port}"), folder, parts, ended: false })
    }

    /// The embedded master and agents, in this process.
    pub async fn embedded(setup: &Setup) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let work_dir = |name: &str| format!("work_dir={}", folder.path().join(name).display());
        let mut own: Vec<String> = setup.master_flags().iter().map(|(name, value)| format!("{name}={value}")).collect();
        own.extend(["port=0".to_owned(), work_dir("master")]);
        let flags = parse::<master::Flags>(own.iter().map(String::as_str))?;
        let mut master = Part { flags: Flags::Master(flags.clone()), running: None };
        let address = master.start().await?;
        // When it is started again, agents look for it at the same place.
        master.flags = Flags::Master(master::Flags { port: address.port(), ..flags });
        let mut parts = BTreeMap::from([("master".to_owned(), master)]);
        for number in 0..setup.agents {
            let number = number.to_string();
            let own = [
                format!("master={address}"),
                format!("resources={}", setup.resources),
                format!("attributes={ATTRIBUTES}"),
                work_dir("agent-{n}"),
            ];
            let own = own.map(|flag| flag.replace("{n}", &number));
            let flags = AGENT_FLAGS.into_iter().chain(["port=0", "hostname=127.0.0.1"]);
            let flags = parse::<agent::Flags>(flags.chain(own.iter().map(String::as_str)))?;
            let mut agent = Part { flags: Flags::Agent(flags), running: None };
            agent.start().await?;
            parts.insert(format!("agent-{number}"), agent);
        }
        let parts = Arc::new(Parts::Embedded(Mutex::new(parts)));
        Ok(Self { master: address.to_string(), folder, parts, ended: false })
    }

    /// Ends it, with all that it started.
    pub async fn end(mut self) -> Result<()> {
        self.ended = true;
        match &*self.parts {
            Parts::Real { program, folder } => down(program, folder),
            // Agents come first: they tell the master.
            Parts::Embedded(parts) => {
                for part in parts.lock().await.values_mut() {
                    part.stop().await?;
                }
                Ok(())
            }
        }
    }
}

impl Drop for Cluster {
    /// After a panic: processes of their own would stay.
    fn drop(&mut self) {
        if !self.ended
            && let Parts::Real { program, folder } = &*self.parts
            && let Err(error) = down(program, folder)
        {
            eprintln!("{error:#}");
        }
    }
}

fn down(program: &Path, folder: &Path) -> Result<()> {
    control(program, &["down".as_ref(), folder.as_ref()])
}

fn control(program: &Path, arguments: &[&OsStr]) -> Result<()> {
    let done = Command::new(program).args(arguments).output()?;
    ensure!(done.status.success(), "real-mesos {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
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
