//! Faults that people met with frameworks on Mesos, each as a behaviour. `docs/FIELD-CASES.md` lists them.

mod agents;
mod demand;
mod kills;
mod launches;
#[path = "../world/mod.rs"]
mod world;

use std::time::Duration;

use km_mesos_proto::v1::{
    TaskState, TaskStatus,
    task_status::{Reason, Source},
};
use km_scheduler::core::{Action, Event};
use world::World;

const SECOND: Duration = Duration::from_secs(1);

fn status(task: &str, state: TaskState, source: Source, reason: Reason) -> TaskStatus {
    TaskStatus {
        task_id: task.into(),
        state: state as i32,
        source: Some(source as i32),
        reason: Some(reason as i32),
        ..TaskStatus::default()
    }
}

fn send(world: &mut World, status: TaskStatus) {
    world.send(Event::Update(Box::new(status)));
}

/// Task and agent of the only task.
fn task_of(world: &World) -> (String, String) {
    let lines = world.core.task_lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    (lines[0].id.clone(), lines[0].agent.clone())
}

/// Lets time pass without any executor doing its work, until a task is launched.
fn launch_only(world: &mut World) -> (String, String) {
    for _ in 0..1000 {
        if world.live_tasks() > 0 {
            return task_of(world);
        }
        world.mesos.allocate(world.now);
        while world.deliver_one(0) {}
        world.now += Duration::from_millis(5);
        world.send(Event::Tick);
    }
    panic!("nothing is launched");
}

/// The task vanishes from Mesos without a word.
fn vanish(world: &mut World, agent: &str, task: &str) {
    world.mesos.agents.get_mut(agent).expect("the agent is there").tasks.remove(task);
}

fn kills(world: &World, task: &str) -> usize {
    world.count(|action| matches!(action, Action::Kill { task_id, .. } if task_id == task))
}

fn acknowledgements(world: &World) -> usize {
    world.count(|action| matches!(action, Action::Acknowledge { .. }))
}

fn revives(world: &World) -> usize {
    world.count(|action| matches!(action, Action::Revive))
}
