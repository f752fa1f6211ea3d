//! Agents and executors that go.

use km_mesos_proto::v1::{
    TaskState,
    task_status::{Reason, Source},
};
use km_scheduler::core::Event;

use crate::{
    SECOND, send, status, task_of, vanish,
    world::{World, spec},
};

#[test]
fn a_node_whose_idle_executor_ended_stays_ready_and_takes_pods() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.api.delete(&pod);
    world.run(SECOND * 3);
    world.mesos.executor_dies("agent1");
    world.run(SECOND * 60);
    assert_eq!(world.api.ready("host1").as_deref(), Some("True"));
    assert!(world.api.taints("host1").is_empty());
    let next = world.create("next", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    assert!(world.is_running(&next));
}

#[test]
fn pods_of_a_removed_agent_are_replaced_by_whatever_word_mesos_has_for_it() {
    for (state, reason) in [
        (TaskState::TaskLost, Reason::AgentRemoved),
        (TaskState::TaskGone, Reason::AgentRemoved),
        (TaskState::TaskGoneByOperator, Reason::AgentRemovedByOperator),
        (TaskState::TaskDropped, Reason::AgentDisconnected),
    ] {
        let mut world = World::new(1);
        let pod = world.create("p", spec("1", "64Mi", None));
        world.run(SECOND * 3);
        let (task, agent) = task_of(&world);
        world.mesos.agents.remove(&agent);
        world.mesos.add_agent("agent2", "host2", 4000, 4096);
        world.send(Event::Failure { agent_id: Some(agent), executor_id: None });
        send(&mut world, status(&task, state, Source::Master, reason));
        world.run(SECOND * 3);
        assert!(!world.api.pods.contains_key(&pod), "{state:?}");
        let replacement = world.create("replacement", spec("1", "64Mi", None));
        world.run(SECOND * 3);
        assert_eq!(world.node_of(&replacement).as_deref(), Some("host2"));
    }
}

#[test]
fn an_agent_that_goes_without_a_word_is_found_out_by_reconciliation() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    let (task, agent) = task_of(&world);
    vanish(&mut world, &agent, &task);
    world.run(SECOND * 2);
    assert!(world.api.pods.contains_key(&pod));
    world.send(Event::Request(km_scheduler::core::Request::Explicit));
    // One reconciliation follows another after a pause of 15 s.
    world.run(SECOND * 20);
    assert!(!world.api.pods.contains_key(&pod));
}
