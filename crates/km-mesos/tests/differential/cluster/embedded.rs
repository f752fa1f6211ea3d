//! The embedded master and agents: each a process of `part.rs`.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use nix::{sys::signal::Signal, unistd::Pid};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::Mutex,
    time::timeout,
};

use super::{PATIENCE, Setup, set};

/// The processes of one cluster.
#[derive(Clone)]
pub struct Embedded {
    folder: PathBuf,
    parts: Arc<Mutex<BTreeMap<String, Part>>>,
}

struct Part {
    role: &'static str,
    flags: Vec<String>,
    process: Option<Child>,
}

impl Embedded {
    /// Starts a master and agents; tells the master's port.
    pub async fn start_all(setup: &Setup, folder: &Path) -> Result<(Self, u16)> {
        let own = Self { folder: folder.to_owned(), parts: Arc::default() };
        let port = km_testkit::free_ports(u16::try_from(1 + setup.agents)?);
        let mut flags = setup.master_flags(folder);
        flags.extend([format!("port={port}"), format!("work_dir={}", folder.join("master").display())]);
        own.add("master", "master", flags).await?;
        for number in 0..setup.agents {
            let mut flags: Vec<String> = setup.agent_flags(folder);
            flags.extend([
                format!("port={}", usize::from(port) + 1 + number),
                format!("master=127.0.0.1:{port}"),
                "hostname=127.0.0.1".to_owned(),
                format!("work_dir={}", folder.join(format!("agent-{number}")).display()),
            ]);
            let flags = flags.iter().map(|flag| flag.replace("{n}", &number.to_string())).collect();
            own.add(&format!("agent-{number}"), "agent", flags).await?;
        }
        Ok((own, port))
    }

    async fn add(&self, name: &str, role: &'static str, flags: Vec<String>) -> Result<()> {
        self.parts.lock().await.insert(name.to_owned(), Part { role, flags, process: None });
        self.start(name, &[]).await
    }

    pub async fn start(&self, name: &str, changed: &[&str]) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log(name))?;
        let mut parts = self.parts.lock().await;
        let part = parts.get_mut(name).with_context(|| format!("no part is called {name}"))?;
        ensure!(!part.process.as_mut().is_some_and(runs), "{name} runs already");
        changed.iter().for_each(|flag| set(&mut part.flags, flag));
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesos-part"));
        command.arg(part.role).args(part.flags.iter().map(|flag| argument(flag)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut process = command.spawn().context("cannot start mesos-part")?;
        let output = process.stdout.take().context("the output is a pipe")?;
        let (mut output, mut address) = (BufReader::new(output), String::new());
        timeout(PATIENCE, output.read_line(&mut address)).await.with_context(|| format!("{name} did not begin"))??;
        ensure!(!address.is_empty(), "{name} ended at once");
        part.process = Some(process);
        Ok(())
    }

    pub async fn signal(&self, name: &str, signal: &str) -> Result<()> {
        let mut parts = self.parts.lock().await;
        let part = parts.get_mut(name).with_context(|| format!("no part is called {name}"))?;
        let process = part.process.as_mut().with_context(|| format!("{name} does not run"))?;
        if ["KILL", "USR1"].contains(&signal) {
            send(process, signal)?;
            timeout(PATIENCE, process.wait()).await.with_context(|| format!("{name} did not end"))??;
            part.process = None;
            return Ok(());
        }
        send(process, signal)
    }

    pub async fn runs(&self, name: &str) -> bool {
        let mut parts = self.parts.lock().await;
        parts.get_mut(name).and_then(|part| part.process.as_mut()).is_some_and(runs)
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Agents come first: they tell the master. What agents left behind that were killed ends too.
    pub async fn down(&self) -> Result<()> {
        let names: Vec<String> = self.parts.lock().await.keys().cloned().collect();
        for name in names {
            let agent = name != "master";
            if self.runs(&name).await {
                self.signal(&name, "CONT").await?;
                self.signal(&name, if agent { "USR1" } else { "KILL" }).await?;
            }
            if agent {
                km_mesos::agent::kill_leftovers(&self.folder.join(&name)).await?;
            }
        }
        Ok(())
    }
}

fn runs(process: &mut Child) -> bool {
    matches!(process.try_wait(), Ok(None))
}

fn send(process: &Child, signal: &str) -> Result<()> {
    let signal: Signal = format!("SIG{signal}").parse().with_context(|| format!("no signal {signal}"))?;
    let id = process.id().context("the process has ended by itself")?;
    nix::sys::signal::kill(Pid::from_raw(i32::try_from(id)?), signal).context("cannot send the signal")
}

/// The command line here has hyphens where that of Apache Mesos has underscores.
fn argument(flag: &str) -> String {
    match flag.split_once('=') {
        Some((name, value)) => format!("--{}={value}", name.replace('_', "-")),
        None => format!("--{flag}"),
    }
}
