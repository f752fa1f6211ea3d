//! A role that is up: what every `start` function of a shell crate returns.

use std::net::SocketAddr;

use tokio::task::JoinHandle;

/// A started role. Its socket is bound; it ends when its stop token is cancelled or when it fails.
pub struct Started {
    /// The role's name as on the command line, e.g. `apiserver`.
    pub name: &'static str,
    /// Where it listens (with the real port where 0 was asked for).
    pub address: SocketAddr,
    /// Ends with the role. An error is the reason of its failure.
    pub task: JoinHandle<anyhow::Result<()>>,
}

impl Started {
    /// Waits for the role's end. A panic in it becomes an error.
    pub async fn join(self) -> anyhow::Result<()> {
        match self.task.await {
            Ok(result) => result,
            Err(error) => Err(anyhow::anyhow!("{} ended abnormally: {error}", self.name)),
        }
    }
}
