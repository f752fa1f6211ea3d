//! One hollow agent: it registers, passes tasks to its executor, and repeats nothing, since nothing is lost here.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use anyhow::bail;
use km_mesos::agent::link::{HttpClient, Link};
use km_mesos_core::{
    agent::Event,
    link::{AgentMessage, MasterMessage},
};
use km_mesos_proto::v1;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::executor::{Executor, Launch};
use crate::task::status;

/// How many fault domains the agents are in.
const ZONES: usize = 10;

/// What all agents have in common.
pub struct Template {
    pub resources: Vec<v1::Resource>,
    pub executor: Executor,
}

pub struct Agent {
    hostname: String,
    domain: v1::DomainInfo,
    template: Arc<Template>,
    link: Link,
    events: UnboundedReceiver<Event>,
    reports: (UnboundedSender<Report>, UnboundedReceiver<Report>),
    id: Option<v1::AgentId>,
    /// By task id, the statuses that wait for the acknowledgement of the one before.
    waiting: BTreeMap<String, (v1::FrameworkId, VecDeque<v1::TaskStatus>)>,
}

/// What the executor says of a task.
pub struct Report {
    pub framework: v1::FrameworkId,
    pub task: v1::TaskId,
    pub executor: v1::ExecutorId,
    pub states: Vec<v1::TaskState>,
    pub message: Option<String>,
}

impl Agent {
    pub fn new(number: usize, template: Arc<Template>, (master, http): (String, HttpClient)) -> Self {
        let (sender, events) = unbounded_channel();
        let link = Link::new(master, http, sender);
        let hostname = format!("hollow-{number}");
        let (domain, reports, waiting) = (domain(number), unbounded_channel(), BTreeMap::new());
        Self { hostname, domain, template, link, events, reports, id: None, waiting }
    }

    /// Ends only with an error: the link broke, or the master refuses the agent.
    pub async fn run(mut self, registered: mpsc::Sender<()>) -> anyhow::Result<()> {
        let info = v1::AgentInfo {
            hostname: self.hostname.clone(),
            port: Some(5051),
            resources: self.template.resources.clone(),
            domain: Some(self.domain.clone()),
            ..v1::AgentInfo::default()
        };
        let (frameworks, executors, tasks) = (Vec::new(), Vec::new(), Vec::new());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.link.connect(
            1,
            AgentMessage::Register {
                info,
                version,
                frameworks,
                executors,
                tasks,
                operations: Vec::new(),
                resources: Vec::new(),
            },
        );
        loop {
            tokio::select! {
                Some(event) = self.events.recv() => match event {
                    Event::Master { message: MasterMessage::Registered { agent_id, .. }, .. } => {
                        self.id = Some(agent_id);
                        registered.send(()).await?;
                    }
                    Event::Master { message, .. } => self.on_message(message)?,
                    Event::LinkClosed { reason, .. } => bail!("{}: {reason}", self.hostname),
                    _ => {}
                },
                Some(report) = self.reports.1.recv() => self.on_report(report),
            }
        }
    }

    fn on_message(&mut self, message: MasterMessage) -> anyhow::Result<()> {
        match message {
            MasterMessage::Ping => self.link.send(AgentMessage::Pong),
            MasterMessage::Refused { message } => bail!("{} is refused: {message}", self.hostname),
            MasterMessage::RunTasks { framework, tasks } => {
                let framework = framework.id.unwrap_or_default();
                for task in tasks {
                    let launch = Launch { framework: framework.clone(), task, node: self.hostname.clone() };
                    self.template.executor.launch(launch, self.reports.0.clone());
                }
            }
            MasterMessage::KillTask { framework_id, task_id, .. } => self.on_report(Report {
                framework: framework_id,
                task: task_id,
                executor: v1::ExecutorId::default(),
                states: vec![v1::TaskState::TaskKilled],
                message: None,
            }),
            MasterMessage::Acknowledge { task_id, .. } => {
                let task = task_id.value;
                if let Some((_, statuses)) = self.waiting.get_mut(&task) {
                    statuses.pop_front();
                    if statuses.is_empty() {
                        self.waiting.remove(&task);
                    } else {
                        self.send_first(&task);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_report(&mut self, report: Report) {
        let (_, statuses) =
            self.waiting.entry(report.task.value.clone()).or_insert((report.framework, VecDeque::new()));
        let idle = statuses.is_empty();
        statuses.extend(report.states.iter().map(|state| v1::TaskStatus {
            executor_id: (!report.executor.value.is_empty()).then(|| report.executor.clone()),
            message: report.message.clone(),
            ..status(&report.task, self.id.as_ref(), *state)
        }));
        if idle {
            self.send_first(&report.task.value);
        }
    }

    /// At most one update of a task is under way.
    fn send_first(&self, task: &str) {
        let Some((framework_id, statuses)) = self.waiting.get(task) else { return };
        let (Some(first), Some(last)) = (statuses.front(), statuses.back()) else { return };
        self.link.send(AgentMessage::Update {
            framework_id: framework_id.clone(),
            status: first.clone(),
            latest_state: last.state(),
        });
    }
}

fn domain(number: usize) -> v1::DomainInfo {
    let (region, zone) = ("hollow".to_owned(), format!("zone-{}", number % ZONES));
    v1::DomainInfo {
        fault_domain: Some(v1::domain_info::FaultDomain {
            region: v1::domain_info::fault_domain::RegionInfo { name: region },
            zone: v1::domain_info::fault_domain::ZoneInfo { name: zone },
        }),
    }
}
