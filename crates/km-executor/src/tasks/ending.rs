//! The ends of tasks: each is told to Mesos once.

use std::time::Duration;

use km_mesos_proto::v1;
use km_pod::{Outcome, StopCause};

use super::{Action, Stage, Task, Tasks, send, status};
use crate::{api::PodKey, messages};

impl Tasks {
    pub(super) fn ended(&mut self, id: &str, outcome: Outcome, out: &mut Vec<Action>) {
        let Some(task) = self.tasks.get(id) else { return };
        let key = task.key.clone();
        let stop = task.stop.map(|(cause, _)| cause);
        match outcome {
            Outcome::Stopped(cause @ (StopCause::Deleted | StopCause::Killed)) => {
                tracing::info!(task = id, ?cause, "pod stopped");
                self.delete_and_close(id, status::killed(id, messages::POD_DELETED), out);
            }
            Outcome::Stopped(StopCause::Gone) => self.close(id, status::killed(id, messages::POD_DELETED), out),
            Outcome::Stopped(StopCause::Shutdown) => {
                self.ended.insert(key.uid.clone(), key);
                self.close(id, status::killed(id, messages::EXECUTOR_SHUTDOWN), out);
            }
            Outcome::Succeeded => self.ended_by_itself(id, key, stop, status::finished(id), out),
            Outcome::Failed { message } => {
                self.ended_by_itself(id, key, stop, status::failed(id, &message), out);
            }
        }
    }

    /// The pod stays in the API server for those who want to see how it went, unless it is being deleted.
    fn ended_by_itself(
        &mut self,
        id: &str,
        key: PodKey,
        stop: Option<StopCause>,
        status: v1::TaskStatus,
        out: &mut Vec<Action>,
    ) {
        match stop {
            Some(StopCause::Deleted) => self.delete_and_close(id, status, out),
            Some(StopCause::Gone) => {
                out.push(Action::ForgetPod { uid: key.uid });
                self.close(id, status, out);
            }
            _ => {
                self.ended.insert(key.uid.clone(), key);
                self.close(id, status, out);
            }
        }
    }

    pub(super) fn close(&mut self, id: &str, status: v1::TaskStatus, out: &mut Vec<Action>) {
        if self.tasks.remove(id).is_some_and(|task| !task.closed) {
            out.push(send(status));
        }
    }

    pub(super) fn delete_and_close(&mut self, id: &str, status: v1::TaskStatus, out: &mut Vec<Action>) {
        if let Some(task) = self.tasks.remove(id) {
            out.push(Action::ForgetPod { uid: task.key.uid.clone() });
            out.push(Action::DeletePod { key: task.key, then: (!task.closed).then(|| Box::new(status)) });
        }
    }

    pub(super) fn stop(task: &mut Task, cause: StopCause, grace: Option<Duration>, out: &mut Vec<Action>) {
        // The first cause stays: it decides what becomes of the pod's object. Shutdown only hurries.
        task.stop = task.stop.or(Some((cause, grace)));
        if task.stage != Stage::Binding {
            out.push(Action::StopPod { uid: task.key.uid.clone(), cause, grace });
        }
    }

    pub(super) fn kill(&mut self, id: &str, grace: Option<Duration>, out: &mut Vec<Action>) {
        match self.tasks.get_mut(id) {
            Some(task) => Self::stop(task, StopCause::Killed, grace, out),
            None if self.terminated => {}
            None => out.push(send(status::lost(id, messages::KILL_POD_TASK))),
        }
    }
}
