//! The world: everything that exists, and the loop that lets it happen.

mod deliver;
mod wires;

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use km_mesos_core::{
    agent::Agent,
    master::{ConnectionId, Master, Registry},
};
use km_pod::Moment;
use km_scheduler::core::Framework;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    Report, Settings, Violation,
    check::{Ledger, Runs},
    delivery::Delivery,
    executor::Executor,
    framework::{first_roles, in_roles},
    operators::Upkeep,
    queue::{Queue, Sleeper},
    rival::Rival,
    scheduler::Scheduler,
    storage::Storage,
};
use km_fakeapi::Api;
use wires::Connection;
pub(crate) use wires::Peer;

/// Virtual time starts here: master and agents count from the epoch.
pub(crate) const START: Duration = Duration::from_secs(1_700_000_000);
/// How much of the past is kept for a violation.
const TRACE: usize = 4000;
/// How often it is looked whether everything is at rest.
const LOOK: Duration = Duration::from_secs(10);
/// How long what is at rest must stay so.
const CALM: Duration = Duration::from_secs(60);

/// A simulated host.
#[derive(Default)]
pub(crate) struct Host {
    pub hostname: String,
    pub core: Option<Agent>,
    /// The checkpoint directory.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The open link: its number on the agent's side, and its connection.
    pub link: Option<(u64, ConnectionId)>,
    /// Since when the agent knows that it is registered.
    pub registered_at: Option<Duration>,
    /// When an executor of ours last ended there.
    pub executor_ended: Option<Duration>,
    /// Until when the agent reaches no master.
    pub cut_off_until: Duration,
    /// The host never comes back.
    pub scrapped: bool,
    /// Containers with our executor in it.
    pub executors: BTreeMap<String, Executor>,
    /// Other containers.
    pub processes: BTreeSet<String>,
    /// Counts the watches of its executors.
    pub watches: u64,
}

pub(crate) struct World {
    pub seed: u64,
    pub settings: Settings,
    pub rng: StdRng,
    pub now: Duration,
    /// When the faults end.
    faults_end: Duration,
    pub queue: Queue,
    pub master: Option<Master>,
    pub master_lives: u64,
    pub registry: Registry,
    pub hosts: Vec<Host>,
    pub host_numbers: HashMap<String, usize>,
    pub schedulers: Vec<Scheduler>,
    /// What operators want our framework to be.
    pub framework: Arc<Framework>,
    pub rivals: Vec<Rival>,
    pub api: Api,
    /// The newest version that was sent to watchers.
    pub published: u64,
    pub connections: HashMap<u64, Connection>,
    pub next_connection: u64,
    /// Executors by their stream from the agent.
    pub streams: HashMap<u64, (usize, String)>,
    pub offers: Ledger,
    pub runs: Runs,
    pub upkeep: Upkeep,
    pub storage: Storage,
    /// Whose timers may have changed.
    pub stirred: Vec<Sleeper>,
    pub report: Report,
    trace: VecDeque<(Duration, String)>,
    broken: Option<String>,
}

impl World {
    pub fn new(seed: u64, settings: Settings) -> Self {
        let mut world = Self {
            seed,
            rng: StdRng::seed_from_u64(seed),
            now: START,
            faults_end: START + settings.time,
            queue: Queue::default(),
            master: None,
            master_lives: 0,
            registry: Registry::default(),
            hosts: Vec::new(),
            host_numbers: HashMap::new(),
            schedulers: Vec::new(),
            framework: Arc::new(in_roles(first_roles(seed))),
            rivals: Vec::new(),
            api: Api::default(),
            published: 0,
            connections: HashMap::new(),
            next_connection: 0,
            streams: HashMap::new(),
            offers: Ledger::default(),
            runs: Runs::default(),
            upkeep: Upkeep::default(),
            storage: Storage::default(),
            stirred: Vec::new(),
            report: Report::default(),
            trace: VecDeque::new(),
            broken: None,
            settings,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        self.at(Duration::ZERO, Delivery::MasterStarts);
        for number in 0..self.settings.agents {
            let hostname = format!("host{number}");
            self.host_numbers.insert(hostname.clone(), number);
            self.hosts.push(Host { hostname, ..Host::default() });
            self.at(Duration::from_millis(10), Delivery::AgentStarts(number));
        }
        for number in 0..self.settings.schedulers {
            self.schedulers.push(Scheduler::default());
            self.at(Duration::from_millis(20), Delivery::SchedulerStarts(number));
        }
        self.start_rivals();
        self.make_volumes();
        for _ in 0..self.settings.first_pods {
            self.create_pod();
        }
        if self.settings.work_pause.is_some() {
            self.at(Duration::from_secs(1), Delivery::Work);
        }
        self.plan_faults();
        self.plan_operation();
        self.plan_reconfiguration();
    }

    /// Lets the faults have their time, then waits for rest, and sees that it stays.
    pub fn run(mut self) -> Result<Report, Box<Violation>> {
        self.run_until(self.faults_end)?;
        self.end_faults();
        self.report.rested = self.come_to_rest()? - self.faults_end;
        self.measure()?;
        Ok(self.report)
    }

    /// Runs until nothing happens any more; answers since when.
    pub(crate) fn come_to_rest(&mut self) -> Result<Duration, Box<Violation>> {
        let give_up = self.now + self.settings.rest;
        let mut calm_since = None;
        loop {
            self.run_until(self.now + LOOK)?;
            match self.unrest() {
                None if calm_since.is_some_and(|since| since + CALM <= self.now) => break,
                None => calm_since = calm_since.or(Some(self.now)),
                Some(_) if self.now < give_up => calm_since = None,
                Some(what) => {
                    self.violate(|| what);
                    self.judge()?;
                }
            }
        }
        Ok(calm_since.unwrap_or(self.now))
    }

    pub fn elapsed(&self) -> Duration {
        self.now - START
    }

    pub fn faulty(&self) -> bool {
        self.now < self.faults_end && self.settings.fault_pause.is_some()
    }

    /// Both clocks.
    pub fn moment(&self) -> Moment {
        let nanos = i128::try_from(self.now.as_nanos()).unwrap_or_default();
        Moment { mono: self.now, wall: Timestamp::from_nanosecond(nanos).unwrap_or(Timestamp::UNIX_EPOCH) }
    }

    pub(crate) fn run_until(&mut self, end: Duration) -> Result<(), Box<Violation>> {
        while let Some(at) = self.queue.next_time().filter(|at| *at < end) {
            let Some(delivery) = self.queue.pop() else { break };
            self.now = self.now.max(at);
            self.report.steps += 1;
            // A core that panics broke an invariant that it checks itself.
            let step = catch_unwind(AssertUnwindSafe(|| {
                self.deliver(delivery);
                self.publish();
                self.wake_cores();
            }));
            if let Err(panic) = step {
                self.violate(|| panic_text(&*panic));
            }
            self.judge()?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Ends the run when something is broken.
    fn judge(&mut self) -> Result<(), Box<Violation>> {
        if let Some(broken) = self.api.broken() {
            let broken = broken.to_owned();
            self.violate(|| broken);
        }
        let Some(message) = self.broken.take() else { return Ok(()) };
        let line = |(at, text): (Duration, String)| format!("{:>10.3} {text}", at.as_secs_f64());
        Err(Box::new(Violation {
            seed: self.seed,
            agents: self.settings.agents,
            time: self.settings.time,
            at: self.elapsed(),
            message,
            trace: self.trace.drain(..).map(line).collect(),
        }))
    }

    /// Notes a broken invariant; the first one ends the run.
    pub fn violate(&mut self, message: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(message());
        }
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.trace.len() >= TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back((self.elapsed(), text()));
    }

    /// Puts something into the future.
    pub fn at(&mut self, delay: Duration, delivery: Delivery) {
        self.queue.push(self.now + delay, delivery);
    }

    pub fn latency(&mut self) -> Duration {
        let most = u64::try_from(self.settings.latency.as_micros()).unwrap_or(u64::MAX);
        // Now and then a message is slow.
        let factor = if self.faulty() && self.rng.random_bool(0.02) { 50 } else { 1 };
        Duration::from_micros(self.rng.random_range(100..most) * factor)
    }

    /// A random time around `mean`.
    pub fn around(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(self.rng.random_range(0.05..2.0))
    }

    /// Whether something rare goes wrong now.
    pub fn mishap(&mut self, chance: f64) -> bool {
        self.faulty() && self.rng.random_bool(chance)
    }

    /// What changed in the API server goes to those who watch.
    fn publish(&mut self) {
        if self.published == self.api.version() {
            return;
        }
        for process in 0..self.schedulers.len() {
            self.publish_to_scheduler(process);
        }
        // Changes that were compacted away reach executors by their next list.
        while let Ok(Some(change)) = self.api.change_after(self.published) {
            let change = change.clone();
            self.published = change.version;
            self.publish_to_executors(&change);
        }
        self.published = self.api.version();
    }

    /// Sets the timers of the cores that were called.
    fn wake_cores(&mut self) {
        while let Some(who) = self.stirred.pop() {
            let (deadline, tick) = match who {
                Sleeper::Master => (self.master.as_ref().and_then(Master::next_deadline), Delivery::MasterTick),
                Sleeper::Agent(number) => {
                    let core = self.hosts[number].core.as_ref();
                    (core.and_then(Agent::next_deadline), Delivery::AgentTick(number))
                }
                Sleeper::Scheduler(number) => (self.next_scheduler_wakeup(number), Delivery::SchedulerTick(number)),
            };
            if let Some(at) = deadline {
                self.queue.wake(self.now, at, who, tick);
            }
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a text"))
}
