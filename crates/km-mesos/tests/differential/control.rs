//! Parts of a cluster that end, stop and begin under a script.

use anyhow::{Context, Result};

use crate::player::{DEADLINE, POLL, Player, SCHEDULER};

/// After so many passes of the allocator, what it won't offer it never will.
const QUIET_PASSES: f64 = 4.0;

impl Player {
    /// Kills `master` or `agent-0` on the spot.
    pub async fn kill(&self, part: &str) -> Result<()> {
        self.parts.signal(part, "KILL").await
    }

    /// Lets an agent leave the cluster: it ends its executors and tells the master.
    pub async fn end(&self, agent: &str) -> Result<()> {
        self.parts.signal(agent, "USR1").await
    }

    /// Stops an agent's clock: it neither reads nor answers.
    pub async fn freeze(&self, agent: &str) -> Result<()> {
        self.parts.signal(agent, "STOP").await
    }

    /// Lets it go on.
    pub async fn thaw(&self, agent: &str) -> Result<()> {
        self.parts.signal(agent, "CONT").await
    }

    /// Starts a part again, and waits until the master leads and has recovered.
    pub async fn start(&self, part: &str) -> Result<()> {
        self.start_with(part, &[]).await
    }

    /// As `start`, with these flags changed.
    pub async fn start_with(&self, part: &str, changed: &[&str]) -> Result<()> {
        self.parts.start(part, changed).await?;
        let wait = async {
            while !self.takes_calls().await {
                tokio::time::sleep(POLL).await;
            }
        };
        let reason = || format!("the master does not lead; {part} logged last:\n{}", self.parts.log(part));
        tokio::time::timeout(DEADLINE, wait).await.with_context(reason)
    }

    /// Starts a part with these flags changed, which it must refuse.
    pub async fn starts_in_vain(&self, part: &str, changed: &[&str]) -> Result<()> {
        self.parts.starts_in_vain(part, changed).await
    }

    /// Waits until a process is gone.
    pub async fn process_ends(&self, process: i32) -> Result<()> {
        let wait = async {
            while process_runs(process) {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.with_context(|| format!("process {process} does not end"))
    }

    /// Whether the master is past its recovery: it finds fault with a wrong call then, and answers 503 before.
    async fn takes_calls(&self) -> bool {
        let leads = self.state("/state").await.is_ok_and(|state| state["elected_time"].is_number());
        let wrong = self.send("POST", SCHEDULER, &[("Content-Type", "application/json")], "{}").await;
        leads && wrong.is_ok_and(|answer| answer.status() == 400)
    }

    /// Waits for a few passes of the allocator.
    pub async fn passes(&self) -> Result<()> {
        const RUNS: &str = "allocator/mesos/allocation_runs";
        let before = self.all_metrics().await?.get(RUNS).copied().unwrap_or_default();
        self.until_metric(RUNS, |runs| runs >= before + QUIET_PASSES).await?;
        Ok(())
    }
}

/// One that has ended and that nobody waited for does not run.
fn process_runs(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
