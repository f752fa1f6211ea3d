//! A child process whose output is kept and which never outlives its test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::eventually_within;

/// A started program with its output in a file.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; stdout and stderr go to `log`.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let file = fs::File::create(log).unwrap_or_else(|error| panic!("cannot create {}: {error}", log.display()));
        let other = file.try_clone().unwrap_or_else(|error| panic!("cannot share the log file: {error}"));
        command.stdin(Stdio::null()).stdout(file).stderr(other);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child, log: log.to_owned() }
    }

    /// All that it has printed.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its exit status, when it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_else(|error| panic!("cannot wait for a child: {error}"))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        // A process that has just ended by itself needs no signal.
        let _ended = kill(Pid::from_raw(self.child.id() as i32), signal);
    }

    /// Asks it to end and waits until it has.
    pub fn stop(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        let output = self.output();
        eventually_within(Duration::from_secs(120), "the process ends", || self.ended().ok_or_else(|| output.clone()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::SIGKILL);
            // Reaped, so that no zombie stays; an error means that it is gone.
            let _gone = self.child.wait();
        }
    }
}
