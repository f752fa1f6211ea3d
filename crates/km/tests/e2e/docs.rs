//! What the documents tell a user to type, typed.

use std::{fs, process::Command};

use crate::{mesos::Mesos, turn};

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
    let mesos = Mesos::start(folder.path());
    let script = format!("set -eu\n{}", shell_blocks("mesos-with-curl.md"));
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-c", &script]).current_dir(folder.path()).env("MASTER", mesos.master());
    let output = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let events = fs::read_to_string(folder.path().join("events.txt")).unwrap_or_default();
    assert!(output.status.success(), "{text}\nevents: {events}\nagent: {}", mesos.agent_log());
    assert!(text.contains("acknowledged TASK_FINISHED"), "{text}");
    mesos.stop();
}
