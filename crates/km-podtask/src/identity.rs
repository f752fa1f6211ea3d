//! Task ids that say which pod they belong to.
//!
//! A task id is `pod.` and the pod's UID in which the first 32 bits are mixed with a launch number. A scheduler that
//! lost its memory between a launch and the binding can so tell for which pod an unknown task runs, and nothing needs
//! to be written before the launch.

use std::fmt;

use uuid::Uuid;

/// The task id of a pod's launch. `launch` is to differ for every launch of the same pod, also after a restart.
pub fn task_name(pod_uid: &str, launch: u32) -> String {
    let mut bytes = *uid_bytes(pod_uid).as_bytes();
    for (byte, mixed) in bytes.iter_mut().zip(launch.to_be_bytes()) {
        *byte ^= mixed;
    }
    format!("pod.{}", Uuid::from_bytes(bytes))
}

/// The part of a task id that names the pod: equal for all launches of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName([u8; 12]);

impl TaskName {
    /// Of a pod, by its UID.
    pub fn of_pod(uid: &str) -> Self {
        Self::tail(&uid_bytes(uid))
    }

    /// Of a task, by its id; none when the id was not made by [`task_name`].
    pub fn of_task(id: &str) -> Option<Self> {
        let uuid = id.strip_prefix("pod.")?;
        Some(Self::tail(&Uuid::try_parse(uuid).ok()?))
    }

    fn tail(uuid: &Uuid) -> Self {
        let mut tail = [0; 12];
        tail.copy_from_slice(&uuid.as_bytes()[4..]);
        Self(tail)
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// A UID as 128 bits. Those of an API server are UUIDs; of anything else both halves of a hash are taken.
fn uid_bytes(uid: &str) -> Uuid {
    Uuid::try_parse(uid).unwrap_or_else(|_| {
        let high = crate::executor::crc64(uid.as_bytes());
        let low = crate::executor::crc64(format!("{uid}/").as_bytes());
        Uuid::from_u64_pair(high, low)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_names_its_pod_whatever_the_launch() {
        for uid in ["0a1b2c3d-1111-4222-8333-444455556666", "not-a-uuid"] {
            let (first, second) = (task_name(uid, 0x0010_0001), task_name(uid, 0x0010_0002));
            assert_ne!(first, second);
            assert_eq!(TaskName::of_task(&first), Some(TaskName::of_pod(uid)));
            assert_eq!(TaskName::of_task(&second), Some(TaskName::of_pod(uid)));
        }
        assert_eq!(TaskName::of_task("pod.x"), None);
        assert_eq!(TaskName::of_task("other"), None);
    }
}
