//! Mesos clients that are not ours, on the embedded master and agent.

use std::{path::PathBuf, process::Command};

use crate::{mesos::Mesos, turn};

#[test]
fn pymesos_runs_a_framework_with_its_own_executor() {
    let _turn = turn();
    let library = std::env::var_os("KM_TEST_PYMESOS").expect("KM_TEST_PYMESOS is not set: run `cargo xtask test`");
    let folder = tempfile::tempdir().unwrap();
    let mesos = Mesos::start(folder.path());
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/pymesos/framework.py");
    let output = Command::new("timeout")
        .args(["80", "python3"])
        .arg(script)
        .arg(mesos.master())
        .env("PYTHONPATH", library)
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    for line in ["update TASK_RUNNING", "message ", "update TASK_FINISHED"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    mesos.stop();
}
