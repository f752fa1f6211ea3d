//! The executor's own rules: which task runs which pod, and what Mesos is told of it. No IO.
//!
//! Events may repeat; what doesn't fit the state is ignored. Actions are done in order.

mod ending;
mod event;
mod launched;
mod status;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use km_kube::keys;
use km_mesos_proto::v1;
use km_pod::{Allotment, StopCause};

use crate::{
    api::{PodChange, PodKey},
    binding::BindFailure,
    messages,
};
pub use event::{Action, Event};
pub use status::pod_status_result;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Ends an executor without tasks after this long; zero: never.
    pub suicide_timeout: Duration,
    /// What the pods may take of the time that Mesos gives for a shutdown.
    pub shutdown_grace: Duration,
}

#[derive(Debug)]
struct Task {
    key: PodKey,
    /// As it was launched.
    pod: Box<Pod>,
    allotment: Allotment,
    stage: Stage,
    /// Somebody wants its end.
    stop: Option<(StopCause, Option<Duration>)>,
    /// Mesos has its terminal status already.
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Binding,
    Started,
    Running,
}

/// All tasks of this executor.
#[derive(Debug)]
pub struct Tasks {
    settings: Settings,
    tasks: BTreeMap<String, Task>,
    /// Pods that ended by themselves and are still in the API server, by UID.
    ended: BTreeMap<String, PodKey>,
    terminated: bool,
    exited: bool,
    idle_deadline: Option<Duration>,
}

impl Tasks {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            tasks: BTreeMap::new(),
            ended: BTreeMap::new(),
            terminated: false,
            exited: false,
            idle_deadline: None,
        }
    }

    /// Takes in what happened at `now` (monotonic) and says what to do.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Launch(task) => self.launch(*task, &mut out),
            Event::Kill { task, grace } => self.kill(&task, grace, &mut out),
            Event::Message(data) => self.message(&data, &mut out),
            Event::Shutdown => self.shutdown(&mut out),
            Event::Bound { task, result } => self.bound(&task, result, &mut out),
            Event::Pod(change) => self.pod_changed(change, &mut out),
            Event::Running { task, status } => self.running(&task, &status, &mut out),
            Event::Ended { task, outcome } => self.ended(&task, outcome, &mut out),
            Event::Timer => {}
        }
        self.check_time(now, &mut out);
        out
    }

    fn check_time(&mut self, now: Duration, out: &mut Vec<Action>) {
        if self.terminated && self.tasks.is_empty() {
            self.exit("executor-shutdown", out);
            return;
        }
        let idle = self.tasks.is_empty() && !self.settings.suicide_timeout.is_zero();
        self.idle_deadline =
            idle.then(|| self.idle_deadline.unwrap_or_else(|| now.saturating_add(self.settings.suicide_timeout)));
        if self.idle_deadline.is_some_and(|deadline| deadline <= now) {
            self.exit("idle for too long", out);
            return;
        }
        if let Some(at) = self.idle_deadline {
            out.push(Action::SetTimer { at });
        }
    }

    fn exit(&mut self, why: &'static str, out: &mut Vec<Action>) {
        self.terminated = true;
        if !self.exited {
            self.exited = true;
            out.push(Action::Exit { why });
        }
    }

    fn launch(&mut self, info: v1::TaskInfo, out: &mut Vec<Action>) {
        let id = info.task_id.value.clone();
        if self.terminated || self.tasks.contains_key(&id) {
            return;
        }
        let pod = match parse(&info) {
            Ok(pod) => pod,
            Err(reason) => {
                tracing::error!(task = id, %reason, "the task's data is no pod");
                let message = format!("{}: {reason}", messages::UNMARSHAL_TASK_DATA_FAILURE);
                out.push(send(status::failed(&id, &message)));
                return;
            }
        };
        let key = PodKey::of(&pod);
        let wrong = match pod.metadata.annotations.as_ref().and_then(|all| all.get(keys::TASK_ID)) {
            Some(annotated) if *annotated == id => None,
            Some(other) => Some(format!("the pod is annotated for task {other}")),
            None => Some(format!("the pod lacks the annotation {}", keys::TASK_ID)),
        };
        let taken = self.tasks.values().any(|task| task.key.uid == key.uid);
        let taken = taken.then(|| "another task runs this pod".to_owned());
        if let Some(reason) = wrong.or(taken) {
            tracing::error!(task = id, %reason, "the pod cannot be bound");
            out.push(send(status::failed(&id, messages::CREATE_BINDING_FAILURE)));
            return;
        }
        let allotment = launched::allotment(&info, &pod);
        let task =
            Task { key, pod: Box::new(pod.clone()), allotment, stage: Stage::Binding, stop: None, closed: false };
        self.tasks.insert(id.clone(), task);
        out.push(Action::Bind { task: id, pod: Box::new(pod) });
    }

    fn bound(&mut self, id: &str, result: Result<Box<Pod>, BindFailure>, out: &mut Vec<Action>) {
        let Some(task) = self.tasks.get_mut(id).filter(|task| task.stage == Stage::Binding) else { return };
        let pod = match result {
            Ok(pod) => pod,
            Err(failure) => {
                let status = match failure {
                    BindFailure::Gone(reason) => {
                        tracing::info!(task = id, %reason, "nothing to run");
                        status::killed(id, messages::POD_DELETED)
                    }
                    BindFailure::Failed { message, detail } => {
                        tracing::error!(task = id, %detail, "{message}");
                        status::failed(id, message)
                    }
                };
                self.close(id, status, out);
                return;
            }
        };
        match task.stop {
            None | Some((StopCause::Deleted, _)) => {
                let newest = launched::merged(*pod, &task.pod);
                let pod = Box::new(launched::granted(newest.clone(), &task.pod, &task.allotment));
                task.stage = Stage::Started;
                let (uid, stop, allotment) = (task.key.uid.clone(), task.stop, task.allotment);
                let resized = *pod != newest;
                out.push(send(status::starting(id, &task.key)));
                out.push(Action::StartPod { task: id.to_owned(), pod, allotment });
                if resized {
                    out.push(Action::UpdatePod { uid: uid.clone(), pod: Box::new(newest) });
                }
                if let Some((cause, grace)) = stop {
                    out.push(Action::StopPod { uid, cause, grace });
                }
            }
            Some((StopCause::Killed, _)) => {
                let status = status::killed(id, messages::POD_DELETED);
                self.delete_and_close(id, status, out);
            }
            Some((StopCause::Gone, _)) => {
                let status = status::killed(id, messages::POD_DELETED);
                self.close(id, status, out);
            }
            Some((StopCause::Shutdown, _)) => {
                let status = status::killed(id, messages::EXECUTOR_SHUTDOWN);
                self.close(id, status, out);
            }
        }
    }

    fn running(&mut self, id: &str, pod_status: &PodStatus, out: &mut Vec<Action>) {
        let Some(task) = self.tasks.get_mut(id).filter(|task| task.stage == Stage::Started) else { return };
        task.stage = Stage::Running;
        if !task.closed {
            out.push(send(status::running(id, &task.key, pod_status)));
        }
    }

    fn message(&mut self, data: &[u8], out: &mut Vec<Action>) {
        let text = String::from_utf8_lossy(data);
        if text == messages::KAMIKAZE {
            if self.tasks.is_empty() {
                self.exit("kamikaze", out);
            } else {
                tracing::error!(tasks = self.tasks.len(), "kamikaze refused: there are tasks");
            }
        } else if let Some(id) = text.strip_prefix(messages::TASK_LOST_PREFIX).filter(|id| !id.is_empty()) {
            out.push(send(status::lost(id, messages::TASK_LOST_ACK)));
            if let Some(task) = self.tasks.get_mut(id) {
                task.closed = true;
                Self::stop(task, StopCause::Killed, None, out);
            }
        } else {
            tracing::warn!(%text, "unknown framework message");
        }
    }

    fn shutdown(&mut self, out: &mut Vec<Action>) {
        self.terminated = true;
        let grace = self.settings.shutdown_grace;
        for task in self.tasks.values_mut() {
            Self::stop(task, StopCause::Shutdown, Some(grace), out);
        }
        // What isn't bound yet runs nothing: there is no need to wait for the API server.
        let binding: Vec<String> =
            self.tasks.iter().filter(|(_, task)| task.stage == Stage::Binding).map(|(id, _)| id.clone()).collect();
        for id in binding {
            self.close(&id, status::killed(&id, messages::EXECUTOR_SHUTDOWN), out);
        }
    }

    fn pod_changed(&mut self, change: PodChange, out: &mut Vec<Action>) {
        match change {
            PodChange::Applied(pod) => self.pod_applied(pod, out),
            PodChange::Gone(uid) => self.pod_gone(&uid, out),
            PodChange::Complete(uids) => {
                let known = |uid: &String| !uids.contains(uid);
                // A pod that is still being bound need not be in the list yet.
                let live = self.tasks.values().filter(|task| task.stage != Stage::Binding);
                let gone: Vec<String> =
                    live.map(|task| task.key.uid.clone()).chain(self.ended.keys().cloned()).filter(known).collect();
                for uid in gone {
                    self.pod_gone(&uid, out);
                }
            }
        }
    }

    fn pod_applied(&mut self, pod: Box<Pod>, out: &mut Vec<Action>) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let deleting = pod.metadata.deletion_timestamp.is_some();
        let grace = pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        if let Some(task) = self.tasks.values_mut().find(|task| task.key.uid == uid) {
            if task.stage != Stage::Binding {
                out.push(Action::UpdatePod { uid, pod: Box::new(launched::merged(*pod, &task.pod)) });
            }
            if deleting {
                Self::stop(task, StopCause::Deleted, grace.map(Duration::from_secs), out);
            }
        } else if deleting && let Some(key) = self.ended.remove(&uid) {
            out.push(Action::ForgetPod { uid });
            out.push(Action::DeletePod { key, then: None });
        }
    }

    fn pod_gone(&mut self, uid: &str, out: &mut Vec<Action>) {
        /// A forced deletion leaves containers a moment to end.
        const FORCED: Duration = Duration::from_secs(1);
        if let Some(task) = self.tasks.values_mut().find(|task| task.key.uid == uid) {
            task.stop = Some((StopCause::Gone, Some(FORCED)));
            Self::stop(task, StopCause::Gone, Some(FORCED), out);
        } else if self.ended.remove(uid).is_some() {
            out.push(Action::ForgetPod { uid: uid.to_owned() });
        }
    }
}

fn send(status: v1::TaskStatus) -> Action {
    Action::Send(Box::new(status))
}

/// The pod in a task's data.
fn parse(info: &v1::TaskInfo) -> Result<Pod, String> {
    let data = info.data.as_deref().filter(|data| !data.is_empty()).ok_or("the task carries no data")?;
    let pod: Pod = serde_json::from_slice(data).map_err(|error| error.to_string())?;
    let key = PodKey::of(&pod);
    for (field, value) in [("name", &key.name), ("namespace", &key.namespace), ("uid", &key.uid)] {
        if value.is_empty() {
            return Err(format!("metadata.{field} is missing"));
        }
    }
    match pod.spec.as_ref().map(|spec| spec.containers.len()) {
        None | Some(0) => Err("spec.containers is empty".into()),
        Some(_) => Ok(pod),
    }
}
