//! What operators do: agents are drained, deactivated and to be maintained, quotas set, resources reserved. Each act is
//! taken back after a while, and again until that is done.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_proto::v1::{
    self,
    master::call::{
        DeactivateAgent, DrainAgent, ReactivateAgent, ReserveResources, Type, UpdateMaintenanceSchedule, UpdateQuota,
    },
    resource::{ReservationInfo, reservation_info},
};
use rand::Rng;

use crate::{delivery::Delivery, mesos::ip_of, world::World};

/// Mean time from an act to its end.
const LASTS: Duration = Duration::from_secs(40);
/// Pause before an act is taken back again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long after its end an act may still be what a scheduler goes by.
const NEWS: Duration = Duration::from_secs(60);
/// What one act reserves or guarantees.
const MILLI_CPU: i64 = 1000;
const MEGABYTES: i64 = 1024;

type Amounts = BTreeMap<String, v1::value::Scalar>;

/// A time for the next act, or the end of one.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Next,
    /// The agent of a host takes part again.
    Reactivate(usize, String),
    ClearSchedule,
    /// The role's quota is lifted.
    LiftQuota(String),
}

/// Which hosts are to be emptied, for invariant 4.
#[derive(Default)]
pub(crate) struct Upkeep {
    /// Until when evictions may follow from it.
    hosts: BTreeMap<usize, Duration>,
    /// Hosts of the maintenance schedule.
    scheduled: Vec<usize>,
}

impl World {
    pub(crate) fn plan_operation(&mut self) {
        if let Some(pause) = self.settings.operator_pause.filter(|_| self.faulty()) {
            let pause = self.around(pause);
            self.at(pause, Delivery::Operation(Operation::Next));
        }
    }

    pub(crate) fn operate(&mut self, operation: Operation) {
        match operation {
            Operation::Next => {
                self.act();
                self.plan_operation();
            }
            Operation::Reactivate(host, id) => self.reactivate(host, id),
            Operation::ClearSchedule => self.clear_schedule(),
            Operation::LiftQuota(role) => {
                if !self.set_quota(&role, [].into(), [].into()) {
                    self.at(AGAIN, Delivery::Operation(Operation::LiftQuota(role)));
                }
            }
        }
    }

    fn act(&mut self) {
        if !self.faulty() {
            return;
        }
        let host = self.rng.random_range(0..self.settings.agents);
        match self.rng.random_range(0..10) {
            0..=2 => self.drain(host),
            3..=4 => self.deactivate(host),
            5..=6 => self.schedule_maintenance(host),
            7..=8 => self.limit_or_guarantee(),
            _ => self.reserve(host),
        }
    }

    /// Whether pods of a host may be evicted for what operators did.
    pub(crate) fn is_in_upkeep(&self, host: usize) -> bool {
        self.upkeep.hosts.get(&host).is_some_and(|until| self.now <= *until)
    }

    fn begin(&mut self, host: usize, end: Operation) {
        self.report.operations += 1;
        self.upkeep.hosts.insert(host, Duration::MAX);
        let pause = self.around(LASTS);
        self.at(pause, Delivery::Operation(end));
    }

    fn end(&mut self, host: usize) {
        self.upkeep.hosts.insert(host, self.now + NEWS);
    }

    /// Makes a call of the operator API; whether it was granted.
    fn granted(&mut self, kind: Type, mut call: v1::master::Call) -> bool {
        call.r#type = Some(kind as i32);
        self.ask(call).is_some_and(|answer| answer.status == 200 || answer.status == 202)
    }

    fn drain(&mut self, host: usize) {
        let Some(id) = self.agent_id(host).filter(|_| !self.is_in_upkeep(host)) else { return };
        let mut drain = DrainAgent { agent_id: id.as_str().into(), ..DrainAgent::default() };
        drain.max_grace_period.get_or_insert_default().seconds = self.rng.random_range(0..8);
        if self.granted(Type::DrainAgent, v1::master::Call { drain_agent: Some(drain), ..Default::default() }) {
            self.note(|| format!("operator drains host{host}"));
            self.begin(host, Operation::Reactivate(host, id));
        }
    }

    fn deactivate(&mut self, host: usize) {
        let Some(id) = self.agent_id(host).filter(|_| !self.is_in_upkeep(host)) else { return };
        let deactivate = Some(DeactivateAgent { agent_id: id.as_str().into() });
        let call = v1::master::Call { deactivate_agent: deactivate, ..Default::default() };
        if self.granted(Type::DeactivateAgent, call) {
            self.note(|| format!("operator deactivates host{host}"));
            self.begin(host, Operation::Reactivate(host, id));
        }
    }

    /// An agent that has another id is another agent, and takes part.
    fn reactivate(&mut self, host: usize, id: String) {
        let replaced = self.agent_id(host).is_some_and(|now| now != id) || self.hosts[host].scrapped;
        let reactivate = Some(ReactivateAgent { agent_id: id.as_str().into() });
        let call = v1::master::Call { reactivate_agent: reactivate, ..Default::default() };
        if replaced || self.granted(Type::ReactivateAgent, call) {
            self.note(|| format!("operator lets host{host} take part"));
            self.end(host);
        } else {
            self.at(AGAIN, Delivery::Operation(Operation::Reactivate(host, id)));
        }
    }

    /// One host at a time is to be maintained, soon.
    fn schedule_maintenance(&mut self, host: usize) {
        if !self.upkeep.scheduled.is_empty() || self.is_in_upkeep(host) {
            return;
        }
        let start = self.now + Duration::from_secs(self.rng.random_range(10..900));
        let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let window = v1::maintenance::Window {
            machine_ids: vec![v1::MachineId {
                hostname: Some(self.hosts[host].hostname.clone()),
                ip: Some(ip_of(host)),
            }],
            unavailability: v1::Unavailability {
                start: v1::TimeInfo { nanoseconds: nanoseconds(start) },
                duration: Some(v1::DurationInfo { nanoseconds: nanoseconds(Duration::from_secs(3600)) }),
            },
        };
        if self.update_schedule(vec![window]) {
            self.note(|| format!("operator schedules maintenance of host{host}"));
            self.upkeep.scheduled.push(host);
            self.begin(host, Operation::ClearSchedule);
        }
    }

    fn clear_schedule(&mut self) {
        if !self.update_schedule(Vec::new()) {
            self.at(AGAIN, Delivery::Operation(Operation::ClearSchedule));
            return;
        }
        self.note(|| "operator clears the maintenance schedule".to_owned());
        for host in std::mem::take(&mut self.upkeep.scheduled) {
            self.end(host);
        }
    }

    fn update_schedule(&mut self, windows: Vec<v1::maintenance::Window>) -> bool {
        let schedule = Some(UpdateMaintenanceSchedule { schedule: v1::maintenance::Schedule { windows } });
        let call = v1::master::Call { update_maintenance_schedule: schedule, ..Default::default() };
        self.granted(Type::UpdateMaintenanceSchedule, call)
    }

    /// A competitor is guaranteed something, or our first role gets no more than something.
    fn limit_or_guarantee(&mut self) {
        let amounts = || {
            let scalar = |thousandths: i64| v1::value::Scalar { value: thousandths as f64 / 1000.0 };
            [("cpus".to_owned(), scalar(MILLI_CPU)), ("mem".to_owned(), scalar(MEGABYTES * 1000))].into()
        };
        let ours = self.rng.random_bool(0.5) || self.settings.rivals == 0;
        let role = if ours { self.first_role() } else { "rival0".to_owned() };
        let (guarantees, limits) = if ours { ([].into(), amounts()) } else { (amounts(), [].into()) };
        if role != "*" && self.set_quota(&role, guarantees, limits) {
            self.note(|| format!("operator sets a quota for {role}"));
            self.report.operations += 1;
            let pause = self.around(LASTS);
            self.at(pause, Delivery::Operation(Operation::LiftQuota(role)));
        }
    }

    fn set_quota(&mut self, role: &str, guarantees: Amounts, limits: Amounts) -> bool {
        let config = v1::quota::QuotaConfig { role: role.to_owned(), guarantees, limits };
        let update = Some(UpdateQuota { force: Some(true), quota_configs: vec![config] });
        self.granted(Type::UpdateQuota, v1::master::Call { update_quota: update, ..Default::default() })
    }

    /// What is reserved for us stays so: we can use all of it.
    fn reserve(&mut self, host: usize) {
        let role = self.first_role();
        let Some(id) = self.agent_id(host).filter(|_| role != "*") else { return };
        let reservation = ReservationInfo {
            r#type: Some(reservation_info::Type::Dynamic as i32),
            role: Some(role.clone()),
            ..ReservationInfo::default()
        };
        let scalar = |name: &str, thousandths: i64| v1::Resource {
            name: name.to_owned(),
            r#type: v1::value::Type::Scalar as i32,
            scalar: Some(v1::value::Scalar { value: thousandths as f64 / 1000.0 }),
            reservations: vec![reservation.clone()],
            ..v1::Resource::default()
        };
        let resources = vec![scalar("cpus", MILLI_CPU), scalar("mem", MEGABYTES * 1000)];
        let reserve = ReserveResources { agent_id: id.as_str().into(), resources, source: Vec::new() };
        let call = v1::master::Call { reserve_resources: Some(reserve), ..Default::default() };
        if self.granted(Type::ReserveResources, call) {
            self.note(|| format!("operator reserves some of host{host} for {role}"));
            self.report.operations += 1;
        }
    }
}
