//! A real ZooKeeper server of one test.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    time::Duration,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{Process, eventually, free_port};

/// A ZooKeeper with nothing in it at first. Dropping it ends it.
pub struct ZooKeeper {
    folder: TempDir,
    port: u16,
    process: Option<Process>,
}

impl ZooKeeper {
    /// Starts a server and waits until it answers; its classes come from `KM_TEST_ZOOKEEPER` (`cargo xtask test` sets
    /// it).
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("km-zookeeper-").tempdir();
        let folder = folder.unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let mut zookeeper = Self { folder, port: free_port(), process: None };
        zookeeper.start_again();
        zookeeper
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends the server as a crash does. What it holds stays on disk.
    pub fn crash(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(Signal::SIGKILL);
        }
    }

    /// Starts the server on the port and the disk it had.
    pub fn start_again(&mut self) {
        let classes = std::env::var_os("KM_TEST_ZOOKEEPER")
            .unwrap_or_else(|| panic!("KM_TEST_ZOOKEEPER is not set: run these tests by `cargo xtask test`"));
        let mut command = Command::new("java");
        // Small and quick to start; ticks of half a second let sessions be as short as a second.
        command.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.args(["-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=ruok"]);
        command.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"]).arg(classes);
        command.args(["org.apache.zookeeper.server.ZooKeeperServerMain", &self.port.to_string()]);
        command.arg(self.folder.path().join("data")).arg("500");
        let mut process = Process::start(&mut command, &self.folder.path().join("log"));
        let address = self.address();
        eventually("ZooKeeper answers", || {
            if let Some(status) = process.ended() {
                panic!("ZooKeeper ended ({status}): {}", process.output());
            }
            is_ok(&address).map_err(|error| format!("{error}: {}", process.output()))
        });
        self.process = Some(process);
    }
}

fn is_ok(address: &str) -> Result<(), String> {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"ruok")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    match ask().map_err(|error: std::io::Error| error.to_string())? {
        answer if answer == "imok" => Ok(()),
        answer => Err(format!("ruok is answered by {answer:?}")),
    }
}
