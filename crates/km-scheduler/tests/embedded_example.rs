//! The example program runs its pod: on the embedded Mesos, and on Apache Mesos.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{process::Stdio, time::Duration};

use clap::Parser;
use km_observe::Started;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the example to its end and demands that its pod lived and died.
async fn play(master: &str, machine: &str) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_embedded"));
    command.args(["--master", master, "--machine", "elsewhere", "--machine", machine, "--", "sleep", "1000"]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("the example ends").unwrap();
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    let expected = format!("scheduled on {machine}\nrunning with 1 container(s)\ngone\n");
    assert_eq!(said, expected, "{complained}");
}

#[derive(Parser)]
struct Line<F: clap::Args> {
    #[command(flatten)]
    flags: F,
}

fn flags<F: clap::Args>(words: &[String]) -> F {
    Line::try_parse_from(std::iter::once("mesos").chain(words.iter().map(String::as_str))).unwrap().flags
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_lives_and_dies_on_the_embedded_mesos() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let words = ["--port=0".to_owned(), format!("--work-dir={}", folder.path().join("master").display())];
    let master = km_mesos::master::start(flags(&words), stop.clone()).await.unwrap();
    let words = [
        format!("--master={}", master.address),
        "--port=0".to_owned(),
        "--hostname=alpha".to_owned(),
        "--resources=cpus:2;mem:2048;disk:100;ports:[31000-31010]".to_owned(),
        format!("--work-dir={}", folder.path().join("agent").display()),
    ];
    let agent = km_mesos::agent::start(flags(&words), stop.clone()).await.unwrap();
    play(&master.address.to_string(), "alpha").await;
    stop.cancel();
    for role in [master, agent] {
        tokio::time::timeout(PATIENCE, Started::join(role)).await.expect("it stops").unwrap();
    }
}

#[cfg(feature = "peers")]
mod apache {
    use std::{
        ffi::OsStr,
        os::unix::fs::symlink,
        path::{Path, PathBuf},
        process::Command,
    };

    use super::play;

    struct Mesos {
        script: PathBuf,
        folder: tempfile::TempDir,
    }

    impl Mesos {
        fn run(&self, verb: &str, words: &[&OsStr]) -> Result<(), String> {
            let output = Command::new(&self.script).arg(verb).arg(self.folder.path()).args(words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(format!("real-mesos {verb}: {said}")) }
        }
    }

    impl Drop for Mesos {
        fn drop(&mut self) {
            if let Err(error) = self.run("down", &[]) {
                eprintln!("{error}");
            }
        }
    }

    fn variable(name: &str) -> PathBuf {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.unwrap_or_else(|| panic!("{name} is not set: run this suite by `cargo xtask test`"))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_pod_lives_and_dies_on_apache_mesos() {
        let installed = variable("KM_TEST_MESOS");
        let mesos = Mesos { script: variable("KM_TEST_REAL_MESOS"), folder: tempfile::tempdir().unwrap() };
        for part in ["bin", "lib"].map(Path::new) {
            symlink(installed.join(part), mesos.folder.path().join(part)).unwrap();
        }
        // The master's and the agent's.
        let port = km_testkit::free_ports(2);
        let line = format!(
            "--agents 1 --port {port} --resources cpus:2;mem:2048;ports:[31000-31010] --agent-flag hostname=alpha"
        );
        mesos.run("up", &line.split(' ').map(OsStr::new).collect::<Vec<_>>()).unwrap();
        play(&format!("127.0.0.1:{port}"), "alpha").await;
    }
}
