//! Frameworks that compete with ours: they take some of what they are offered, hold it for a while and let it go.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_core::master::{ConnectionId, terminal};
use km_mesos_proto::v1::{
    self, Offer, Resource, TaskInfo, TaskStatus,
    offer::{Operation, operation},
    scheduler::{self, Call, call, event},
};
use km_podtask::thousandths;
use rand::Rng;

use crate::{
    delivery::{Delivery, Reply, ToRival, Wire},
    world::{Peer, World},
};

/// What a task of a rival takes at most, in thousandths of a CPU.
const LARGEST: i64 = 1500;

/// One framework.
#[derive(Default)]
pub(crate) struct Rival {
    name: String,
    framework_id: Option<String>,
    connection: Option<ConnectionId>,
    /// Agents of the tasks that it believes to live.
    pub tasks: BTreeMap<String, String>,
    launched: u64,
}

impl World {
    pub(crate) fn start_rivals(&mut self) {
        for number in 0..self.settings.rivals {
            self.rivals.push(Rival { name: format!("rival{number}"), ..Rival::default() });
            self.at(Duration::from_millis(30), Delivery::Rival(number, ToRival::Subscribe));
        }
    }

    pub(crate) fn bring_to_rival(&mut self, rival: usize, what: ToRival) {
        match what {
            ToRival::Subscribe => self.rival_subscribes(rival),
            ToRival::Decide(offer) => self.rival_decides(rival, &offer),
            ToRival::Kill(task) => {
                let Some(agent) = self.rivals[rival].tasks.get(&task) else { return };
                let kill = call::Kill {
                    task_id: task.as_str().into(),
                    agent_id: Some(agent.as_str().into()),
                    kill_policy: None,
                };
                self.rival_calls(rival, call::Type::Kill, Call { kill: Some(kill), ..Call::default() });
            }
        }
    }

    fn rival_subscribes(&mut self, rival: usize) {
        if self.rivals[rival].connection.is_some() {
            return;
        }
        let framework_info = v1::FrameworkInfo {
            user: "root".to_owned(),
            name: self.rivals[rival].name.clone(),
            id: self.rivals[rival].framework_id.clone().map(v1::FrameworkId::from),
            failover_timeout: Some(1e9),
            checkpoint: Some(true),
            roles: vec![self.rivals[rival].name.clone()],
            capabilities: vec![v1::framework_info::Capability {
                r#type: Some(v1::framework_info::capability::Type::MultiRole as i32),
            }],
            ..v1::FrameworkInfo::default()
        };
        let connection = self.open(Peer::Rival(rival));
        self.rivals[rival].connection = Some(connection);
        let subscribe = call::Subscribe { framework_info, ..Default::default() };
        self.send_to_master(connection, Wire::Subscribe(Box::new(subscribe)));
    }

    pub(crate) fn rival_loses(&mut self, rival: usize, connection: ConnectionId) {
        if self.rivals[rival].connection == Some(connection) {
            self.rivals[rival].connection = None;
            let pause = self.around(Duration::from_secs(1));
            self.at(pause, Delivery::Rival(rival, ToRival::Subscribe));
        }
    }

    pub(crate) fn break_rival_stream(&mut self, rival: usize) {
        if let Some(connection) = self.rivals[rival].connection {
            self.break_connection(connection);
        }
    }

    pub(crate) fn rival_hears(&mut self, rival: usize, connection: ConnectionId, event: scheduler::Event) {
        if self.rivals[rival].connection != Some(connection) {
            return;
        }
        match event.r#type() {
            event::Type::Subscribed => {
                let id = event.subscribed.map(|subscribed| subscribed.framework_id.value);
                self.rivals[rival].framework_id = id;
                // What lives is told by reconciliation.
                self.rivals[rival].tasks.clear();
                let reconcile = call::Reconcile { tasks: Vec::new() };
                self.rival_calls(rival, call::Type::Reconcile, Call { reconcile: Some(reconcile), ..Call::default() });
            }
            event::Type::Offers => {
                for offer in event.offers.map(|offers| offers.offers).unwrap_or_default() {
                    let pause = self.around(Duration::from_secs(1));
                    self.at(pause, Delivery::Rival(rival, ToRival::Decide(Box::new(offer))));
                }
            }
            event::Type::Update => {
                if let Some(update) = event.update {
                    self.rival_updated(rival, update.status);
                }
            }
            event::Type::Error => {
                let message = event.error.map(|error| error.message).unwrap_or_default();
                self.violate(|| format!("the master refuses a rival: {message}"));
            }
            _ => {}
        }
    }

    fn rival_updated(&mut self, rival: usize, status: TaskStatus) {
        let agent = status.agent_id.clone().unwrap_or_default();
        if terminal(status.state()) {
            self.rivals[rival].tasks.remove(&status.task_id.value);
        } else {
            self.rivals[rival].tasks.insert(status.task_id.value.clone(), agent.value.clone());
        }
        if let Some(uuid) = status.uuid.filter(|uuid| !uuid.is_empty()) {
            let acknowledge = call::Acknowledge { agent_id: agent, task_id: status.task_id, uuid };
            let call = Call { acknowledge: Some(acknowledge), ..Call::default() };
            self.rival_calls(rival, call::Type::Acknowledge, call);
        }
    }

    /// Half of the offers are taken in part, as long as there are faults; after that all go back for good.
    fn rival_decides(&mut self, rival: usize, offer: &Offer) {
        let offered = sum(&offer.resources, "cpus");
        let wants = self.faulty() && offered >= 100 && self.rng.random_bool(0.5);
        let refuse = if self.faulty() { [0.0, 1.0, 5.0, 30.0][self.rng.random_range(0..4)] } else { 1e7 };
        let filters = Some(v1::Filters { refuse_seconds: Some(refuse) });
        let offer_ids = vec![offer.id.clone()];
        if !wants {
            let decline = call::Decline { offer_ids, filters };
            self.rival_calls(rival, call::Type::Decline, Call { decline: Some(decline), ..Call::default() });
            return;
        }
        let milli_cpu = self.rng.random_range(100..=offered.min(LARGEST));
        let task = self.rival_task(rival, offer, milli_cpu);
        let launch = Operation {
            r#type: Some(operation::Type::Launch as i32),
            launch: Some(operation::Launch { task_infos: vec![task] }),
            ..Operation::default()
        };
        let accept = call::Accept { offer_ids, operations: vec![launch], filters };
        self.rival_calls(rival, call::Type::Accept, Call { accept: Some(accept), ..Call::default() });
    }

    fn rival_task(&mut self, rival: usize, offer: &Offer, milli_cpu: i64) -> TaskInfo {
        let known = &mut self.rivals[rival];
        known.launched += 1;
        self.report.rival_tasks += 1;
        let id = format!("{}-{}", known.name, known.launched);
        let scalar = |name: &str, thousandths: i64| Resource {
            name: name.to_owned(),
            r#type: v1::value::Type::Scalar as i32,
            scalar: Some(v1::value::Scalar { value: thousandths as f64 / 1000.0 }),
            allocation_info: offer.allocation_info.clone(),
            ..Resource::default()
        };
        let memory = sum(&offer.resources, "mem").min(milli_cpu * 1000);
        let life = self.around(Duration::from_secs(40));
        self.at(life, Delivery::Rival(rival, ToRival::Kill(id.clone())));
        TaskInfo {
            name: id.clone(),
            task_id: id.as_str().into(),
            agent_id: offer.agent_id.clone(),
            resources: vec![scalar("cpus", milli_cpu), scalar("mem", memory)],
            command: Some(v1::CommandInfo { value: Some("true".to_owned()), ..v1::CommandInfo::default() }),
            ..TaskInfo::default()
        }
    }

    fn rival_calls(&mut self, rival: usize, kind: call::Type, mut call: Call) {
        let Some(connection) = self.rivals[rival].connection else { return };
        call.r#type = Some(kind as i32);
        call.framework_id = self.rivals[rival].framework_id.clone().map(v1::FrameworkId::from);
        self.send_to_master(connection, Wire::Call(Box::new(call), Reply::Nothing));
    }
}

fn sum(resources: &[Resource], name: &str) -> i64 {
    let named = resources.iter().filter(|one| one.name == name);
    named.map(|one| one.scalar.as_ref().map_or(0, |scalar| thousandths(scalar.value))).sum()
}
