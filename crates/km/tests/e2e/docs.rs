//! What the documents tell a user to type, typed.

use std::{fs, process::Command};

use km_testkit::{Process, eventually, free_port};

use crate::{hello, km, turn};

/// The `sh` blocks of a document, in order.
fn shell_blocks(document: &str) -> String {
    let path = format!("{}/../../docs/{document}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn a_framework_of_nothing_but_curl_runs_a_task() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let place = |name: &str| folder.path().join(name);
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
    let script = format!("set -eu\n{}", shell_blocks("mesos-with-curl.md"));
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-c", &script]).current_dir(folder.path()).env("MASTER", format!("127.0.0.1:{port}"));
    let output = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let events = fs::read_to_string(place("events.txt")).unwrap_or_default();
    assert!(output.status.success(), "{text}\nevents: {events}\nagent: {}", agent.output());
    assert!(text.contains("acknowledged TASK_FINISHED"), "{text}");
    agent.stop(nix::sys::signal::Signal::SIGTERM);
}
