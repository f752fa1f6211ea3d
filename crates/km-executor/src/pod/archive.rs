//! Keeps the logs of a pod that ended by itself, so that they can still be read when its sandbox is gone.

use std::{fs, io, path::Path};

use km_runtime::Runtime;

use super::{QUICK, within};

/// Links (or copies) each container's log to `<dir>/<container>/<attempt>.log`. What cannot be kept is logged.
pub async fn keep_logs(runtime: &dyn Runtime, pod_uid: &str, dir: &Path) {
    let containers = match within(QUICK, runtime.list_containers(Some(pod_uid))).await {
        Ok(containers) => containers,
        Err(error) => {
            tracing::warn!(pod_uid, %error, "the logs of this pod are not kept");
            return;
        }
    };
    for container in containers {
        let target = dir.join(&container.name).join(format!("{}.log", container.attempt));
        let source = container.log_path;
        let kept = tokio::task::spawn_blocking(move || keep(&source, &target)).await;
        match kept {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(pod_uid, container = container.name, %error, "log not kept"),
            Err(error) => tracing::warn!(pod_uid, container = container.name, %error, "log not kept"),
        }
    }
}

fn keep(source: &Path, target: &Path) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::hard_link(source, target) {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => Ok(()),
        // Another file system, or one without links.
        Err(_) => fs::copy(source, target).map(drop),
    }
}
