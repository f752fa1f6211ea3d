//! One proxy per network namespace: the lock is on the namespace itself, so it leaves no file behind.

use std::{fs::File, path::Path};

use anyhow::Context;
use nix::fcntl::{Flock, FlockArg};

/// The network namespace that the calling thread is in. All who open it lock the same inode.
pub const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// The right to program the namespace; given up when dropped.
pub type Right = Flock<File>;

/// Waits until no other proxy has the right. Cancel-safe: when nobody waits any more, a right that comes is given up
/// at once.
pub async fn acquire(path: &Path) -> anyhow::Result<Right> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(right) => return Ok(right),
        Err((file, nix::errno::Errno::EWOULDBLOCK)) => file,
        Err((_, error)) => return Err(error).with_context(|| format!("locking {}", path.display())),
    };
    tracing::info!(lock = %path.display(), "another proxy serves this host; standing by");
    let (done, result) = tokio::sync::oneshot::channel();
    // A thread of its own, because waiting for the lock cannot be interrupted and must not hold up the runtime's end.
    std::thread::spawn(move || {
        let _nobody_waits = done.send(Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error));
    });
    let right = result.await.context("waiting for the lock ended abnormally")?;
    right.with_context(|| format!("locking {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("namespace");
        File::create(&path).unwrap();
        let first = acquire(&path).await.unwrap();
        let waiting = tokio::spawn({
            let path = path.clone();
            async move { acquire(&path).await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap().unwrap();
    }
}
