//! Mesos clients that are not ours, on the embedded master and agent.

use std::{path::PathBuf, process::Command};

use km_testkit::{Process, eventually, free_port};
use nix::sys::signal::Signal;

use crate::{hello, km, turn};

#[test]
fn pymesos_runs_a_framework_with_its_own_executor() {
    let _turn = turn();
    let library = std::env::var_os("KM_TEST_PYMESOS").expect("KM_TEST_PYMESOS is not set: run `cargo xtask test`");
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let port = free_port();
    let mut master = Command::new(km());
    master.arg("mesos-master").arg(format!("--port={port}")).arg("--work-dir").arg(place("master"));
    let _master = Process::start(&mut master, &place("master.log"));
    let mut agent = Command::new(km());
    agent
        .arg("mesos-agent")
        .arg(format!("--master=127.0.0.1:{port}"))
        .arg("--port=0")
        .arg("--work-dir")
        .arg(place("agent"));
    agent.arg("--resources=cpus:2;mem:1024");
    let mut agent = Process::start(&mut agent, &place("agent.log"));
    eventually("the agent is registered", || match hello::get(&format!("http://127.0.0.1:{port}/slaves"))? {
        text if text.contains("\"active\":true") => Ok(()),
        text => Err(text),
    });
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/pymesos/framework.py");
    let output = Command::new("timeout")
        .args(["80", "python3"])
        .arg(script)
        .arg(format!("127.0.0.1:{port}"))
        .env("PYTHONPATH", library)
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    for line in ["update TASK_RUNNING", "message ", "update TASK_FINISHED"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    agent.stop(Signal::SIGTERM);
}
