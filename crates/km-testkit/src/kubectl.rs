//! The stock kubectl, with the kubeconfig of one cluster.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// Runs kubectl; the program comes from `KM_TEST_KUBECTL` (`cargo xtask test` sets it).
#[derive(Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub fn new(kubeconfig: &Path) -> Self {
        let program = std::env::var_os("KM_TEST_KUBECTL")
            .unwrap_or_else(|| panic!("KM_TEST_KUBECTL is not set: run these tests by `cargo xtask test`"));
        Self { program: program.into(), kubeconfig: kubeconfig.to_owned() }
    }

    /// The command, for those who want to run it in another way.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("KUBECONFIG", &self.kubeconfig).env("KUBECACHEDIR", self.kubeconfig.with_extension("cache"));
        command.args(line.split_whitespace());
        command
    }

    /// Runs a line of words (split at blanks) and answers stdout, or what went wrong.
    pub fn try_run(&self, line: &str) -> Result<String, String> {
        finish(line, self.command(line).stdin(Stdio::null()).output())
    }

    /// Runs a line that must succeed.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        self.try_run(line).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a line that must fail and answers what it printed on stderr.
    #[track_caller]
    pub fn fails(&self, line: &str) -> String {
        match self.try_run(line) {
            Ok(output) => panic!("kubectl {line} should have failed, and printed: {output}"),
            Err(error) => error,
        }
    }

    /// Runs a line with a manifest on stdin (`-f -`).
    pub fn try_with_input(&self, line: &str, input: &str) -> Result<String, String> {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot run kubectl: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).map_err(|error| format!("kubectl {line}: stdin: {error}"))?;
        }
        finish(line, child.wait_with_output())
    }

    /// Applies a manifest that must be taken.
    #[track_caller]
    pub fn apply(&self, manifest: &str) -> String {
        self.try_with_input("apply -f -", manifest).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The answer of `kubectl <line> -o json`.
    pub fn json(&self, line: &str) -> Result<Value, String> {
        let text = self.try_run(&format!("{line} -o json"))?;
        serde_json::from_str(&text).map_err(|error| format!("kubectl {line}: not JSON: {error}"))
    }
}

fn finish(line: &str, output: std::io::Result<Output>) -> Result<String, String> {
    let output = output.map_err(|error| format!("cannot run kubectl: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    Err(format!("kubectl {line} failed ({}): {stderr}{stdout}", output.status))
}
