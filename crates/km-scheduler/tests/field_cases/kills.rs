//! Tasks that are to end.

use km_mesos_proto::v1::{
    TaskState,
    task_status::{Reason, Source},
};

use crate::{
    SECOND, acknowledgements, kills, send, status, task_of, vanish,
    world::{World, spec},
};

#[test]
fn a_kill_of_a_task_that_nobody_knows_ends_the_deletion_without_an_acknowledgement() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("3", "64Mi", None));
    world.run(SECOND * 3);
    let (task, agent) = task_of(&world);
    vanish(&mut world, &agent, &task);
    world.api.delete(&pod);
    world.run(SECOND);
    let before = acknowledgements(&world);
    // A master's word: no uuid, no agent id.
    send(&mut world, status(&task, TaskState::TaskLost, Source::Master, Reason::Reconciliation));
    world.run(SECOND * 3);
    assert_eq!(acknowledgements(&world), before);
    assert!(world.api.pods.is_empty() && world.core.task_lines().is_empty());
    let next = world.create("next", spec("3", "64Mi", None));
    world.run(SECOND * 5);
    assert!(world.is_running(&next), "its resources are free");
}

#[test]
fn a_pod_deleted_while_the_master_is_away_is_killed_when_it_is_back() {
    let mut world = World::new(1);
    let pods = [world.create("graceful", spec("1", "64Mi", None)), world.create("forced", spec("1", "64Mi", None))];
    world.run(SECOND * 3);
    world.disconnect();
    world.api.remove(&pods[0]);
    world.api.remove(&pods[1]);
    world.run(SECOND * 120);
    assert_eq!(world.live_tasks(), 2);
    world.subscribe();
    world.run(SECOND * 5);
    assert_eq!(world.live_tasks(), 0);
}

#[test]
fn a_kill_that_gets_lost_is_sent_again_until_the_task_has_ended() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    let (task, agent) = task_of(&world);
    // The agent doesn't hear anything.
    world.mesos.agents.get_mut(&agent).expect("it is there").connected = false;
    world.api.remove(&pod);
    world.run(SECOND * 300);
    assert!(kills(&world, &task) >= 5 && world.live_tasks() == 1);
    world.mesos.agents.get_mut(&agent).expect("it is there").connected = true;
    world.run(SECOND * 61);
    assert_eq!(world.live_tasks(), 0);
}

#[test]
fn a_running_task_without_a_pod_is_killed_by_the_next_scheduler() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    let (task, _) = task_of(&world);
    world.disconnect();
    world.api.remove(&pod);
    world.restart();
    world.run(SECOND * 60);
    assert!(kills(&world, &task) >= 1);
    assert_eq!(world.live_tasks(), 0);
}
