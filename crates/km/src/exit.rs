//! What the process's exit code says.

use std::process::ExitCode;

/// Every exit code of `km`. 64, 69 and 78 are those of sysexits(3); 100 and up are our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Something failed that has no code of its own.
    Failure = 1,
    /// The command line is wrong.
    Usage = 64,
    /// A server that the command needs does not answer.
    Unreachable = 69,
    /// A file or flag holds something wrong.
    BadConfiguration = 78,
    /// The machine cannot run containers (`km check` says why).
    MachineUnfit = 100,
    /// Another cluster uses the data directory, or a port is taken.
    InUse = 101,
    /// No cluster runs on the data directory.
    NotRunning = 102,
}

/// An error with the exit code that tells a script what kind it is, and a way out for a person.
#[derive(Debug)]
pub struct Failed {
    pub exit: Exit,
    pub error: anyhow::Error,
    pub way_out: Option<String>,
}

impl Failed {
    pub fn new(exit: Exit, error: anyhow::Error) -> Self {
        Self { exit, error, way_out: None }
    }

    #[must_use]
    pub fn way_out(mut self, text: impl Into<String>) -> Self {
        self.way_out = Some(text.into());
        self
    }

    /// Prints the error and the way out on stderr.
    pub fn report(&self) -> ExitCode {
        eprintln!("error: {:#}", self.error);
        if let Some(text) = &self.way_out {
            eprintln!("  → {text}");
        }
        ExitCode::from(self.exit as u8)
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failure, error)
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Failure, error.into())
    }
}
