//! From what the runtime knows of a container to the machine's event.

use std::{fs, path::Path};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use km_pod::{Event, Exit};
use km_runtime::{ContainerState, ContainerStatus, Runtime, RuntimeError, crilog};

use super::{QUICK, start::termination_file, within};

/// Longest termination message, in bytes (Kubernetes: 4096 from the file, 2048 or 80 lines from the log).
const FILE_LIMIT: usize = 4096;
const LOG_LIMIT: usize = 2048;
const LOG_LINES: usize = 80;

/// The event of a container's end, if it has ended.
pub async fn find(runtime: &dyn Runtime, pod: &Pod, dir: &Path, id: &str) -> Option<Event> {
    match within(QUICK, runtime.container_status(id)).await {
        Ok(status) if status.state == ContainerState::Exited => Some(exited(pod, dir, &status)),
        Ok(_) => None,
        Err(RuntimeError::NotFound { .. }) => lost(pod, id),
        Err(error) => {
            tracing::warn!(container = id, %error, "the runtime doesn't say how the container is");
            None
        }
    }
}

fn exited(pod: &Pod, dir: &Path, status: &ContainerStatus) -> Event {
    Event::Exited { container: status.name.clone(), attempt: status.attempt, exit: of_status(pod, dir, status) }
}

/// How an ended container ended.
pub fn of_status(pod: &Pod, dir: &Path, status: &ContainerStatus) -> Exit {
    let time = |nanos: i64| Timestamp::from_second(nanos.div_euclid(1_000_000_000)).ok();
    let message = match status.message.is_empty() {
        true => termination_message(pod, dir, status),
        false => status.message.clone(),
    };
    Exit {
        code: status.exit_code.unwrap_or(128),
        signal: status.signal,
        reason: status.reason.clone(),
        message,
        started_at: status.started_at.and_then(time),
        finished_at: status.finished_at.and_then(time).unwrap_or_else(Timestamp::now),
    }
}

/// A container that the runtime doesn't know any more has ended, nobody knows how.
fn lost(pod: &Pod, id: &str) -> Option<Event> {
    let rest = id.strip_prefix(pod.metadata.uid.as_deref()?)?.strip_prefix('-')?;
    let (container, attempt) = rest.rsplit_once('-')?;
    Some(Event::Exited {
        container: container.to_owned(),
        attempt: attempt.parse().ok()?,
        exit: Exit {
            code: 137,
            signal: None,
            reason: "ContainerStatusUnknown".into(),
            message: "The container could not be found when its state was asked for".into(),
            started_at: None,
            finished_at: Timestamp::now(),
        },
    })
}

/// The container's own last words: from its file, or from its log when it asks for that and failed.
fn termination_message(pod: &Pod, dir: &Path, status: &ContainerStatus) -> String {
    let file = termination_file(dir, &status.name, status.attempt);
    let mut text = fs::read(file).unwrap_or_default();
    text.truncate(FILE_LIMIT);
    let from_log = container(pod, &status.name)
        .is_some_and(|container| container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"));
    if text.is_empty() && from_log && status.exit_code != Some(0) {
        text = log_tail(&fs::read(&status.log_path).unwrap_or_default());
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn log_tail(log: &[u8]) -> Vec<u8> {
    let entries: Vec<_> = log.split(|&byte| byte == b'\n').filter_map(crilog::parse).collect();
    let mut text = Vec::new();
    for entry in &entries[entries.len().saturating_sub(LOG_LINES)..] {
        text.extend_from_slice(entry.text);
        if !entry.partial {
            text.push(b'\n');
        }
    }
    text.split_off(text.len().saturating_sub(LOG_LIMIT))
}

pub fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers.iter().flatten().chain(&spec.containers).find(|container| container.name == name)
}
