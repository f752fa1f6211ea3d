//! ACCEPT: the offers it names become one pool, and its operations take from it one after the other.
//!
//! An operation that fails does not stop those after it. What is left of the pool goes back under the call's filter.

use std::{collections::BTreeSet, time::Duration};

use km_mesos_proto::{
    resources::Resources,
    v1::{
        self, TaskState,
        offer::{Operation, operation::Type},
        scheduler::call,
        task_status::Reason,
    },
};

use super::{Master, offers::refusal, task::master_status, validation};

const INVALID_RESOURCES: &str = "Operation attempted with invalid resources: ";

/// What one ACCEPT works on.
pub(super) struct Pool {
    pub framework: String,
    pub agent: String,
    /// The role that all offers are allocated to.
    pub role: String,
    /// What the operations so far have left.
    pub available: Resources,
}

impl Master {
    pub(super) fn accept(&mut self, framework: &str, accept: call::Accept) {
        let refusal = refusal(accept.filters.as_ref());
        let mut pool = match self.check_offers(framework, &accept.offer_ids) {
            Ok(pool) => pool,
            Err(reason) => {
                self.accept_failed(framework, accept, refusal, &reason);
                return;
            }
        };
        for offer in &accept.offer_ids {
            self.counters.count("offers_accepted");
            self.remove_offer(&offer.value);
        }
        for mut operation in accept.operations {
            if let Some(reason) = malformed(&operation) {
                self.refuse_malformed(&pool, &operation, &reason);
                continue;
            }
            inject_allocation(&mut operation, &pool.role);
            infer_health_checks(&mut operation);
            self.operate(&mut pool, operation);
        }
        self.allocator.recover(self.now, framework, &pool.agent, &pool.available, Some(refusal));
    }

    fn operate(&mut self, pool: &mut Pool, operation: Operation) {
        match operation.r#type() {
            Type::Launch => {
                let tasks = operation.launch.map(|launch| launch.task_infos).unwrap_or_default();
                if operation.id.is_some() {
                    self.refuse_identified(pool, &tasks, "LAUNCH");
                } else {
                    self.launch(pool, tasks);
                }
            }
            Type::LaunchGroup => {
                let Some(group) = operation.launch_group else { return };
                if operation.id.is_some() {
                    self.refuse_identified(pool, &group.task_group.tasks, "LAUNCH_GROUP");
                } else {
                    self.launch_group(pool, group.executor, group.task_group);
                }
            }
            _ => self.convert(pool, operation),
        }
    }

    /// An operation with a malformed resource: nothing of it is done.
    fn refuse_malformed(&mut self, pool: &Pool, operation: &Operation, reason: &str) {
        for task in operation.launch.iter().flat_map(|launch| &launch.task_infos) {
            self.refuse_task(&pool.framework, task, TaskState::TaskError, Reason::TaskInvalid, reason);
        }
        if operation.r#type() != Type::Launch {
            self.refuse_operation(&pool.framework, operation, format!("{INVALID_RESOURCES}{reason}"));
        }
    }

    /// Launch operations end in task states, so an id for their own state is refused (M128).
    fn refuse_identified(&mut self, pool: &Pool, tasks: &[v1::TaskInfo], name: &str) {
        let message = format!("The `id` field cannot be set on {name} operations");
        let reason = if name == "LAUNCH" { Reason::TaskInvalid } else { Reason::TaskGroupInvalid };
        for task in tasks {
            self.refuse_task(&pool.framework, task, TaskState::TaskError, reason, &message);
        }
    }

    /// Tells the framework that a task was not launched. The task never existed for the master.
    pub(super) fn refuse_task(
        &mut self,
        framework: &str,
        task: &v1::TaskInfo,
        state: TaskState,
        reason: Reason,
        message: &str,
    ) {
        let status = master_status(&task.task_id, Some(&task.agent_id), state, reason, message, self.now);
        self.counters.count_status(&status);
        self.send_update(framework, status);
    }

    fn check_offers(&self, framework: &str, ids: &[v1::OfferId]) -> Result<Pool, String> {
        let Some(first) = ids.first() else { return Err("No offers specified".to_owned()) };
        let mut seen = BTreeSet::new();
        for id in ids {
            if !seen.insert(&id.value) {
                return Err(format!("Duplicate offer {} in offer list", id.value));
            }
            match self.offers.get(&id.value) {
                None => return Err(format!("Offer {} is no longer valid", id.value)),
                Some(offer) if offer.framework_id.value != framework => {
                    return Err(format!(
                        "Offer {} has invalid framework {} while framework {framework} is expected",
                        id.value, offer.framework_id.value
                    ));
                }
                Some(_) => {}
            }
        }
        let offers: Vec<&v1::Offer> = ids.iter().filter_map(|id| self.offers.get(&id.value)).collect();
        let Some(base) = self.offers.get(&first.value) else { return Err("No offers specified".to_owned()) };
        for offer in &offers {
            if offer.agent_id != base.agent_id {
                return Err(format!(
                    "Aggregated offers must belong to one single agent. Offer {} uses agent {} and agent {}",
                    offer.id.value, offer.agent_id.value, base.agent_id.value
                ));
            }
        }
        let role = |offer: &v1::Offer| {
            offer.allocation_info.as_ref().and_then(|info| info.role.clone()).unwrap_or_else(|| "*".to_owned())
        };
        for offer in &offers {
            if role(offer) != role(base) {
                return Err(format!(
                    "Aggregated offers must be allocated to the same role. Offer {} uses role {} but another is using role {}",
                    offer.id.value,
                    role(offer),
                    role(base)
                ));
            }
        }
        let mut available = Resources::default();
        for offer in &offers {
            available += validation::resource::read(&offer.resources);
        }
        let agent = base.agent_id.value.clone();
        Ok(Pool { framework: framework.to_owned(), agent, role: role(base), available })
    }

    /// Nothing of the call is done: its tasks are dropped and its offers that are still valid go back.
    fn accept_failed(&mut self, framework: &str, accept: call::Accept, refusal: Duration, reason: &str) {
        self.counters.count("invalid_accepts");
        for offer in &accept.offer_ids {
            let owned = self.offers.get(&offer.value).is_some_and(|offer| offer.framework_id.value == framework);
            if owned {
                self.discard_offer(&offer.value, Some(refusal));
            }
        }
        let message = format!("Task launched with invalid offers: {reason}");
        let Some(state) = self.frameworks.get(framework).map(|found| found.lost_state(TaskState::TaskDropped)) else {
            return;
        };
        for operation in accept.operations {
            let launched = operation.launch.iter().flat_map(|launch| &launch.task_infos);
            let grouped = operation.launch_group.iter().flat_map(|group| &group.task_group.tasks);
            for task in launched.chain(grouped) {
                self.refuse_task(framework, task, state, Reason::InvalidOffers, &message);
            }
            let launches = matches!(operation.r#type(), Type::Launch | Type::LaunchGroup);
            if !launches {
                self.refuse_operation(framework, &operation, format!("{INVALID_RESOURCES}{reason}"));
            }
        }
    }
}

/// What is wrong with the resources of an operation; groups are judged as a whole later.
pub(super) fn malformed(operation: &Operation) -> Option<String> {
    let tasks = || operation.launch.iter().flat_map(|launch| &launch.task_infos);
    let executors = tasks().filter_map(|task| task.executor.as_ref());
    let lists = (tasks().map(|task| &task.resources))
        .chain(executors.map(|executor| &executor.resources))
        .chain(operation.reserve.iter().map(|reserve| &reserve.resources))
        .chain(operation.unreserve.iter().map(|unreserve| &unreserve.resources))
        .chain(operation.create.iter().map(|create| &create.volumes))
        .chain(operation.destroy.iter().map(|destroy| &destroy.volumes));
    validation::resource::first_malformed(lists.flatten())
}

/// A health check without a type is of that of its only part: frameworks from before there were types.
fn infer_health_checks(operation: &mut Operation) {
    use v1::health_check::Type::{Command, Http};
    for task in operation.launch.iter_mut().flat_map(|launch| &mut launch.task_infos) {
        let Some(check) = task.health_check.as_mut().filter(|check| check.r#type.is_none()) else { continue };
        check.r#type = match (&check.command, &check.http) {
            (Some(_), None) => Some(Command as i32),
            (None, Some(_)) => Some(Http as i32),
            _ => None,
        };
    }
}

/// Fills in the role of resources that a scheduler sent without it.
fn inject_allocation(operation: &mut Operation, role: &str) {
    let inject = |resources: &mut Vec<v1::Resource>| {
        for resource in resources {
            resource
                .allocation_info
                .get_or_insert_with(|| v1::resource::AllocationInfo { role: Some(role.to_owned()) });
        }
    };
    let inject_task = |task: &mut v1::TaskInfo| {
        inject(&mut task.resources);
        if let Some(executor) = &mut task.executor {
            inject(&mut executor.resources);
        }
    };
    if let Some(launch) = &mut operation.launch {
        launch.task_infos.iter_mut().for_each(inject_task);
    }
    if let Some(group) = &mut operation.launch_group {
        inject(&mut group.executor.resources);
        group.task_group.tasks.iter_mut().for_each(inject_task);
    }
    if let Some(reserve) = &mut operation.reserve {
        inject(&mut reserve.resources);
    }
    if let Some(unreserve) = &mut operation.unreserve {
        inject(&mut unreserve.resources);
    }
    if let Some(create) = &mut operation.create {
        inject(&mut create.volumes);
    }
    if let Some(destroy) = &mut operation.destroy {
        inject(&mut destroy.volumes);
    }
}
