//! An embedded Mesos master with one agent, as processes.

use std::{path::Path, process::Command};

use km_testkit::{Process, eventually, free_port};
use nix::sys::signal::Signal;

use crate::{hello, km};

/// Ends with its value; the agent ends its executors first when it is told by [`Mesos::stop`].
pub struct Mesos {
    port: u16,
    agent: Process,
    _master: Process,
}

impl Mesos {
    /// Logs and work directories go into the folder. Answers when the agent is registered.
    pub fn start(folder: &Path) -> Self {
        let port = free_port();
        let place = |name: &str| folder.join(name);
        let mut master = Command::new(km());
        master.arg("mesos-master").arg(format!("--port={port}")).arg("--work-dir").arg(place("master"));
        let master = Process::start(&mut master, &place("master.log"));
        let mut agent = Command::new(km());
        agent.arg("mesos-agent").arg(format!("--master=127.0.0.1:{port}")).arg("--port=0");
        agent.arg("--work-dir").arg(place("agent")).arg("--resources=cpus:2;mem:1024");
        let agent = Process::start(&mut agent, &place("agent.log"));
        eventually("the agent is registered", || match hello::get(&format!("http://127.0.0.1:{port}/slaves"))? {
            text if text.contains("\"active\":true") => Ok(()),
            text => Err(text),
        });
        Self { port, agent, _master: master }
    }

    /// The master's address.
    pub fn master(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What the agent logged.
    pub fn agent_log(&self) -> String {
        self.agent.output()
    }

    pub fn stop(mut self) {
        self.agent.stop(Signal::SIGTERM);
    }
}
