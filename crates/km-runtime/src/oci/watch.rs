//! Learns of the end of containers: by the shim's process handle, never by scanning.

use std::{
    fs,
    os::fd::OwnedFd,
    sync::{Arc, Weak},
};

use nix::sys::wait::{WaitPidFlag, waitpid};
use tokio::{
    io::{Interest, unix::AsyncFd},
    process::Child,
};

use super::{Entry, Inner, OciRuntime};
use crate::{
    Result, RuntimeError,
    bundle::{Bundle, ContainerRecord, ExitRecord, Life},
    cgroup,
    files::{self, Context, now},
    process::ProcessRef,
};

impl OciRuntime {
    /// Watches a shim that is our child.
    pub(super) fn watch_child(&self, bundle: Bundle, record: ContainerRecord, mut shim: Child) {
        let (inner, stop) = (Arc::downgrade(&self.inner), self.stop.clone());
        self.watchers.spawn(async move {
            tokio::select! {
                _status = shim.wait() => finish(&inner, &bundle, &record).await,
                () = stop.cancelled() => {}
            }
        });
    }

    /// Watches a shim that an earlier process started.
    fn watch_adopted(&self, bundle: Bundle, record: ContainerRecord, shim: ProcessRef) -> Result<()> {
        let handle = end_of(shim).context(|| "watching an adopted container".to_owned())?;
        let (inner, stop) = (Arc::downgrade(&self.inner), self.stop.clone());
        self.watchers.spawn(async move {
            if let Some(handle) = handle {
                tokio::select! {
                    _ended = handle.readable() => {}
                    () = stop.cancelled() => return,
                }
            }
            // It may be a child of this process after all, of an earlier runtime object.
            let _reaped_by_its_parent = waitpid(nix::unistd::Pid::from_raw(shim.pid), Some(WaitPidFlag::WNOHANG));
            finish(&inner, &bundle, &record).await;
        });
        Ok(())
    }

    /// Takes over the containers of an earlier process.
    pub(super) fn adopt_containers(&self) -> Result<()> {
        let folder = self.inner.config.root.join("containers");
        let adopting = || format!("reading {}", folder.display());
        for entry in fs::read_dir(&folder).context(adopting)? {
            let bundle = Bundle(entry.context(adopting)?.path());
            match bundle.record().context(adopting)? {
                Some(record) => self.adopt(bundle, record)?,
                // Not even created.
                None => files::remove_tree(&bundle.0).context(adopting)?,
            }
        }
        Ok(())
    }

    fn adopt(&self, bundle: Bundle, record: ContainerRecord) -> Result<()> {
        let reading = || format!("reading {}", bundle.0.display());
        let id = record.spec.id.clone();
        let life = bundle.life().context(reading)?;
        self.inner.state().containers.insert(id.clone(), Entry::new(&bundle, &record));
        if let Some(started) = bundle.started().context(reading)? {
            self.inner.started(&id, started);
        }
        match life {
            Life::Ended(exit) => self.inner.ended(&id, &exit),
            Life::Abandoned(lock) => {
                let exit = abandoned(&bundle, &record).context(reading)?;
                drop(lock);
                self.inner.ended(&id, &exit);
            }
            Life::Supervised => {
                let shim = bundle.shim().context(reading)?;
                let shim = shim.ok_or_else(|| {
                    RuntimeError::Other(format!("{} is locked, but its shim left no record", bundle.0.display()))
                })?;
                self.watch_adopted(bundle, record, shim)?;
            }
        }
        Ok(())
    }
}

/// Becomes readable when the process ends; `None` when it has ended.
fn end_of(process: ProcessRef) -> std::io::Result<Option<AsyncFd<OwnedFd>>> {
    let Some(handle) = process.open()? else { return Ok(None) };
    // SAFETY: the descriptor is owned by what is registered and never replaced or closed before it.
    let registered = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
    Ok(Some(registered?))
}

/// The shim has ended: what did it write down?
async fn finish(inner: &Weak<Inner>, bundle: &Bundle, record: &ContainerRecord) {
    let (folder, container) = (bundle.clone(), record.clone());
    let read = tokio::task::spawn_blocking(move || match folder.life()? {
        Life::Ended(exit) => Ok(exit),
        // Supervised: a process that the dead shim was forking still holds its lock; it is killed with the rest.
        Life::Supervised | Life::Abandoned(_) => abandoned(&folder, &container),
    });
    let exit = match read.await {
        Ok(Ok(exit)) => exit,
        Ok(Err(error)) => lost(&format!("its exit record cannot be read: {error}")),
        Err(error) => lost(&format!("its exit record cannot be read: {error}")),
    };
    let Some(inner) = inner.upgrade() else { return };
    inner.ended(&record.spec.id, &exit);
    inner.send_event(&record.spec.sandbox_id, &record.spec.id);
}

/// The shim died without its last deed: the container ends too, because nobody would learn how it ends.
fn abandoned(bundle: &Bundle, record: &ContainerRecord) -> std::io::Result<ExitRecord> {
    cgroup::remove(&record.cgroup)?;
    let exit = lost("its supervising process was killed");
    bundle.write_exit(&exit)?;
    Ok(exit)
}

fn lost(cause: &str) -> ExitRecord {
    ExitRecord {
        exit_code: 137,
        signal: Some(9),
        finished_at: now(),
        reason: "Error".to_owned(),
        message: format!("the container's end was not seen: {cause}"),
    }
}
