//! What our framework is to Mesos, and operators who change that while everything goes on: its roles, which agents' offers
//! it wants, the least it is offered, and what it says of itself.

use std::sync::Arc;

use km_mesos_proto::{
    constraints::{Constraints, Traits},
    json,
    v1::{self, TaskInfo, framework_info::capability::Type as Capability, scheduler::OfferConstraints},
};
use km_scheduler::core::{Event, Framework, subscribed_roles};
use rand::Rng;
use serde_json::json;

use crate::{delivery::Delivery, world::World};

/// Mean time between two changes, in the operators' usual pauses.
const SELDOM: u32 = 2;

/// What a subscription said.
#[derive(Clone)]
pub(crate) struct Said {
    pub framework: Arc<Framework>,
    pub suppressed: bool,
}

/// The roles that our framework has at any time: none of its own, one, or several.
pub(crate) fn first_roles(seed: u64) -> Vec<String> {
    let roles: &[&str] = match seed % 3 {
        0 => &["*"],
        1 => &["km"],
        _ => &["km", "batch"],
    };
    roles.iter().map(|role| (*role).to_owned()).collect()
}

/// A framework whose pods may use the resources of those roles, and what is reserved for nobody.
pub(crate) fn in_roles(mut roles: Vec<String>) -> Framework {
    let capabilities = [Capability::MultiRole, Capability::PartitionAware, Capability::ReservationRefinement];
    let info = v1::FrameworkInfo {
        user: "root".to_owned(),
        name: "Kubernetes".to_owned(),
        failover_timeout: Some(1e9),
        checkpoint: Some(true),
        roles: subscribed_roles(&roles),
        capabilities: capabilities
            .map(|capability| v1::framework_info::Capability { r#type: Some(capability as i32) })
            .to_vec(),
        ..v1::FrameworkInfo::default()
    };
    if !roles.iter().any(|role| role == "*") {
        roles.push("*".to_owned());
    }
    Framework { info, constraints: OfferConstraints::default(), default_pod_roles: roles.clone(), roles }
}

impl World {
    /// Whether the master of that life knows UPDATE_FRAMEWORK and offer constraints.
    pub(crate) fn master_updates(&self, life: u64) -> bool {
        !(self.seed + life).is_multiple_of(3)
    }

    pub(crate) fn plan_reconfiguration(&mut self) {
        if let Some(pause) = self.settings.operator_pause.filter(|_| self.faulty()) {
            let pause = self.around(pause * SELDOM);
            self.at(pause, Delivery::Reconfigure);
        }
    }

    /// Somebody changes the configuration file and tells the leader.
    pub(crate) fn reconfigure(&mut self) {
        if self.faulty() {
            let avoided = self.rng.random_range(0..self.settings.agents * 2);
            let avoided = self.hosts.get(avoided).map(|host| host.hostname.clone());
            self.configure(avoided.as_deref());
            self.plan_reconfiguration();
        }
    }

    /// After the faults it is changed once more, to one that wants the offers of all agents.
    pub(crate) fn reconfigure_at_last(&mut self) {
        if self.settings.operator_pause.is_some() && self.settings.fault_pause.is_some() {
            self.configure(None);
        }
    }

    fn configure(&mut self, avoided: Option<&str>) {
        let mut roles = first_roles(self.seed);
        for other in ["spare", "extra"] {
            if self.rng.random_bool(0.4) {
                roles.push(other.to_owned());
            }
        }
        let mut framework = in_roles(roles);
        framework.info.webui_url = Some(format!("http://host/{}", self.rng.random_range(0..3)));
        framework.info.failover_timeout = Some(1e9 + f64::from(self.rng.random_range(0..2_u8)));
        for role in &framework.info.roles {
            if self.rng.random_bool(0.3) {
                framework.info.offer_filters.insert(role.clone(), least(0.1, 32.0));
            }
        }
        if let Some(host) = avoided {
            framework.constraints = all_but(host, &framework.info.roles);
        }
        self.note(|| format!("operator changes the framework: {:?}, not {avoided:?}", framework.info.roles));
        self.report.reconfigurations += 1;
        self.framework = Arc::new(framework);
        if let Some(leader) = self.schedulers.iter().position(|scheduler| scheduler.core.is_some()) {
            self.scheduler_event(leader, Event::Configured(Arc::clone(&self.framework)));
        }
    }

    /// Nothing is launched where or in a role that the framework doesn't want.
    pub(crate) fn check_wanted(&mut self, process: usize, tasks: &[TaskInfo]) {
        let Some(core) = &self.schedulers[process].core else { return };
        let framework = Arc::clone(core.framework());
        let judge = Constraints::compile(&framework.constraints).unwrap_or_default();
        for task in tasks {
            let of_task = |number: &usize| self.agent_id(*number).is_some_and(|id| id == task.agent_id.value);
            let Some(host) = (0..self.hosts.len()).find(of_task).map(|number| &self.hosts[number]) else { continue };
            let traits = Traits { hostname: &host.hostname, ..Traits::default() };
            let roles = task.resources.iter().filter_map(|one| one.allocation_info.as_ref()?.role.clone());
            let wanted = |role: &String| framework.info.roles.contains(role) && judge.allow(role, &traits);
            if let Some(role) = roles.into_iter().find(|role| !wanted(role)) {
                let (task, host) = (task.task_id.value.clone(), host.hostname.clone());
                self.violate(|| format!("{task} is launched on {host} in role {role}, which isn't wanted"));
                return;
            }
        }
    }

    /// What of the framework the master doesn't know as the operators want it.
    pub(crate) fn unrest_of_framework(&mut self) -> Option<String> {
        let leader = self.leader()?;
        let (core, id) = (leader.core.as_ref()?, leader.framework_id()?.to_owned());
        if core.framework() != &self.framework {
            let (known, wanted) = (&core.framework().info, &self.framework.info);
            return Some(format!("liveness: the scheduler takes the framework for {known:?}, not {wanted:?}"));
        }
        let frameworks = self.list_frameworks()?;
        let known =
            frameworks.into_iter().find(|known| known.framework_info.id.as_ref().is_some_and(|of| of.value == id));
        let Some(known) = known else { return Some(format!("liveness: the master knows no framework {id}")) };
        let told = v1::FrameworkInfo { id: known.framework_info.id.clone(), ..self.framework.info.clone() };
        if known.framework_info != told {
            return Some(format!(
                "liveness: the master takes the framework for {:?}, not {told:?}",
                known.framework_info
            ));
        }
        let constraints = known.offer_constraints.unwrap_or_default();
        (constraints != self.framework.constraints)
            .then(|| format!("liveness: the master goes by {constraints:?}, not {:?}", self.framework.constraints))
    }
}

/// Offers that hold less of both are not wanted.
fn least(cpus: f64, mem: f64) -> v1::OfferFilters {
    let any = json!([{ "quantities": { "cpus": { "value": cpus } } }, { "quantities": { "mem": { "value": mem } } }]);
    json::from_value(&json!({ "min_allocatable_resources": { "quantities": any } })).unwrap_or_default()
}

fn all_but(host: &str, roles: &[String]) -> OfferConstraints {
    let other = json!([{
        "selector": { "pseudoattribute_type": "HOSTNAME" }, "predicate": { "text_not_equals": { "value": host } },
    }]);
    let group = json!({ "groups": [{ "attribute_constraints": other }] });
    let all: serde_json::Map<String, serde_json::Value> =
        roles.iter().map(|role| (role.clone(), group.clone())).collect();
    json::from_value(&json!({ "role_constraints": all })).unwrap_or_default()
}
