//! Host ports that Mesos offers although another process of the machine has them.

use k8s_openapi::api::core::v1::ContainerPort;
use km_scheduler::core::Action;

use crate::{
    SECOND,
    world::{World, spec},
};

/// The host ports that the tasks of the agent hold.
fn held(world: &World) -> Vec<u64> {
    let tasks = world.mesos.agents["agent1"].tasks.values().filter(|task| task.alive());
    let ports = tasks.flat_map(|task| &task.info.resources).filter(|resource| resource.name == "ports");
    let ranges = ports.filter_map(|ports| ports.ranges.as_ref()).flat_map(|ranges| &ranges.range);
    ranges.flat_map(|range| range.begin..=range.end).collect()
}

#[test]
fn a_port_that_somebody_else_has_is_not_used_again_for_some_time() {
    let mut world = World::new(1);
    world.mesos.foreign_ports = vec![("agent1".to_owned(), 31_000)];
    let first = world.create("first", spec("100m", "64Mi", None));
    world.run(SECOND * 5);
    let phase = |world: &World, key| world.api.pods.get(key).map(|pod| km_kube::pod::phase(pod).to_owned());
    assert_eq!(phase(&world, &first).as_deref(), Some("Failed"), "it was given the lowest port");

    // Its replacement gets the next port, and so does whoever else needs one.
    for name in ["second", "third"] {
        let pod = world.create(name, spec("100m", "64Mi", None));
        world.run(SECOND * 5);
        assert!(world.is_running(&pod), "{:?}", world.log);
    }
    assert_eq!(held(&world), [31_001, 31_002]);

    // A pod that wants the very port waits until it is tried again.
    world.mesos.foreign_ports.clear();
    let mut wants = spec("100m", "64Mi", Some(31_000));
    wants.containers[0].ports =
        Some(vec![ContainerPort { container_port: 80, host_port: Some(31_000), ..ContainerPort::default() }]);
    let fourth = world.create("fourth", wants);
    world.run(SECOND * 60);
    assert!(!world.is_running(&fourth));
    let said = world.log.iter().any(|action| {
        let text = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
        matches!(action, Action::EmitEvent { message, .. } if message.starts_with(text))
    });
    assert!(said, "{:?}", world.log);
    world.run(world.config.taken_port_pause);
    assert!(world.is_running(&fourth));
}

/// The executor writes why; a scheduler that ends the pod in its place says the same.
#[test]
fn a_pod_without_its_port_says_why() {
    let mut world = World::new(1);
    world.mesos.foreign_ports = vec![("agent1".to_owned(), 31_000)];
    world.mesos.dies_silently = true;
    world.create("p", spec("100m", "64Mi", None));
    world.run(SECOND * 5);
    let messages: Vec<&str> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::EndPod { phase: "Failed", message, .. } => Some(message.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(messages, ["HostPortTaken: host port 31000/TCP is taken by another process of the machine"]);
}
