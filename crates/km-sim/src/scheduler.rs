//! The scheduler's process: its core, and what its shell does for it, over links that may break.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use km_mesos_core::master::{self, ConnectionId};
use km_mesos_proto::v1::{self, TaskState, framework_info::capability::Type as Capability, scheduler::event};
use km_podtask::{PodKey, executor};
use km_scheduler::{
    core::{Action, ApiFailure, ApiReply, CallOutcome, Config, Core, Event},
    wire,
};
use rand::Rng;

use crate::{
    Violation,
    world::{Delivery, World},
};

/// How often the operator API is asked for the agents.
const AGENTS_INTERVAL: Duration = Duration::from_secs(5);

/// One scheduler process after the other.
#[derive(Default)]
pub(crate) struct Scheduler {
    pub core: Option<Core>,
    /// Counts the processes, and with it what the stored identity counts.
    pub life: u64,
    /// The stored framework id.
    framework_id: Option<String>,
    /// The subscription, from its call on.
    pub connection: Option<ConnectionId>,
    subscribed: bool,
    /// Counts the watches: what is on its way in an older one is lost.
    epoch: u64,
    /// What the watch has shown, to find missed deletions.
    pods: BTreeMap<PodKey, Arc<Pod>>,
    nodes: BTreeMap<String, Arc<Node>>,
    /// Updates that ended a task, by uuid: what their acknowledgement is about.
    endings: BTreeMap<Vec<u8>, String>,
}

fn config() -> Config {
    let command = v1::CommandInfo {
        value: Some("/km".to_owned()),
        shell: Some(false),
        arguments: vec!["/km".to_owned(), "minion".to_owned()],
        ..v1::CommandInfo::default()
    };
    let mut prototype = v1::ExecutorInfo {
        name: Some(executor::NAME.to_owned()),
        command: Some(command),
        r#type: Some(v1::executor_info::Type::Custom as i32),
        ..v1::ExecutorInfo::default()
    };
    prototype.executor_id = executor::id(&prototype);
    Config { executor: prototype, unknown_grace: Duration::from_secs(120), ..Config::default() }
}

fn framework() -> v1::FrameworkInfo {
    let capabilities = [Capability::MultiRole, Capability::PartitionAware, Capability::ReservationRefinement];
    v1::FrameworkInfo {
        user: "root".to_owned(),
        name: "Kubernetes".to_owned(),
        failover_timeout: Some(1e9),
        checkpoint: Some(true),
        roles: vec!["*".to_owned()],
        capabilities: capabilities
            .map(|capability| v1::framework_info::Capability { r#type: Some(capability as i32) })
            .to_vec(),
        ..v1::FrameworkInfo::default()
    }
}

impl World {
    pub(crate) fn scheduler_starts(&mut self) -> Result<(), Violation> {
        if self.api.down {
            self.at(Duration::from_secs(1), Delivery::SchedulerStarts);
            return Ok(());
        }
        let scheduler = &mut self.scheduler;
        scheduler.life += 1;
        scheduler.epoch += 1;
        scheduler.pods.clear();
        scheduler.nodes.clear();
        scheduler.connection = None;
        scheduler.subscribed = false;
        let generation = u32::try_from(scheduler.life).unwrap_or(u32::MAX);
        scheduler.core = Some(Core::new(config(), generation));
        let epoch = scheduler.epoch;
        self.note(|| format!("scheduler starts, number {generation}"));
        self.relist(epoch)?;
        self.scheduler_event(Event::CachesSynced)?;
        self.subscribe();
        let life = self.scheduler.life;
        self.at(Duration::from_millis(100), Delivery::Agents { life });
        Ok(())
    }

    pub(crate) fn scheduler_crashes(&mut self) {
        self.scheduler.core = None;
        self.scheduler.epoch += 1;
        self.drop_connection();
    }

    fn drop_connection(&mut self) {
        self.scheduler.subscribed = false;
        if let Some(connection) = self.scheduler.connection.take() {
            self.send(format!("calls-of-{}", connection.0), Delivery::MasterSawEnd { connection });
        }
    }

    /// Both sides find out, each in its own time.
    pub(crate) fn break_scheduler_stream(&mut self) {
        if let Some(connection) = self.scheduler.connection {
            self.send(format!("calls-of-{}", connection.0), Delivery::MasterSawEnd { connection });
            self.send(format!("stream{}", connection.0), Delivery::SchedulerClosed { connection });
        }
    }

    fn subscribe(&mut self) {
        let connection = self.connection();
        self.scheduler.connection = Some(connection);
        let life = self.scheduler.life;
        self.send(format!("calls-of-{}", connection.0), Delivery::Subscribe { life, connection });
    }

    pub(crate) fn subscribe_arrives(&mut self, life: u64, connection: ConnectionId) {
        if life != self.scheduler.life || self.scheduler.connection != Some(connection) {
            return;
        }
        if self.master.is_none() {
            self.send(format!("stream{}", connection.0), Delivery::SchedulerClosed { connection });
            return;
        }
        let mut framework_info = framework();
        framework_info.id = self.scheduler.framework_id.clone().map(v1::FrameworkId::from);
        let subscribe = v1::scheduler::call::Subscribe { framework_info, ..Default::default() };
        let stream_id = stream_id(connection);
        let subscribe = Box::new(subscribe);
        self.master_event(master::Event::Subscribe { connection, stream_id, principal: None, subscribe });
    }

    pub(crate) fn scheduler_hears(
        &mut self,
        connection: ConnectionId,
        wire: v1::scheduler::Event,
    ) -> Result<(), Violation> {
        if self.scheduler.connection != Some(connection) || self.scheduler.core.is_none() {
            return Ok(());
        }
        match wire.r#type() {
            event::Type::Subscribed => {
                let id = wire.subscribed.map(|subscribed| subscribed.framework_id.value).unwrap_or_default();
                // The id is stored before anything is launched; without an API server that has to wait.
                if self.api.down && self.scheduler.framework_id.is_none() {
                    self.break_scheduler_stream();
                    return Ok(());
                }
                self.scheduler.framework_id = Some(id.clone());
                self.scheduler.subscribed = true;
                self.scheduler_event(Event::Subscribed { framework_id: id })
            }
            event::Type::Error => {
                let message = wire.error.map(|error| error.message).unwrap_or_default();
                self.violated(format!("the master refuses the framework: {message}"))
            }
            _ => match wire::translate(wire) {
                Some(event) => {
                    if let Event::Update(status) = &event {
                        let (id, state, reason) = (&status.task_id.value, status.state(), status.reason());
                        let uuid = if status.uuid.is_some() { "to be acknowledged" } else { "" };
                        self.note(|| format!("scheduler hears {id} {state:?} {reason:?} {uuid}"));
                    }
                    if let Event::Update(status) = &event
                        && let Some(uuid) = status.uuid.clone().filter(|_| is_ending(status.state()))
                    {
                        self.scheduler.endings.insert(uuid, status.task_id.value.clone());
                    }
                    self.scheduler_event(event)
                }
                None => Ok(()),
            },
        }
    }

    pub(crate) fn scheduler_loses(&mut self, connection: ConnectionId) -> Result<(), Violation> {
        if self.scheduler.connection != Some(connection) || self.scheduler.core.is_none() {
            return Ok(());
        }
        self.scheduler.connection = None;
        self.scheduler.subscribed = false;
        self.scheduler_event(Event::Disconnected)?;
        self.subscribe_later();
        Ok(())
    }

    fn subscribe_later(&mut self) {
        // The pause before the next attempt is part of the call's delay.
        let connection = self.connection();
        self.scheduler.connection = Some(connection);
        let life = self.scheduler.life;
        let pause = self.around(Duration::from_millis(500));
        self.at(pause, Delivery::Subscribe { life, connection });
    }

    pub(crate) fn scheduler_event(&mut self, event: Event) -> Result<(), Violation> {
        let now = self.now;
        let Some(core) = self.scheduler.core.as_mut() else { return Ok(()) };
        for action in core.handle(now, event) {
            self.scheduler_acts(action)?;
        }
        Ok(())
    }

    fn scheduler_acts(&mut self, action: Action) -> Result<(), Violation> {
        let life = self.scheduler.life;
        match action {
            Action::ForgetFramework => self.scheduler.framework_id = None,
            Action::Observe(_) | Action::EmitEvent { .. } => {}
            action @ (Action::Accept { .. }
            | Action::Decline { .. }
            | Action::Suppress
            | Action::Revive
            | Action::Kill { .. }
            | Action::Acknowledge { .. }
            | Action::Reconcile(_)
            | Action::Message { .. }) => self.scheduler_calls(action)?,
            operation => {
                let delay = self.latency();
                self.at(delay, Delivery::Operation { life, action: Box::new(operation) });
            }
        }
        Ok(())
    }

    fn scheduler_calls(&mut self, action: Action) -> Result<(), Violation> {
        if let Action::Kill { task_id, .. } = &action {
            self.check_kill(task_id)?;
        }
        match &action {
            Action::Acknowledge { uuid, .. } => {
                if let Some(task) = self.scheduler.endings.get(uuid).cloned() {
                    self.check_ending(&task)?;
                }
            }
            other => self.note(|| brief(other)),
        }
        let life = self.scheduler.life;
        let batch = match &action {
            Action::Accept { batch, .. } => Some(*batch),
            _ => None,
        };
        let Some(connection) = self.scheduler.connection.filter(|_| self.scheduler.subscribed) else {
            if let Some(batch) = batch {
                self.at(Duration::ZERO, Delivery::AcceptResult { life, batch, outcome: CallOutcome::Refused });
            }
            return Ok(());
        };
        let Some(mut call) = wire::call(action) else { return Ok(()) };
        call.framework_id = self.scheduler.framework_id.clone().map(v1::FrameworkId::from);
        let stream = stream_id(connection);
        // A call that fails ends the subscription, as the shell does. It may have arrived all the same.
        let (lost, arrives) = (self.faulty() && self.rng.random_bool(0.005), self.rng.random_bool(0.5));
        let asks = batch.filter(|_| !lost);
        if !lost || arrives {
            let call = Box::new(call);
            self.send(format!("calls-of-{}", connection.0), Delivery::Call { life, stream, call, batch: asks });
        }
        if lost {
            if let Some(batch) = batch {
                let delay = self.around(Duration::from_secs(2));
                self.at(delay, Delivery::AcceptResult { life, batch, outcome: CallOutcome::InDoubt });
            }
            self.break_scheduler_stream();
        }
        Ok(())
    }

    pub(crate) fn call_arrives(&mut self, life: u64, stream: String, call: v1::scheduler::Call, batch: Option<u64>) {
        let event = master::Event::SchedulerCall { stream_id: Some(stream), principal: None, call: Box::new(call) };
        let status = self.master_event_answered(event).map(|answer| answer.status);
        if let Some(batch) = batch {
            let outcome = if status == Some(202) { CallOutcome::Accepted } else { CallOutcome::Refused };
            let delay = self.latency();
            self.at(delay, Delivery::AcceptResult { life, batch, outcome });
        }
    }

    pub(crate) fn agents_polled(&mut self, life: u64) -> Result<(), Violation> {
        if life != self.scheduler.life || self.scheduler.core.is_none() {
            return Ok(());
        }
        self.at(AGENTS_INTERVAL, Delivery::Agents { life });
        match self.list_agents().filter(|_| self.scheduler.subscribed) {
            Some(agents) => self.scheduler_event(Event::Agents(agents.into_iter().filter_map(wire::seen).collect())),
            None => Ok(()),
        }
    }

    pub(crate) fn operation_arrives(&mut self, life: u64, action: Action) -> Result<(), Violation> {
        let down = self.api.down;
        // A write may have its effect without an answer.
        let unanswered = self.faulty() && self.rng.random_bool(0.01);
        let unavailable = || ApiReply::Failed(ApiFailure::Unavailable("no answer".to_owned()));
        let (op, reply) = match action {
            _ if down => match operation(&action) {
                Some(op) => (op, unavailable()),
                None => return Ok(()),
            },
            Action::CreateNode { op, node } => {
                self.api.create_node(*node);
                (op, ApiReply::Done)
            }
            Action::PatchNode { op, name, patch, .. } => (op, self.api.patch_node(&name, &patch)),
            Action::DeleteNode { op, name } => {
                self.api.delete_node(&name);
                (op, ApiReply::Done)
            }
            Action::DeletePod { op, pod, uid } => {
                self.check_deletion(&pod, &uid)?;
                self.note(|| format!("scheduler deletes {pod}"));
                (op, self.api.remove_exactly(&pod, &uid))
            }
            Action::FetchPod { op, pod, uid } => (op, self.api.fetch(&pod, &uid)),
            Action::EndPod { op, pod, uid, phase, .. } => (op, self.api.set_phase(&pod, &uid, phase)),
            Action::ListPods { op } => (op, self.api.list()),
            Action::PatchPodStatus { op, .. } => (op, ApiReply::Done),
            _ => return Ok(()),
        };
        let reply = Box::new(if unanswered { unavailable() } else { reply });
        let delay = self.latency();
        self.at(delay, Delivery::Reply { life, op, reply });
        Ok(())
    }

    /// What changed in the API server goes to the watch.
    pub(crate) fn publish(&mut self) {
        let epoch = self.scheduler.epoch;
        while let Some(event) = self.api.changes.pop_front() {
            self.send(format!("watch{epoch}"), Delivery::Watch { epoch, event: Box::new(event) });
        }
    }

    pub(crate) fn break_watch(&mut self) {
        self.scheduler.epoch += 1;
        let epoch = self.scheduler.epoch;
        let pause = self.around(Duration::from_secs(2));
        self.at(pause, Delivery::Relist { epoch });
    }

    pub(crate) fn watch_delivers(&mut self, epoch: u64, event: Event) -> Result<(), Violation> {
        if epoch != self.scheduler.epoch || self.scheduler.core.is_none() {
            return Ok(());
        }
        let scheduler = &mut self.scheduler;
        match &event {
            Event::PodApplied(pod) => {
                scheduler.pods.insert(PodKey::of(&pod.metadata), Arc::clone(pod));
            }
            Event::PodDeleted(pod) => {
                scheduler.pods.remove(&PodKey::of(&pod.metadata));
            }
            Event::NodeApplied(node) => {
                scheduler.nodes.insert(node.metadata.name.clone().unwrap_or_default(), Arc::clone(node));
            }
            Event::NodeDeleted(name) => {
                scheduler.nodes.remove(name);
            }
            _ => {}
        }
        self.scheduler_event(event)
    }

    /// A new list: everything that is there, and the deletion of what is there no more.
    pub(crate) fn relist(&mut self, epoch: u64) -> Result<(), Violation> {
        if epoch != self.scheduler.epoch || self.scheduler.core.is_none() {
            return Ok(());
        }
        if self.api.down {
            self.at(Duration::from_secs(1), Delivery::Relist { epoch });
            return Ok(());
        }
        let (pods, nodes) = (&self.api.pods, &self.api.nodes);
        let lost = self.scheduler.pods.iter().filter(|(key, _)| !pods.contains_key(*key));
        let mut events: Vec<Event> = lost.map(|(_, pod)| Event::PodDeleted(Arc::clone(pod))).collect();
        let lost = self.scheduler.nodes.keys().filter(|name| !nodes.contains_key(*name));
        events.extend(lost.map(|name| Event::NodeDeleted(name.clone())));
        events.extend(nodes.values().map(|node| Event::NodeApplied(Arc::new(node.clone()))));
        events.extend(pods.values().map(|pod| Event::PodApplied(Arc::new(pod.clone()))));
        // Changes that the list shows already are not watched again.
        self.api.changes.clear();
        for event in events {
            self.watch_delivers(epoch, event)?;
        }
        Ok(())
    }
}

fn is_ending(state: TaskState) -> bool {
    use TaskState::{TaskKilling, TaskRunning, TaskStaging, TaskStarting, TaskUnknown, TaskUnreachable};
    !matches!(state, TaskStaging | TaskStarting | TaskRunning | TaskKilling | TaskUnreachable | TaskUnknown)
}

fn stream_id(connection: ConnectionId) -> String {
    format!("stream-{}", connection.0)
}

/// The id under which the core waits for the answer.
fn operation(action: &Action) -> Option<u64> {
    match action {
        Action::CreateNode { op, .. }
        | Action::PatchNode { op, .. }
        | Action::DeleteNode { op, .. }
        | Action::PatchPodStatus { op, .. }
        | Action::DeletePod { op, .. }
        | Action::FetchPod { op, .. }
        | Action::EndPod { op, .. }
        | Action::ListPods { op } => Some(*op),
        _ => None,
    }
}

fn brief(action: &Action) -> String {
    match action {
        Action::Accept { tasks, refuse, .. } => {
            let ids: Vec<&str> = tasks.iter().map(|task| task.task_id.value.as_str()).collect();
            format!("scheduler launches {ids:?}, refuse {refuse:?}")
        }
        Action::Decline { offers, reason, .. } => format!("scheduler declines {} offers: {reason:?}", offers.len()),
        other => format!("scheduler: {other:?}"),
    }
}
