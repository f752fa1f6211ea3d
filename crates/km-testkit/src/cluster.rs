//! A whole local cluster as a user starts it: the `km up` process, on free ports and a data directory of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{Kubectl, Process, eventually_within, leftovers};

const PORTS: [&str; 5] =
    ["--api-port=0", "--mesos-port=0", "--agent-port=0", "--scheduler-port=0", "--controller-manager-port=0"];

/// What differs between the clusters of tests.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Further words of the `km up` command line.
    pub arguments: Vec<String>,
    /// Further environment.
    pub environment: Vec<(String, String)>,
}

/// A running cluster. Dropping it stops it.
pub struct LocalCluster {
    km: PathBuf,
    options: Options,
    data: TempDir,
    process: Process,
    starts: u32,
    pub kubectl: Kubectl,
}

impl LocalCluster {
    /// Starts a cluster with the binary `km` and waits until it is ready.
    #[track_caller]
    pub fn up(km: &Path, options: Options) -> Self {
        let data = tempfile::Builder::new()
            .prefix("km-test-")
            .tempdir()
            .unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let process = start(km, &options, data.path(), 0);
        let kubectl = Kubectl::new(&data.path().join("kubeconfig"));
        let mut cluster = Self { km: km.to_owned(), options, data, process, starts: 0, kubectl };
        cluster.wait_ready();
        cluster
    }

    pub fn data_dir(&self) -> PathBuf {
        self.data.path().join("km")
    }

    /// What `km up` printed.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// A `km` command line about this cluster.
    pub fn km(&self, line: &str) -> Command {
        let mut command = Command::new(&self.km);
        command.args(line.split_whitespace()).arg("--data-dir").arg(self.data_dir());
        command
    }

    /// The value of a field of the cluster's `cluster.json`.
    pub fn port(&self, field: &str) -> u16 {
        let text = std::fs::read_to_string(self.data_dir().join("cluster.json")).unwrap_or_default();
        let state: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        state.pointer(field).and_then(serde_json::Value::as_u64).and_then(|port| port.try_into().ok()).unwrap_or(0)
    }

    /// Kills the process as a crash would, without a chance to clean up.
    pub fn crash(&mut self) {
        self.process.stop(Signal::SIGKILL);
    }

    /// Starts the cluster again on the same data directory.
    #[track_caller]
    pub fn start_again(&mut self) {
        self.starts += 1;
        // What the run before left would read as readiness.
        let _absent = std::fs::remove_file(self.data_dir().join("ready"));
        self.process = start(&self.km, &self.options, self.data.path(), self.starts);
        self.wait_ready();
    }

    /// As [`Self::start_again`], with other words on the command line.
    #[track_caller]
    pub fn start_again_with(&mut self, arguments: &[&str]) {
        self.options.arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        self.start_again();
    }

    /// Ends the cluster as Ctrl-C does and demands that it leaves nothing behind.
    #[track_caller]
    pub fn stop(&mut self) {
        let status = self.process.stop(Signal::SIGINT);
        assert!(status.success(), "km up ended with {status}: {}", self.output());
        let left = leftovers(&self.data_dir());
        assert!(left.is_empty(), "the cluster left behind: {left:#?}");
    }

    #[track_caller]
    fn wait_ready(&mut self) {
        let ready = self.data_dir().join("ready");
        let process = &mut self.process;
        eventually_within(Duration::from_secs(180), "the cluster is ready", || {
            if let Some(status) = process.ended() {
                panic!("km up ended ({status}): {}", process.output());
            }
            if ready.exists() { Ok(()) } else { Err(process.output()) }
        });
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        if self.process.ended().is_none() {
            self.process.stop(Signal::SIGINT);
        }
        // After a crash the containers still run; a test that failed must not disturb the next one.
        let _best_effort = self.km("down").output();
        if std::thread::panicking() {
            eprintln!("--- output of km up ---\n{}", self.output());
        }
    }
}

fn start(km: &Path, options: &Options, folder: &Path, number: u32) -> Process {
    let mut command = Command::new(km);
    command.arg("up").args(PORTS).args(&options.arguments);
    command.arg("--data-dir").arg(folder.join("km")).arg("--kubeconfig").arg(folder.join("kubeconfig"));
    command.env("KM_LOG", std::env::var("KM_LOG").unwrap_or_else(|_| "info".into()));
    command.envs(options.environment.iter().cloned());
    Process::start(&mut command, &folder.join(format!("up-{number}.log")))
}
