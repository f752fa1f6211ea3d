//! The scheduler as a program uses it: a lock, a clock and waiting around [`State`].

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use km_kube::selector::LabelSelector;
use km_mesos_proto::v1;
use km_podtask::PodKey;

use super::{Action, Driver, Error, Event, Policy, State};

/// Pods on Mesos. Share it in an `Arc`; every method may be called from any thread.
///
/// Calls that wait ([`Scheduler::schedule`]) block their thread: in an async program, call them where blocking is
/// allowed (`tokio::task::spawn_blocking`).
pub struct Scheduler {
    inner: Mutex<Inner>,
    driver: RwLock<Option<Arc<dyn Driver>>>,
    start: Instant,
}

struct Inner {
    state: State,
    /// Who waits for a task's machine.
    waiting: BTreeMap<String, mpsc::SyncSender<String>>,
}

impl Scheduler {
    /// `executor` runs all pods: it is part of every task. The scheduler is unregistered and has no driver yet.
    pub fn new(executor: v1::ExecutorInfo, policy: impl Policy + 'static) -> Self {
        let inner = Inner { state: State::new(executor, Box::new(policy)), waiting: BTreeMap::new() };
        Self { inner: Mutex::new(inner), driver: RwLock::new(None), start: Instant::now() }
    }

    /// The way to Mesos. Needed before [`Scheduler::create_pod`].
    pub fn set_driver(&self, driver: Arc<dyn Driver>) {
        *self.driver.write().unwrap_or_else(PoisonError::into_inner) = Some(driver);
    }

    /// Waits, however long it takes, until an offer fits the pod, and returns the machine's host name. `machines` lists
    /// the host names that the pod may run on; its error is returned at once.
    pub fn schedule<E>(&self, pod: Pod, machines: impl FnOnce() -> Result<Vec<String>, E>) -> Result<String, Error>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let key = PodKey::of(&pod.metadata);
        let (_, selected) = self.start_scheduling(pod, machines)?;
        selected.recv().map_err(|_superseded| Error::Superseded(key))
    }

    /// The same with a deadline. When it has passed, the pod is forgotten.
    pub fn schedule_within<E>(
        &self,
        patience: Duration,
        pod: Pod,
        machines: impl FnOnce() -> Result<Vec<String>, E>,
    ) -> Result<String, Error>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let key = PodKey::of(&pod.metadata);
        let (id, selected) = self.start_scheduling(pod, machines)?;
        match selected.recv_timeout(patience) {
            Ok(hostname) => Ok(hostname),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Error::Superseded(key)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let mut inner = self.lock();
                // It may have been selected since.
                if let Ok(hostname) = selected.try_recv() {
                    return Ok(hostname);
                }
                let actions = inner.state.withdraw(self.now(), &id);
                inner.tell(actions);
                Err(Error::TimedOut { pod: key, waited: patience })
            }
        }
    }

    fn start_scheduling<E>(
        &self,
        pod: Pod,
        machines: impl FnOnce() -> Result<Vec<String>, E>,
    ) -> Result<(String, mpsc::Receiver<String>), Error>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let machines = machines().map_err(|error| Error::Machines(error.into()))?;
        let id = uuid::Uuid::new_v4().to_string();
        let (sender, selected) = mpsc::sync_channel(1);
        let mut inner = self.lock();
        let actions = inner.state.schedule(self.now(), id.clone(), pod, machines)?;
        inner.waiting.insert(id.clone(), sender);
        inner.tell(actions);
        Ok((id, selected))
    }

    /// Launches a pod on the machine that [`Scheduler::schedule`] chose.
    pub fn create_pod(&self, key: &PodKey) -> Result<(), Error> {
        let driver = self.driver()?;
        let action = self.lock().state.create_pod(self.now(), key)?;
        let Action::Launch { offers, task } = action else { return Ok(()) };
        let id = task.task_id.value.clone();
        driver.launch_tasks(offers, vec![*task]).map_err(|error| {
            let mut inner = self.lock();
            let actions = inner.state.launch_failed(self.now(), &id);
            inner.tell(actions);
            Error::Driver(error)
        })
    }

    /// Kills a pod that runs. It is there until Mesos says that its task has ended.
    pub fn delete_pod(&self, key: &PodKey) -> Result<(), Error> {
        let driver = self.driver()?;
        let action = self.lock().state.delete_pod(key)?;
        let Action::Kill { task_id } = action else { return Ok(()) };
        driver.kill_task(&task_id).map_err(Error::Driver)
    }

    /// Always an error: a task can't be changed.
    pub fn update_pod(&self, _pod: &Pod) -> Result<(), Error> {
        Err(Error::NotImplemented)
    }

    /// A pod that waits or runs; one that runs has phase `Running`, its node, and what the executor said of its
    /// containers.
    pub fn get_pod(&self, key: &PodKey) -> Result<Pod, Error> {
        self.lock().state.get_pod(key)
    }

    /// The pods that run, then those that wait, whose labels match.
    pub fn list_pods(&self, selector: &LabelSelector) -> Vec<Pod> {
        self.lock().state.list_pods(selector)
    }

    /// Gives back all offers that no pod uses. Without this they are kept until Mesos takes them back.
    pub fn return_offers(&self) -> Result<(), Error> {
        let driver = self.driver()?;
        let actions = self.lock().state.return_offers(self.now());
        for action in actions {
            if let Action::Decline { offers } = action {
                driver.decline_offers(offers).map_err(Error::Driver)?;
            }
        }
        Ok(())
    }

    /// Callback: Mesos knows the framework.
    pub fn registered(&self, framework_id: v1::FrameworkId, master: v1::MasterInfo) {
        tracing::info!(framework = framework_id.value, master = master.id, "registered");
        self.handle(Event::Registered { framework_id, master });
    }

    /// Callback: Mesos knows it again. Tasks are kept.
    pub fn reregistered(&self, master: v1::MasterInfo) {
        tracing::info!(master = master.id, "registered again");
        self.handle(Event::Reregistered { master });
    }

    /// Callback: the connection is lost.
    pub fn disconnected(&self) {
        tracing::warn!("disconnected");
        self.handle(Event::Disconnected);
    }

    /// Callback: Mesos makes offers. Pods that wait are placed at once.
    pub fn resource_offers(&self, offers: Vec<v1::Offer>) {
        self.handle(Event::ResourceOffers(offers));
    }

    /// Callback: Mesos takes an offer back.
    pub fn offer_rescinded(&self, offer: v1::OfferId) {
        self.handle(Event::OfferRescinded(offer));
    }

    /// Callback: a task's state.
    pub fn status_update(&self, status: v1::TaskStatus) {
        self.handle(Event::StatusUpdate(Box::new(status)));
    }

    /// Callback: an executor's message. Only logged.
    pub fn framework_message(&self, executor: &v1::ExecutorId, slave: &v1::AgentId, data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        tracing::info!(executor = executor.value, slave = slave.value, %text, "message from an executor");
    }

    /// Callback: an agent is gone. Only logged: its tasks and offers end by their own updates.
    pub fn slave_lost(&self, slave: &v1::AgentId) {
        tracing::warn!(slave = slave.value, "slave lost");
    }

    /// Callback: an executor ended. Only logged.
    pub fn executor_lost(&self, executor: &v1::ExecutorId, slave: &v1::AgentId, status: i32) {
        tracing::warn!(executor = executor.value, slave = slave.value, status, "executor lost");
    }

    /// Callback: the driver failed. Only logged.
    pub fn error(&self, message: &str) {
        tracing::error!(message, "the driver failed");
    }

    pub fn is_registered(&self) -> bool {
        self.lock().state.is_registered()
    }

    /// The framework id that Mesos gave.
    pub fn framework_id(&self) -> Option<v1::FrameworkId> {
        self.lock().state.framework_id().cloned()
    }

    /// The master that registered the framework last.
    pub fn master(&self) -> Option<v1::MasterInfo> {
        self.lock().state.master().cloned()
    }

    /// Agents that ever made an offer: host names by id.
    pub fn slaves(&self) -> BTreeMap<String, String> {
        self.lock().state.slaves().map(|(id, hostname)| (id.to_owned(), hostname.to_owned())).collect()
    }

    /// The offers that no pod uses.
    pub fn offers(&self) -> Vec<v1::Offer> {
        self.lock().state.free_offers().cloned().collect()
    }

    /// Tasks that were launched and didn't end, with their agents.
    pub(super) fn launched(&self) -> Vec<(String, String)> {
        self.lock().state.launched()
    }

    fn handle(&self, event: Event) {
        let mut inner = self.lock();
        let actions = inner.state.handle(self.now(), event);
        inner.tell(actions);
    }

    fn driver(&self) -> Result<Arc<dyn Driver>, Error> {
        self.driver.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::NoDriver)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A policy that panics leaves tasks that the next round resets.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Inner {
    /// Tells those who wait. Mesos' callbacks lead to no calls of the driver.
    fn tell(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Selected { task_id, hostname } => {
                    if let Some(waiting) = self.waiting.remove(&task_id) {
                        // There is room for one, and only one is ever sent; nobody may be left to read it.
                        let _nobody_waits = waiting.try_send(hostname);
                    }
                }
                Action::Dropped { task_id } => {
                    self.waiting.remove(&task_id);
                }
                Action::Launch { .. } | Action::Kill { .. } | Action::Decline { .. } => {}
            }
        }
    }
}
