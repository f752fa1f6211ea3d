//! The invariants, checked while the cluster runs and when it is at rest.

mod offers;
mod proof;
mod rest;
mod runs;

use std::{fmt, time::Duration};

pub(crate) use offers::Ledger;
pub(crate) use runs::Runs;

/// So much of the past is shown with a broken invariant.
const SHOWN: usize = 60;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub seed: u64,
    pub agents: usize,
    /// How long things failed in that run.
    pub time: Duration,
    /// Virtual time since the start.
    pub at: Duration,
    pub message: String,
    /// What happened last, the newest at the end.
    pub trace: Vec<String>,
}

impl Violation {
    /// The command that does the same again.
    pub fn replay(&self) -> String {
        let (agents, time, seed) = (self.agents, self.time.as_secs(), self.seed);
        format!("cargo xtask sim --seeds 1 --from {seed} --time {time} --agents {agents} --trace")
    }

    fn fmt_end(&self, out: &mut fmt::Formatter<'_>, lines: usize) -> fmt::Result {
        for line in &self.trace[self.trace.len().saturating_sub(lines)..] {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "seed {} at {:.3} s: {}", self.seed, self.at.as_secs_f64(), self.message)?;
        write!(out, "again: {}", self.replay())
    }
}

impl fmt::Display for Violation {
    /// The alternate form shows all of the past that is known.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_end(out, if out.alternate() { usize::MAX } else { SHOWN })
    }
}

impl std::error::Error for Violation {}
