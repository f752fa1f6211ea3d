//! The scheduler's processes: the core of the one that leads, and what its shell does for it.

mod calls;
mod lead;
mod operations;
mod subscription;
mod watch;

use std::{collections::HashMap, sync::Arc, time::Duration};

use km_mesos_core::master::ConnectionId;
use km_mesos_proto::v1;
use km_podtask::executor;
use km_scheduler::core::{Action, Config, Core, Event, Framework};

use crate::{
    delivery::{Delivery, ToScheduler},
    framework::{Said, first_roles},
    queue::Sleeper,
    world::World,
};
use watch::Watch;

/// One process after the other; at most one of all leads.
#[derive(Default)]
pub(crate) struct Scheduler {
    pub running: bool,
    /// Counts the processes.
    pub life: u64,
    /// Of the process that leads.
    pub core: Option<Core>,
    /// When it was elected, and what its core has cost since; none once it placed something.
    fresh: Option<(Duration, Duration)>,
    /// When it last renewed the Lease.
    renewed: Duration,
    /// Until when it reaches no API server.
    pub cut_off_until: Duration,
    /// As the identity had it when this process began to lead.
    framework_id: Option<String>,
    /// The subscription, from its call on.
    pub connection: Option<ConnectionId>,
    pub subscribed: bool,
    /// What the subscription said.
    said: Option<Said>,
    watches: Vec<Watch>,
    next_watch: u64,
    synced: bool,
    /// Updates with a uuid that were heard: how often, and the task if it is one of its end.
    heard: HashMap<Vec<u8>, Heard>,
}

/// An update that was heard and is to be acknowledged.
pub(crate) struct Heard {
    pub task: String,
    pub ending: bool,
    /// Deliveries that were not acknowledged yet.
    pub open: u32,
}

impl Scheduler {
    pub(crate) fn framework_id(&self) -> Option<&str> {
        self.framework_id.as_deref()
    }

    /// The update of that uuid, if this process heard it.
    pub(crate) fn heard(&mut self, uuid: &[u8]) -> Option<&mut Heard> {
        self.heard.get_mut(uuid)
    }
}

fn config(framework: Arc<Framework>) -> Config {
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
    Config { framework, executor: prototype, unknown_grace: Duration::from_secs(120), ..Config::default() }
}

impl World {
    /// A role that our framework has at any time.
    pub(crate) fn first_role(&self) -> String {
        first_roles(self.seed).swap_remove(0)
    }

    pub(crate) fn bring_to_scheduler(&mut self, process: usize, what: ToScheduler) {
        match what {
            ToScheduler::Elect => self.elect(process),
            ToScheduler::Subscribe => self.subscribe(process),
            ToScheduler::AcceptResult(batch, outcome) => {
                self.scheduler_event(process, Event::AcceptResult { batch, outcome });
            }
            ToScheduler::FrameworkAnswer(number, answer) => {
                self.scheduler_event(process, Event::FrameworkAnswer { number, answer });
            }
            ToScheduler::Resubscribe(connection) => self.resubscribe(process, connection),
            ToScheduler::PollAgents(connection) => self.poll_agents(process, connection),
            ToScheduler::Watch(number, change) => self.watch_delivers(process, number, &change),
            ToScheduler::Resume(number) => self.resume_watch(process, number),
            ToScheduler::Operation(action) => self.operation_arrives(process, *action),
            ToScheduler::Reply(op, reply) => self.scheduler_event(process, Event::Api { op, reply: *reply }),
        }
    }

    /// Puts something into the future of the process that is there now.
    pub(crate) fn at_scheduler(&mut self, process: usize, delay: Duration, what: ToScheduler) {
        let life = self.schedulers[process].life;
        self.at(delay, Delivery::Scheduler(process, life, what));
    }

    pub(crate) fn scheduler_event(&mut self, process: usize, event: Event) {
        let kind = kind(&event);
        let now = self.now;
        let start = self.start_of_cost();
        let Some(core) = self.schedulers[process].core.as_mut() else { return };
        let actions = core.handle(now, event);
        let cost = self.count_cost(|measured| &mut measured.scheduler, kind, start);
        if let Some((_, spent)) = &mut self.schedulers[process].fresh {
            *spent += cost;
        }
        self.stirred.push(Sleeper::Scheduler(process));
        for action in actions {
            self.scheduler_acts(process, action);
        }
    }

    pub(crate) fn next_scheduler_wakeup(&mut self, process: usize) -> Option<Duration> {
        let core = self.schedulers[process].core.as_ref()?;
        let start = self.start_of_cost();
        let at = core.next_wakeup(self.now);
        self.count_cost(|measured| &mut measured.scheduler, "next_wakeup", start);
        at
    }

    fn scheduler_acts(&mut self, process: usize, action: Action) {
        if matches!(action, Action::Accept { .. })
            && let Some((elected, spent)) = self.schedulers[process].fresh.take()
        {
            self.report.measured.first_placements.push((self.now - elected, spent));
        }
        match action {
            Action::ForgetFramework => self.api.keep_framework(None),
            Action::Observe(_) | Action::EmitEvent { .. } => {}
            Action::Acknowledge { .. }
            | Action::Accept { .. }
            | Action::Decline { .. }
            | Action::Suppress
            | Action::Revive
            | Action::AnswerInverse { .. }
            | Action::UpdateFramework { .. }
            | Action::Kill { .. }
            | Action::Reconcile(_)
            | Action::Message { .. } => self.scheduler_calls(process, action),
            Action::Resubscribe => {
                if let Some(connection) = self.schedulers[process].connection {
                    self.at_scheduler(process, Duration::ZERO, ToScheduler::Resubscribe(connection));
                }
            }
            operation => {
                let delay = self.latency();
                self.at_scheduler(process, delay, ToScheduler::Operation(Box::new(operation)));
            }
        }
    }

    /// The process that leads and is subscribed.
    pub(crate) fn leader(&self) -> Option<&Scheduler> {
        self.schedulers.iter().find(|scheduler| scheduler.core.is_some() && scheduler.subscribed)
    }
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Subscribed(_) => "subscribed",
        Event::SubscriptionRefused(_) => "a subscription is refused",
        Event::Configured(_) => "the framework changes",
        Event::FrameworkAnswer { .. } => "the framework's change is answered",
        Event::Disconnected => "disconnected",
        Event::FrameworkRemoved => "framework removed",
        Event::Offers(_) => "offers",
        Event::Rescinded(_) => "rescinded",
        Event::InverseOffers(_) => "inverse offers",
        Event::InverseRescinded(_) => "inverse rescinded",
        Event::Update(_) => "update",
        Event::Failure { .. } => "failure",
        Event::Agents(_) => "agents",
        Event::CachesSynced => "caches synced",
        Event::PodApplied(_) => "pod applied",
        Event::PodDeleted(_) => "pod deleted",
        Event::NodeApplied(_) => "node applied",
        Event::NodeDeleted(_) => "node deleted",
        Event::Namespace { .. } => "namespace",
        Event::Service { .. } => "service",
        Event::BudgetApplied(_) => "budget applied",
        Event::BudgetDeleted(_) => "budget deleted",
        Event::Claim { .. } => "claim",
        Event::Volume { .. } => "volume",
        Event::StorageClass { .. } => "storage class",
        Event::Api { .. } => "api reply",
        Event::AcceptResult { .. } => "accept result",
        Event::Request(_) => "request",
        Event::Tick => "tick",
    }
}
