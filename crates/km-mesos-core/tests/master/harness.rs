//! A master with made-up schedulers and agents around it, in made-up time.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_core::{
    link::{AgentMessage, MasterMessage},
    master::{Action, Answer, Body, Config, ConnectionId, Event, Master, Page, Registry},
};
use km_mesos_proto::{
    resources::Resources,
    v1::{self, TaskState, framework_info, scheduler, scheduler::call, scheduler::call::Type},
};

pub const T0: Duration = Duration::from_secs(1_000_000);

pub struct World {
    pub master: Master,
    /// All that it wrote down.
    pub written: Registry,
    pub now: Duration,
    next_connection: u64,
    /// What came on each scheduler's stream since it was last read.
    pub events: BTreeMap<ConnectionId, Vec<scheduler::Event>>,
    pub operator_events: BTreeMap<ConnectionId, Vec<v1::master::Event>>,
    pub to_agents: BTreeMap<ConnectionId, Vec<MasterMessage>>,
    pub closed: Vec<ConnectionId>,
    /// How often each offer was made and ended by the master.
    pub offered: BTreeMap<String, u32>,
    pub rescinded: BTreeMap<String, u32>,
}

#[derive(Clone, Debug)]
pub struct Scheduler {
    pub connection: ConnectionId,
    pub stream_id: String,
    pub id: String,
}

#[derive(Clone, Debug)]
pub struct TestAgent {
    pub connection: ConnectionId,
    pub id: String,
    pub info: v1::AgentInfo,
}

pub fn config() -> Config {
    let info = v1::MasterInfo {
        id: "master".to_owned(),
        port: 5050,
        hostname: Some("localhost".to_owned()),
        ..Default::default()
    };
    Config::new(info)
}

impl World {
    pub fn new() -> Self {
        Self::with(config(), Registry::default())
    }

    pub fn with(config: Config, registry: Registry) -> Self {
        let master = Master::new(config, registry, T0);
        Self {
            written: master.registry(),
            master,
            now: T0,
            next_connection: 1,
            events: BTreeMap::new(),
            operator_events: BTreeMap::new(),
            to_agents: BTreeMap::new(),
            closed: Vec::new(),
            offered: BTreeMap::new(),
            rescinded: BTreeMap::new(),
        }
    }

    pub fn connection(&mut self) -> ConnectionId {
        self.next_connection += 1;
        ConnectionId(self.next_connection)
    }

    pub fn handle(&mut self, event: Event) -> Option<Answer> {
        let mut answer = None;
        for action in self.master.handle(self.now, event) {
            match action {
                Action::Answer(given) => answer = Some(given),
                Action::ToScheduler { connection, event } => {
                    for offer in event.offers.iter().flat_map(|offers| &offers.offers) {
                        *self.offered.entry(offer.id.value.clone()).or_default() += 1;
                    }
                    if let Some(rescind) = &event.rescind {
                        *self.rescinded.entry(rescind.offer_id.value.clone()).or_default() += 1;
                    }
                    self.events.entry(connection).or_default().push(*event);
                }
                Action::ToOperator { connection, event } => {
                    self.operator_events.entry(connection).or_default().push(*event);
                }
                Action::ToAgent { connection, message } => {
                    self.to_agents.entry(connection).or_default().push(*message);
                }
                Action::Close(connection) => self.closed.push(connection),
                Action::Persist(change) => self.written.apply(change),
            }
        }
        assert_eq!(self.written, self.master.registry(), "what was written down is what the master knows");
        answer
    }

    /// Lets time pass, with every deadline on its way kept.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.master.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.handle(Event::Tick);
        }
        self.now = end;
    }

    pub fn pass_secs(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    pub fn subscribe(&mut self, info: v1::FrameworkInfo) -> Scheduler {
        self.subscribe_suppressed(info, &[])
    }

    pub fn subscribe_suppressed(&mut self, info: v1::FrameworkInfo, suppressed: &[&str]) -> Scheduler {
        let connection = self.connection();
        let stream_id = format!("stream-{}", connection.0);
        let suppressed_roles = suppressed.iter().map(|role| (*role).to_owned()).collect();
        let subscribe = call::Subscribe { framework_info: info, suppressed_roles, offer_constraints: None };
        let subscribe = Box::new(subscribe);
        self.handle(Event::Subscribe { connection, stream_id: stream_id.clone(), principal: None, subscribe });
        let first = self.events.get(&connection).and_then(|events| events.first());
        let id = first.and_then(|event| event.subscribed.as_ref()).map(|one| one.framework_id.value.clone());
        Scheduler { connection, stream_id, id: id.unwrap_or_default() }
    }

    /// What came on a scheduler's stream, heartbeats left out.
    pub fn read(&mut self, scheduler: &Scheduler) -> Vec<scheduler::Event> {
        let all = self.events.remove(&scheduler.connection).unwrap_or_default();
        all.into_iter().filter(|event| event.r#type() != scheduler::event::Type::Heartbeat).collect()
    }

    pub fn offers(&mut self, scheduler: &Scheduler) -> Vec<v1::Offer> {
        self.read(scheduler).into_iter().filter_map(|event| event.offers).flat_map(|offers| offers.offers).collect()
    }

    /// The one offer that came.
    pub fn offer(&mut self, scheduler: &Scheduler) -> v1::Offer {
        let mut offers = self.offers(scheduler);
        assert_eq!(offers.len(), 1, "one offer expected, got {offers:?}");
        offers.remove(0)
    }

    pub fn updates(&mut self, scheduler: &Scheduler) -> Vec<v1::TaskStatus> {
        self.read(scheduler).into_iter().filter_map(|event| event.update).map(|update| update.status).collect()
    }

    pub fn update(&mut self, scheduler: &Scheduler) -> v1::TaskStatus {
        let mut updates = self.updates(scheduler);
        assert_eq!(updates.len(), 1, "one update expected, got {updates:?}");
        updates.remove(0)
    }

    pub fn call_as(&mut self, scheduler: &Scheduler, stream_id: Option<&str>, mut call: scheduler::Call) -> Answer {
        call.framework_id = Some(scheduler.id.as_str().into());
        let stream_id = stream_id.map(str::to_owned);
        let event = Event::SchedulerCall { stream_id, principal: None, call: Box::new(call) };
        self.handle(event).expect("calls are answered")
    }

    pub fn call(&mut self, scheduler: &Scheduler, kind: Type, mut call: scheduler::Call) -> Answer {
        call.r#type = Some(kind as i32);
        let stream_id = scheduler.stream_id.clone();
        self.call_as(scheduler, Some(&stream_id), call)
    }

    pub fn accept(&mut self, scheduler: &Scheduler, offers: &[&v1::Offer], operations: Vec<v1::offer::Operation>) {
        self.accept_refusing(scheduler, offers, operations, 0.0);
    }

    pub fn accept_refusing(
        &mut self,
        scheduler: &Scheduler,
        offers: &[&v1::Offer],
        operations: Vec<v1::offer::Operation>,
        refuse_seconds: f64,
    ) {
        let accept = call::Accept {
            offer_ids: offers.iter().map(|offer| offer.id.clone()).collect(),
            operations,
            filters: Some(v1::Filters { refuse_seconds: Some(refuse_seconds) }),
        };
        let call = scheduler::Call { accept: Some(accept), ..Default::default() };
        assert_eq!(self.call(scheduler, Type::Accept, call).status, 202);
    }

    pub fn decline(&mut self, scheduler: &Scheduler, offer: &v1::Offer, refuse_seconds: f64) {
        let decline = call::Decline {
            offer_ids: vec![offer.id.clone()],
            filters: Some(v1::Filters { refuse_seconds: Some(refuse_seconds) }),
        };
        let call = scheduler::Call { decline: Some(decline), ..Default::default() };
        assert_eq!(self.call(scheduler, Type::Decline, call).status, 202);
    }

    pub fn simple(&mut self, scheduler: &Scheduler, kind: Type) -> Answer {
        self.call(scheduler, kind, scheduler::Call::default())
    }

    pub fn reconcile(&mut self, scheduler: &Scheduler, tasks: &[(&str, Option<&str>)]) -> Vec<v1::TaskStatus> {
        let task = |(task, agent): &(&str, Option<&str>)| call::reconcile::Task {
            task_id: (*task).into(),
            agent_id: agent.map(Into::into),
        };
        let reconcile = Some(call::Reconcile { tasks: tasks.iter().map(task).collect() });
        self.call(scheduler, Type::Reconcile, scheduler::Call { reconcile, ..Default::default() });
        self.updates(scheduler)
    }

    pub fn kill(&mut self, scheduler: &Scheduler, task: &str, agent: Option<&str>) {
        let kill = Some(call::Kill { task_id: task.into(), agent_id: agent.map(Into::into), kill_policy: None });
        self.call(scheduler, Type::Kill, scheduler::Call { kill, ..Default::default() });
    }

    pub fn acknowledge(&mut self, scheduler: &Scheduler, agent: &TestAgent, task: &str, uuid: [u8; 16]) {
        let acknowledge =
            Some(call::Acknowledge { agent_id: agent.id.as_str().into(), task_id: task.into(), uuid: uuid.to_vec() });
        self.call(scheduler, Type::Acknowledge, scheduler::Call { acknowledge, ..Default::default() });
    }

    pub fn agent(&mut self, resources: &str) -> TestAgent {
        self.register(agent_info(resources), Vec::new(), Vec::new(), Vec::new())
    }

    pub fn register(
        &mut self,
        mut info: v1::AgentInfo,
        frameworks: Vec<v1::FrameworkInfo>,
        executors: Vec<(v1::FrameworkId, v1::ExecutorInfo)>,
        tasks: Vec<v1::Task>,
    ) -> TestAgent {
        let connection = self.connection();
        let port = 5051 + i32::try_from(connection.0).expect("small");
        info.port.get_or_insert(port);
        let version = "1.11.0".to_owned();
        let message = AgentMessage::Register {
            info: info.clone(),
            resources: Vec::new(),
            version,
            frameworks,
            executors,
            tasks,
            operations: Vec::new(),
        };
        self.handle(Event::Agent { connection, ip: "127.0.0.1".to_owned(), message: Box::new(message) });
        let id = self.to_agents.get(&connection).into_iter().flatten().find_map(|message| match message {
            MasterMessage::Registered { agent_id, .. } => Some(agent_id.value.clone()),
            _ => None,
        });
        info.id = id.as_deref().map(Into::into);
        TestAgent { connection, id: id.unwrap_or_default(), info }
    }

    pub fn agent_says(&mut self, agent: &TestAgent, message: AgentMessage) {
        let event =
            Event::Agent { connection: agent.connection, ip: "127.0.0.1".to_owned(), message: Box::new(message) };
        self.handle(event);
    }

    pub fn read_agent(&mut self, agent: &TestAgent) -> Vec<MasterMessage> {
        self.to_agents.remove(&agent.connection).unwrap_or_default()
    }

    pub fn status(&mut self, scheduler: &Scheduler, agent: &TestAgent, task: &str, state: TaskState, uuid: [u8; 16]) {
        let status = v1::TaskStatus {
            task_id: task.into(),
            state: state as i32,
            uuid: Some(uuid.to_vec()),
            source: Some(v1::task_status::Source::Executor as i32),
            agent_id: Some(agent.id.as_str().into()),
            timestamp: Some(self.now.as_secs_f64()),
            ..Default::default()
        };
        let framework_id = scheduler.id.as_str().into();
        self.agent_says(agent, AgentMessage::Update { framework_id, status, latest_state: state });
    }

    pub fn operator(&mut self, kind: v1::master::call::Type, mut call: v1::master::Call) -> Answer {
        call.r#type = Some(kind as i32);
        self.handle(Event::OperatorCall { principal: None, call: Box::new(call) }).expect("calls are answered")
    }

    pub fn response(&mut self, kind: v1::master::call::Type) -> v1::master::Response {
        match self.operator(kind, v1::master::Call::default()).body {
            Body::Response(response) => *response,
            other => panic!("no response: {other:?}"),
        }
    }

    pub fn page(&self, page: Page) -> serde_json::Value {
        self.master.page(page, &BTreeMap::new())
    }
}

pub fn framework(name: &str) -> v1::FrameworkInfo {
    v1::FrameworkInfo {
        user: "user".to_owned(),
        name: name.to_owned(),
        failover_timeout: Some(3600.0),
        checkpoint: Some(true),
        ..Default::default()
    }
}

pub fn aware(name: &str) -> v1::FrameworkInfo {
    with(framework(name), framework_info::capability::Type::PartitionAware)
}

pub fn in_roles(name: &str, roles: &[&str]) -> v1::FrameworkInfo {
    let mut info = with(aware(name), framework_info::capability::Type::MultiRole);
    info.roles = roles.iter().map(|role| (*role).to_owned()).collect();
    with(info, framework_info::capability::Type::ReservationRefinement)
}

pub fn with(mut info: v1::FrameworkInfo, capability: framework_info::capability::Type) -> v1::FrameworkInfo {
    info.capabilities.push(framework_info::Capability { r#type: Some(capability as i32) });
    info
}

pub fn again(mut info: v1::FrameworkInfo, scheduler: &Scheduler) -> v1::FrameworkInfo {
    info.id = Some(scheduler.id.as_str().into());
    info
}

pub fn agent_info(resources: &str) -> v1::AgentInfo {
    v1::AgentInfo {
        hostname: "host".to_owned(),
        resources: Resources::parse(resources, "*").expect("resources").to_protos(),
        ..Default::default()
    }
}

pub fn resources(text: &str) -> Resources {
    Resources::parse(text, "*").expect("resources")
}

pub fn offered(offer: &v1::Offer) -> Resources {
    Resources::from_protos(&offer.resources).expect("offers are well-formed").unallocated()
}

pub fn task(id: &str, offer: &v1::Offer, needs: &str) -> v1::TaskInfo {
    v1::TaskInfo {
        name: id.to_owned(),
        task_id: id.into(),
        agent_id: offer.agent_id.clone(),
        resources: resources(needs).to_protos(),
        command: Some(v1::CommandInfo { value: Some("sleep 1000".to_owned()), ..Default::default() }),
        ..Default::default()
    }
}

pub fn executor(id: &str, needs: &str) -> v1::ExecutorInfo {
    v1::ExecutorInfo {
        executor_id: id.into(),
        r#type: Some(v1::executor_info::Type::Custom as i32),
        command: Some(v1::CommandInfo { value: Some("./executor".to_owned()), ..Default::default() }),
        resources: resources(needs).to_protos(),
        ..Default::default()
    }
}

pub fn with_executor(mut task: v1::TaskInfo, executor: v1::ExecutorInfo) -> v1::TaskInfo {
    task.command = None;
    task.executor = Some(executor);
    task
}

pub fn launch(tasks: Vec<v1::TaskInfo>) -> v1::offer::Operation {
    v1::offer::Operation {
        r#type: Some(v1::offer::operation::Type::Launch as i32),
        launch: Some(v1::offer::operation::Launch { task_infos: tasks }),
        ..Default::default()
    }
}

pub fn launch_group(executor: v1::ExecutorInfo, tasks: Vec<v1::TaskInfo>) -> v1::offer::Operation {
    v1::offer::Operation {
        r#type: Some(v1::offer::operation::Type::LaunchGroup as i32),
        launch_group: Some(v1::offer::operation::LaunchGroup { executor, task_group: v1::TaskGroupInfo { tasks } }),
        ..Default::default()
    }
}
