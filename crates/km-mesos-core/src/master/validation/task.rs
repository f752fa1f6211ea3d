//! TaskInfo in a LAUNCH (M129 to M150, M155 to M158).

use km_mesos_proto::{
    resources::{Resources, Scalar, overlaps},
    v1,
};

use super::{check, container, ensure, executor, resource};
use crate::master::{agent::Agent, framework::Framework};

/// Checks a task of a LAUNCH: its own form, then its executor.
pub(in crate::master) fn validate(task: &v1::TaskInfo, framework: &Framework, agent: &Agent) -> Result<(), String> {
    form(task, framework, agent)?;
    ensure(task.executor.is_some() != task.command.is_some(), || {
        "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present".to_owned()
    })?;
    let shares = task.container.as_ref().and_then(|info| info.linux_info.as_ref()?.share_cgroups);
    ensure(shares != Some(false), || "Only tasks in a task group may have 'share_cgroups' set to 'false'".to_owned())?;
    let Some(info) = &task.executor else { return Ok(()) };
    if info.r#type.is_none() {
        ensure(info.command.is_some(), || "'ExecutorInfo.command' must be set for 'CUSTOM' executor".to_owned())?;
    }
    executor::validate(info, framework)?;
    ensure(info.r#type != Some(v1::executor_info::Type::Default as i32), || {
        "'ExecutorInfo.type' must be 'CUSTOM' for executors of tasks that are launched alone".to_owned()
    })?;
    with_executor(task, info, framework, agent)
}

/// What a task alone must satisfy, in a group or not.
pub(in crate::master) fn form(task: &v1::TaskInfo, framework: &Framework, agent: &Agent) -> Result<(), String> {
    let id = &task.task_id.value;
    super::id(id)?;
    ensure(!framework.tasks.contains_key(id), || format!("Task has duplicate ID: {id}"))?;
    ensure(!framework.unreachable_tasks.contains_key(id), || {
        format!("Task reuses the ID of an unreachable task: {id}")
    })?;
    ensure(task.agent_id.value == agent.id, || {
        format!("Task uses invalid agent {} while agent {} is expected", task.agent_id.value, agent.id)
    })?;
    let grace = task.kill_policy.as_ref().and_then(|policy| policy.grace_period);
    ensure(grace.is_none_or(|grace| grace.nanoseconds >= 0), || {
        "Task's 'kill_policy.grace_period' must be non-negative".to_owned()
    })?;
    ensure(task.max_completion_time.is_none_or(|time| time.nanoseconds >= 0), || {
        "Task's `max_completion_time` must be non-negative".to_owned()
    })?;
    if let Some(info) = &task.check {
        check::check(info).map_err(|reason| format!("Task uses invalid check: {reason}"))?;
    }
    if let Some(info) = &task.health_check {
        check::health_check(info).map_err(|reason| format!("Task uses invalid health check: {reason}"))?;
    }
    ensure(!task.resources.is_empty(), || "Task uses no resources".to_owned())?;
    resource::list(&task.resources).map_err(|reason| format!("Task uses invalid resources: {reason}"))?;
    resource::allocation_role(&resource::read(&task.resources))
        .map_err(|reason| format!("Invalid task resources: {reason}"))?;
    limits(task)?;
    if let Some(command) = &task.command {
        container::command(command).map_err(|reason| format!("Task's `CommandInfo` is invalid: {reason}"))?;
    }
    if let Some(info) = &task.container {
        container::container(info).map_err(|reason| format!("Task's `ContainerInfo` is invalid: {reason}"))?;
    }
    Ok(())
}

/// Limits are for cpus and mem, and not below the request (M147, M148).
fn limits(task: &v1::TaskInfo) -> Result<(), String> {
    let resources = resource::read(&task.resources);
    for (name, limit) in &task.limits {
        let kind = match name.as_str() {
            "cpus" => "cpu",
            "mem" => "memory",
            _ => return Err("Only cpus and mem may be included in a task's resource limits".to_owned()),
        };
        let enough = limit.value.is_infinite() || Scalar::from_f64(limit.value) >= resources.scalar(name);
        ensure(enough, || format!("The {kind} limit must be greater than or equal to the {kind} request"))?;
    }
    Ok(())
}

/// Task and executor together: an executor of that id that is there already must be the same one.
fn with_executor(
    task: &v1::TaskInfo,
    info: &v1::ExecutorInfo,
    framework: &Framework,
    agent: &Agent,
) -> Result<(), String> {
    if let Some(existing) = agent.executor(&framework.id, &info.executor_id.value) {
        executor::compatible(info, existing)?;
    }
    let (of_task, of_executor) = (resource::read(&task.resources), resource::read(&info.resources));
    ensure(!overlaps(&[of_task, of_executor]), || {
        "There are overlapping resources in the task and its executor".to_owned()
    })
}

/// Whether what the task needs, with its executor when that is new, is left of the accepted offers (M136).
pub(in crate::master) fn fits(
    task: &v1::TaskInfo,
    framework: &Framework,
    agent: &Agent,
    available: &Resources,
) -> Result<(), String> {
    let mut needed = resource::read(&task.resources);
    if let Some(info) = &task.executor
        && agent.executor(&framework.id, &info.executor_id.value).is_none()
    {
        needed += resource::read(&info.resources);
    }
    ensure(available.contains(&needed), || {
        format!("Total resources {needed} required by task and its executor is more than available {available}")
    })
}
