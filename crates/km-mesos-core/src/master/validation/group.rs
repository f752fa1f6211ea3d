//! Task groups: one bad task makes the whole group bad (M131, M151 to M155, X045).

use std::collections::{BTreeMap, BTreeSet};

use km_mesos_proto::{
    resources::{Resources, Scalar, overlaps},
    v1::{self, container_info, health_check},
};

use super::{ensure, executor, resource, task};
use crate::master::{agent::Agent, framework::Framework};

/// Why a group is refused: a reason for all of its tasks, or one of a single task that the others fall with.
#[derive(Clone, Debug)]
pub(in crate::master) struct Refusal {
    whole: String,
    single: BTreeMap<String, String>,
}

impl Refusal {
    /// One reason for all tasks.
    pub fn whole(reason: impl Into<String>) -> Self {
        Self { whole: reason.into(), single: BTreeMap::new() }
    }

    /// What to tell of one task.
    pub fn reason_for(&self, task: &str) -> &str {
        self.single.get(task).unwrap_or(&self.whole)
    }
}

/// What an executor of a group needs at least; memory in MB.
const LEAST_CPUS: Scalar = Scalar(10);
const LEAST_MEMORY: Scalar = Scalar(32_000);

pub(in crate::master) fn validate(
    group: &v1::TaskGroupInfo,
    info: &v1::ExecutorInfo,
    framework: &Framework,
    agent: &Agent,
    available: &Resources,
) -> Result<(), Refusal> {
    if group.tasks.is_empty() {
        return Err(Refusal::whole("Task group cannot be empty"));
    }
    of_executor(info, framework).map_err(Refusal::whole)?;
    if let Some(existing) = agent.executor(&framework.id, &info.executor_id.value) {
        executor::compatible(info, existing).map_err(Refusal::whole)?;
    }
    let mut ids = BTreeSet::new();
    for one in &group.tasks {
        of_same_executor(one, info).map_err(Refusal::whole)?;
        let fresh = ids.insert(&one.task_id.value);
        let unique = ensure(fresh, || format!("Task has duplicate ID: {}", one.task_id.value));
        unique
            .and_then(|()| of_task(one, framework, agent))
            .map_err(|reason| Refusal::whole(format!("Task '{}' is invalid: {reason}", one.task_id.value)))?;
    }
    together(group, info, framework, agent, available).map_err(Refusal::whole)
}

fn of_executor(info: &v1::ExecutorInfo, framework: &Framework) -> Result<(), String> {
    ensure(info.r#type.is_some_and(|kind| kind != v1::executor_info::Type::Unknown as i32), || {
        "'ExecutorInfo.type' must be set".to_owned()
    })?;
    // Not filled in as for single tasks: the executor is shared by tasks that the framework describes as a whole.
    ensure(info.framework_id.is_some(), || "'ExecutorInfo.framework_id' must be set".to_owned())?;
    executor::validate(info, framework)?;
    worth_an_executor(info)?;
    let docker = info.container.as_ref().is_some_and(|info| info.r#type == container_info::Type::Docker as i32);
    ensure(!docker, || "Docker ContainerInfo is not supported on the executor".to_owned())
}

/// An executor of a group needs a little of everything.
fn worth_an_executor(info: &v1::ExecutorInfo) -> Result<(), String> {
    let (held, id) = (resource::read(&info.resources), &info.executor_id.value);
    let shown = |name: &str, unit: &str| {
        let none = held.get(name).is_empty();
        if none { "None".to_owned() } else { format!("{}{unit}", held.scalar(name)) }
    };
    ensure(held.scalar("cpus") >= LEAST_CPUS, || {
        format!("Executor '{id}' uses less CPUs ({}) than the minimum required ({LEAST_CPUS})", shown("cpus", ""))
    })?;
    ensure(held.scalar("mem") >= LEAST_MEMORY, || {
        format!(
            "Executor '{id}' uses less memory ({}) than the minimum required ({LEAST_MEMORY}MB)",
            shown("mem", "MB")
        )
    })?;
    ensure(!held.get("disk").is_empty(), || format!("Executor '{id}' uses no disk"))
}

fn of_same_executor(one: &v1::TaskInfo, info: &v1::ExecutorInfo) -> Result<(), String> {
    ensure(one.executor.as_ref().is_none_or(|own| own == info), || {
        format!(
            "The `ExecutorInfo` of task '{}' is different from executor '{}'",
            one.task_id.value, info.executor_id.value
        )
    })
}

fn of_task(one: &v1::TaskInfo, framework: &Framework, agent: &Agent) -> Result<(), String> {
    task::form(one, framework, agent)?;
    if let Some(container) = &one.container {
        ensure(container.r#type != container_info::Type::Docker as i32, || {
            "Docker ContainerInfo is not supported on the task".to_owned()
        })?;
    }
    let remote = one
        .health_check
        .as_ref()
        .is_some_and(|check| matches!(check.r#type(), health_check::Type::Http | health_check::Type::Tcp));
    let own_network = one.container.as_ref().is_some_and(|container| !container.network_infos.is_empty());
    ensure(!(remote && own_network), || {
        "HTTP and TCP health checks are not supported for nested containers not joining parent's network".to_owned()
    })?;
    let shares = one.container.as_ref().and_then(|info| info.linux_info.as_ref()?.share_cgroups);
    ensure(one.limits.is_empty() || shares == Some(false), || {
        "Resource limits may only be set for tasks within a task group when 'share_cgroups' is 'false'".to_owned()
    })
}

fn together(
    group: &v1::TaskGroupInfo,
    info: &v1::ExecutorInfo,
    framework: &Framework,
    agent: &Agent,
    available: &Resources,
) -> Result<(), String> {
    let shares = |one: &v1::TaskInfo| one.container.as_ref().and_then(|info| info.linux_info.as_ref()?.share_cgroups);
    let first = group.tasks.first().and_then(shares).unwrap_or(true);
    ensure(group.tasks.iter().all(|one| shares(one).unwrap_or(true) == first), || {
        "If set, the value of 'share_cgroups' must be the same for all tasks in each task group and under a single executor"
            .to_owned()
    })?;
    let mut parts: Vec<Resources> = group.tasks.iter().map(|one| resource::read(&one.resources)).collect();
    parts.push(resource::read(&info.resources));
    ensure(!overlaps(&parts), || "There are overlapping resources in the task group and its executor".to_owned())?;
    if agent.executor(&framework.id, &info.executor_id.value).is_some() {
        parts.pop();
    }
    let needed: Resources = parts.into_iter().sum();
    ensure(available.contains(&needed), || {
        format!("Total resources {needed} required by task group and its executor are more than available {available}")
    })
}
