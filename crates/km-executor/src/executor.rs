//! The executor's main loop: brings events to [`Tasks`] and carries its actions out.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::Pod;
use km_mesos_proto::v1::executor::{Event as AgentEvent, event::Type};
use km_pod::Allotment;
use km_runtime::{ContainerEvent, Runtime};
use tokio::{
    sync::{broadcast, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{Agent, News},
    api::{Api, ApiError, PodChange, PodKey},
    binding,
    node::Description,
    pod::{self, Input, OwnObject, Report, Shared},
    retry::while_unavailable,
    static_pods::StaticPods,
    table::PodTable,
    tasks::{Action, Event, Tasks},
};

/// What the loop works with.
pub struct Executor {
    pub shared: Arc<Shared>,
    pub tasks: Tasks,
    pub agent: Agent,
    pub table: PodTable,
    pub description: Arc<Description>,
    /// Run beside the tasks, for as long as we do.
    pub static_pods: Vec<Pod>,
    /// What pods may take of the time to end.
    pub shutdown_grace: Duration,
    /// How long an unavailable API server may hold up a launch; zero: for ever.
    pub launch_grace: Duration,
    /// How long all may take after the order to end.
    pub shutdown_period: Duration,
}

/// Left of the shutdown period when we stop waiting for anything.
const MARGIN: Duration = Duration::from_millis(500);

impl Executor {
    /// Runs until everything has ended: by order of the agent, for want of work, or by `stop`.
    pub async fn run(mut self, mut news: mpsc::Receiver<News>, stop: CancellationToken) {
        let (sender, mut events) = mpsc::unbounded_channel();
        let runtime = self.shared.runtime.clone();
        let mut changes: BoxStream<'static, PodChange> = self.shared.api.watch_pods(&self.description.name);
        let mut containers = runtime.events();
        let mut static_pods =
            StaticPods::start(&self.static_pods, &self.shared, &self.table, &self.description, &sender);
        let mut jobs = JoinSet::new();
        let mut timer: Option<Duration> = None;
        let mut hard_deadline: Option<Duration> = None;
        let mut over = false;
        // Nobody is left to acknowledge anything.
        let mut agent_gone = false;
        let mut news_over = false;
        // Without an idle timer yet: asks for one.
        let mut next = Some(Event::Timer);
        loop {
            if let Some(event) = next.take() {
                match &event {
                    Event::Shutdown => {
                        let last = self.shared.clock.mono() + self.shutdown_period.saturating_sub(MARGIN);
                        hard_deadline.get_or_insert(last);
                        static_pods.stop(self.shutdown_grace);
                    }
                    Event::Pod(change) => static_pods.pod_changed(change),
                    _ => {}
                }
                for action in self.tasks.handle(self.shared.clock.mono(), event) {
                    match action {
                        Action::SetTimer { at } => timer = Some(at),
                        Action::Exit { why } => {
                            tracing::info!(why, "the executor ends");
                            over = true;
                            static_pods.stop(self.shutdown_grace);
                            let last = self.shared.clock.mono() + self.shutdown_period.saturating_sub(MARGIN);
                            hard_deadline.get_or_insert(last);
                        }
                        other => self.carry_out(other, &sender, &mut jobs),
                    }
                }
            }
            let told = self.agent.is_idle() || agent_gone;
            if over && jobs.is_empty() && told && static_pods.have_ended() {
                static_pods.farewell().await;
                break;
            }
            let clock = self.shared.clock;
            let at = |at: Option<Duration>| async move {
                match at {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                item = news.recv(), if !news_over => match item {
                    Some(item) => {
                        agent_gone |= matches!(item, News::GaveUp(_));
                        next = self.heard(item);
                    }
                    None => news_over = true,
                },
                event = events.recv() => next = event,
                change = changes.next() => match change {
                    Some(change) => next = Some(Event::Pod(change)),
                    None => changes = futures::stream::pending().boxed(),
                },
                event = containers.recv() => self.container_event(&*runtime, event).await,
                Some(_) = jobs.join_next(), if !jobs.is_empty() => {}
                () = at(timer) => {
                    timer = None;
                    next = Some(Event::Timer);
                }
                () = at(hard_deadline) => {
                    tracing::warn!("the time to end is over: what is left is cut off");
                    break;
                }
                () = stop.cancelled(), if hard_deadline.is_none() => next = Some(Event::Shutdown),
            }
        }
    }

    /// What the agent's news means to the tasks.
    fn heard(&self, news: News) -> Option<Event> {
        match news {
            News::Subscribed(_) => {
                tracing::info!("subscribed again");
                None
            }
            News::GaveUp(reason) => {
                tracing::error!(%reason, "the agent is away for good");
                Some(Event::Shutdown)
            }
            News::Event(event) => self.of_agent(*event),
        }
    }

    fn of_agent(&self, event: AgentEvent) -> Option<Event> {
        match event.r#type() {
            Type::Launch => {
                let task = event.launch?.task;
                self.agent.launched(task.clone());
                Some(Event::Launch(Box::new(task)))
            }
            Type::LaunchGroup => {
                tracing::error!("a task group was sent to this executor, which runs single tasks only");
                None
            }
            Type::Kill => {
                let kill = event.kill?;
                let nanos = kill.kill_policy.and_then(|policy| policy.grace_period).map(|grace| grace.nanoseconds);
                let grace = nanos.and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos);
                Some(Event::Kill { task: kill.task_id.value, grace })
            }
            Type::Acknowledged => {
                let acknowledged = event.acknowledged?;
                self.agent.acknowledged(&acknowledged.task_id, &acknowledged.uuid);
                None
            }
            Type::Message => Some(Event::Message(event.message?.data)),
            Type::Shutdown => Some(Event::Shutdown),
            Type::Subscribed | Type::Heartbeat | Type::Error | Type::Unknown => None,
        }
    }

    fn carry_out(&self, action: Action, events: &mpsc::UnboundedSender<Event>, jobs: &mut JoinSet<()>) {
        match action {
            Action::Bind { task, pod } => {
                let (api, node, patience) = (self.shared.api.clone(), self.description.name.clone(), self.launch_grace);
                let events = events.clone();
                tokio::spawn(async move {
                    let result = binding::bind(&*api, &pod, &node, patience).await.map(Box::new);
                    tell(&events, Event::Bound { task, result });
                });
            }
            Action::StartPod { task, pod, allotment } => self.start(task, *pod, allotment, events.clone()),
            Action::UpdatePod { uid, pod } => self.with(&uid, km_pod::Event::Updated(pod)),
            Action::StopPod { uid, cause, grace } => {
                let grace = grace.unwrap_or_else(|| self.grace_of(&uid));
                self.with(&uid, km_pod::Event::Stop { cause, grace });
            }
            Action::Send(status) => self.agent.send(*status),
            Action::DeletePod { key, then } => {
                let (api, agent) = (self.shared.api.clone(), self.agent.clone());
                jobs.spawn(async move {
                    delete(&*api, &key).await;
                    if let Some(status) = then {
                        agent.send(*status);
                    }
                });
            }
            Action::ForgetPod { uid } => self.forget(&uid),
            Action::SetTimer { .. } | Action::Exit { .. } => {}
        }
    }

    fn start(&self, task: String, pod: Pod, allotment: Allotment, events: mpsc::UnboundedSender<Event>) {
        let report = move |report| {
            let task = task.clone();
            tell(
                &events,
                match report {
                    Report::Running { status } => Event::Running { task, status },
                    Report::Ended { outcome } => Event::Ended { task, outcome },
                },
            );
        };
        let sink = OwnObject { api: self.shared.api.clone(), key: PodKey::of(&pod) };
        self.table.insert(pod::spawn(self.shared.clone(), pod, Some(allotment), Arc::new(sink), report));
    }

    fn with(&self, uid: &str, event: km_pod::Event) {
        if let Some(pod) = self.table.get(uid) {
            pod.send(event);
        }
    }

    fn grace_of(&self, uid: &str) -> Duration {
        let seconds = self.table.get(uid).and_then(|pod| {
            let pod = pod.view.borrow();
            pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds)
        });
        Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30))
    }

    fn forget(&self, uid: &str) {
        self.table.remove(uid);
        let dir: PathBuf = self.shared.pods_dir.join(uid);
        tokio::task::spawn_blocking(move || match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(dir = %dir.display(), %error, "a pod's folder is left over");
            }
            _ => {}
        });
    }

    /// Hands a runtime event to its pod. After a gap all containers are looked at.
    async fn container_event(&self, runtime: &dyn Runtime, event: Result<ContainerEvent, broadcast::error::RecvError>) {
        match event {
            Ok(event) => self.look_at(&event.sandbox_id, event.container_id),
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "container events were missed: listing");
                match runtime.list_containers(None).await {
                    Ok(list) => list.into_iter().for_each(|one| self.look_at(&one.sandbox_id, one.id)),
                    Err(error) => tracing::error!(%error, "containers not listed"),
                }
            }
            // The runtime is being dropped; nothing more will happen.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }

    fn look_at(&self, uid: &str, container: String) {
        let Some(pod) = self.table.get(uid) else { return };
        if pod.input.send(Input::Container(container)).is_err() {
            tracing::trace!(uid, "container event of a pod that has ended");
        }
    }
}

fn tell(events: &mpsc::UnboundedSender<Event>, event: Event) {
    if events.send(event).is_err() {
        tracing::debug!("the executor has ended before this was known");
    }
}

/// Deletes a pod whose containers are gone; its absence is what counts.
pub async fn delete(api: &dyn Api, key: &PodKey) {
    match while_unavailable("deleting a pod", || api.delete_pod(key)).await {
        Ok(()) | Err(ApiError::NotFound | ApiError::Conflict(_)) => {}
        Err(error) => {
            tracing::error!(pod = key.name, namespace = key.namespace, %error, "the server keeps the pod");
        }
    }
}
