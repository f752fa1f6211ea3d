//! `GET /state`: the agent, its frameworks, their executors and tasks, as Apache Mesos nests them.

use km_mesos_core::agent::{Agent, CAPABILITIES};
use km_mesos_proto::{Message, json, v1, v1::agent::response};
use serde_json::{Map, Value, json};

use super::{
    super::{MESOS_VERSION, shared::Shared},
    v0::flags,
};

pub(super) fn state(shared: &Shared) -> Value {
    let flags: Map<String, Value> =
        flags(shared).into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    let core = shared.core();
    let info = core.info();
    let view = View { core: &core, executors: core.get_executors(), tasks: core.get_tasks() };
    let frameworks = core.get_frameworks();
    let list = |frameworks: &[response::get_frameworks::Framework]| -> Vec<Value> {
        frameworks.iter().map(|framework| view.framework(&framework.framework_info)).collect()
    };
    let mut page = json!({
        "version": MESOS_VERSION,
        "start_time": shared.clock.started_at(),
        "id": info.id.as_ref().map(|id| id.value.as_str()).unwrap_or_default(),
        "pid": format!("slave(1)@{}", shared.address),
        "hostname": info.hostname,
        "resources": values(core.resources().iter()),
        "attributes": values(info.attributes.iter()),
        "master_hostname": shared.flags.master,
        "capabilities": CAPABILITIES.map(|kind| kind.as_str_name()),
        "flags": flags,
        "frameworks": list(&frameworks.frameworks),
        "completed_frameworks": list(&frameworks.completed_frameworks),
    });
    if let Some((config, since)) = core.draining() {
        page["drain_config"] = json::to_value(config);
        page["estimated_drain_start_time_seconds"] = since.as_secs().into();
    }
    page
}

struct View<'a> {
    core: &'a Agent,
    executors: response::GetExecutors,
    tasks: response::GetTasks,
}

impl View<'_> {
    fn framework(&self, info: &v1::FrameworkInfo) -> Value {
        let id = info.id.clone().unwrap_or_default();
        let list = |executors: &[response::get_executors::Executor]| -> Vec<Value> {
            let infos = executors.iter().map(|executor| &executor.executor_info);
            infos.filter(|info| info.framework_id.as_ref() == Some(&id)).map(|info| self.executor(&id, info)).collect()
        };
        json!({
            "id": id.value,
            "name": info.name,
            "user": info.user,
            "checkpoint": info.checkpoint(),
            "roles": info.roles,
            "executors": list(&self.executors.executors),
            "completed_executors": list(&self.executors.completed_executors),
        })
    }

    fn executor(&self, framework: &v1::FrameworkId, info: &v1::ExecutorInfo) -> Value {
        let own = |task: &&v1::Task| {
            let executor = task.executor_id.as_ref().map_or(&task.task_id.value, |id| &id.value);
            task.framework_id == *framework && *executor == info.executor_id.value
        };
        let list = |tasks: &[v1::Task]| values(tasks.iter().filter(own));
        let completed = [list(&self.tasks.terminated_tasks), list(&self.tasks.completed_tasks)].concat();
        json!({
            "id": info.executor_id.value,
            "name": info.name(),
            "source": info.executor_id.value,
            "directory": self.core.sandbox_of(&framework.value, &info.executor_id.value),
            "queued_tasks": list(&self.tasks.queued_tasks),
            "tasks": list(&self.tasks.launched_tasks),
            "completed_tasks": completed,
        })
    }
}

fn values<'a, M: Message + 'a>(messages: impl Iterator<Item = &'a M>) -> Vec<Value> {
    messages.map(json::to_value).collect()
}
