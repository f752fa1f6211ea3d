//! What the agent hasn't yet made safe, and an executor must repeat when it subscribes again.

use km_mesos_proto::v1::{self, executor::call::Update};

/// Tasks until the first acknowledgement of one of their updates, and updates until their own.
#[derive(Clone, Debug, Default)]
pub struct Unacknowledged {
    tasks: Vec<v1::TaskInfo>,
    updates: Vec<Update>,
}

impl Unacknowledged {
    /// A task was launched here.
    pub fn launched(&mut self, task: v1::TaskInfo) {
        self.tasks.retain(|known| known.task_id != task.task_id);
        self.tasks.push(task);
    }

    /// An update is about to be sent. One without a uuid is never acknowledged, so it isn't kept.
    pub fn sending(&mut self, status: v1::TaskStatus) {
        let known = self.updates.iter().any(|update| update.status.uuid == status.uuid);
        if status.uuid.is_some() && !known {
            self.updates.push(Update { status });
        }
    }

    /// The agent has stored an update.
    pub fn acknowledged(&mut self, task_id: &v1::TaskId, uuid: &[u8]) {
        self.tasks.retain(|task| task.task_id != *task_id);
        self.updates.retain(|update| update.status.uuid.as_deref() != Some(uuid));
    }

    /// The tasks to name when subscribing.
    pub fn tasks(&self) -> Vec<v1::TaskInfo> {
        self.tasks.clone()
    }

    /// The updates to repeat when subscribing, oldest first.
    pub fn updates(&self) -> Vec<Update> {
        self.updates.clone()
    }

    /// Is everything safe, so that the executor may leave?
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.updates.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(task: &str, uuid: Option<u8>) -> v1::TaskStatus {
        v1::TaskStatus { task_id: task.into(), uuid: uuid.map(|byte| vec![byte; 16]), ..Default::default() }
    }

    #[test]
    fn tasks_and_updates_are_kept_until_acknowledged() {
        let mut pending = Unacknowledged::default();
        for task in ["a", "b"] {
            pending.launched(v1::TaskInfo { task_id: task.into(), ..Default::default() });
        }
        for sent in
            [status("a", Some(1)), status("b", Some(2)), status("a", Some(3)), status("a", Some(3)), status("a", None)]
        {
            pending.sending(sent);
        }
        let left = |pending: &Unacknowledged| {
            let tasks: Vec<String> = pending.tasks().into_iter().map(|task| task.task_id.value).collect();
            let updates: Vec<u8> = pending.updates().iter().map(|update| update.status.uuid()[0]).collect();
            (tasks.join(","), updates)
        };
        assert_eq!(left(&pending), ("a,b".to_owned(), vec![1, 2, 3]));
        pending.acknowledged(&"a".into(), &[1; 16]);
        assert_eq!(left(&pending), ("b".to_owned(), vec![2, 3]));
        pending.acknowledged(&"a".into(), &[9; 16]);
        pending.acknowledged(&"a".into(), &[3; 16]);
        pending.acknowledged(&"b".into(), &[2; 16]);
        assert!(pending.is_empty());
    }
}
