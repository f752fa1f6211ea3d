//! Extended resources: what Mesos has besides CPUs, memory, disk and ports.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{NodeStatus, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use km_mesos_proto::v1;
use km_podtask::ResourceNames;
use km_scheduler::core::{Config, Event, EventKind};

use crate::{
    SECOND, events,
    world::{World, config, spec},
};

const GPU: &str = "nvidia.com/gpu";

fn asks(name: &str, units: u32) -> PodSpec {
    let mut spec = spec("500m", "64Mi", None);
    let requests = spec.containers[0].resources.as_mut().and_then(|resources| resources.requests.as_mut());
    requests.expect("it has requests").insert(name.to_owned(), Quantity(units.to_string()));
    spec
}

/// One agent that has this besides, in thousandths.
fn world(extra: &[(&str, i64)], config: Config) -> World {
    let mut world = World::with_config(0, config);
    world.mesos.add_agent("agent1", "host1", 4000, 4096);
    set_extra(&mut world, extra);
    world
}

fn set_extra(world: &mut World, extra: &[(&str, i64)]) {
    let agent = world.mesos.agents.get_mut("agent1").expect("it is there");
    agent.extra = extra.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
}

fn status(world: &World) -> NodeStatus {
    world.api.nodes["host1"].status.clone().unwrap_or_default()
}

/// Extended resources of a list of the node.
fn extended(list: Option<BTreeMap<String, Quantity>>) -> Vec<(String, String)> {
    let all = list.unwrap_or_default().into_iter();
    all.filter(|(name, _)| name.contains('/')).map(|(name, amount)| (name, amount.0)).collect()
}

/// What the tasks of the agent hold of a Mesos resource, in whole units.
fn held(world: &World, name: &str) -> f64 {
    let tasks = world.mesos.agents["agent1"].tasks.values().filter(|task| task.alive());
    let resources = tasks.flat_map(|task| &task.info.resources).filter(|resource| resource.name == name);
    resources.filter_map(|resource| resource.scalar.as_ref()).map(|scalar| scalar.value).sum()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect()
}

#[test]
fn gpus_are_placed_launched_and_counted() {
    let mut world = world(&[("gpus", 3000)], config());
    let first = world.create("p", asks(GPU, 2));
    world.run(SECOND * 3);
    assert!(world.is_running(&first), "who asks for GPUs tolerates their taint: {:?}", world.log);
    assert_eq!(held(&world, "gpus"), 2.0);
    let node = status(&world);
    assert_eq!(extended(node.capacity), pairs(&[(GPU, "3")]));
    assert_eq!(extended(node.allocatable), pairs(&[(GPU, "3")]));

    let second = world.create("q", asks(GPU, 2));
    world.run(SECOND * 5);
    assert!(!world.is_running(&second));
    let said = events(&world, EventKind::FailedScheduling);
    assert!(said[0].starts_with("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."), "{said:?}");
    let page = world.core.explain_page(world.now, &second).expect("it waits");
    assert_eq!(
        (page.agents[0].why.as_str(), page.agents[0].lacking.as_str()),
        ("Insufficient nvidia.com/gpu", "nvidia.com/gpu 1")
    );

    world.api.delete(&first);
    world.run(SECOND * 10);
    assert!(world.is_running(&second));
}

/// Also when all is in use, so that no offer shows what the agent has.
#[test]
fn a_restarted_scheduler_counts_the_gpus_of_bound_pods() {
    let mut world = world(&[("gpus", 1000)], config());
    let first = world.create("p", asks(GPU, 1));
    world.run(SECOND * 3);
    assert!(world.is_running(&first));
    world.restart();
    let seen = world.mesos.seen();
    world.send(Event::Agents(seen));
    let second = world.create("q", asks(GPU, 1));
    world.run(SECOND * 5);
    assert!(world.is_running(&first) && !world.is_running(&second));
    let said = events(&world, EventKind::FailedScheduling);
    assert!(said[0].starts_with("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."), "{said:?}");
    let third = world.create("r", asks(GPU, 2));
    world.run(SECOND * 5);
    let message = world.core.explain_page(world.now, &third).and_then(|page| page.message).expect("it waits");
    assert!(message.ends_with("The pod needs nvidia.com/gpu 2, but the largest agent has 1."), "{message}");
}

#[test]
fn other_resources_are_called_by_their_names() {
    let resource_names = ResourceNames::parse(["gpus=amd.com/gpu", "fpga=example.com/card"]).expect("it is lawful");
    let extra = [("bandwidth", 10_500), ("example.com/slot", 4000), ("fpga", 1000), ("half", 500)];
    let mut world = world(&extra, Config { resource_names, ..config() });
    let all = [("example.com/card", "1"), ("example.com/slot", "4"), ("k8s.mesosphere.io/bandwidth", "10")];
    let pods: Vec<_> =
        all.iter().map(|(name, _)| world.create(&name.replace(['/', '.'], "-"), asks(name, 1))).collect();
    world.run(SECOND * 5);
    assert!(pods.iter().all(|pod| world.is_running(pod)), "{:?}", world.log);
    assert_eq!(extended(status(&world).capacity), pairs(&all));
    for name in ["bandwidth", "example.com/slot", "fpga"] {
        assert_eq!(held(&world, name), 1.0, "{name}");
    }
}

/// The master's list says all that an agent has; offers alone don't, as others may hold something.
#[test]
fn a_node_follows_its_agent() {
    let mut world = world(&[("gpus", 2000)], config());
    world.run(SECOND);
    assert_eq!(extended(status(&world).capacity), pairs(&[(GPU, "2")]));
    let described = |extra: &[(&str, i64)], world: &mut World| {
        set_extra(world, extra);
        let seen = world.mesos.seen();
        world.send(Event::Agents(seen));
        world.run(SECOND);
        (extended(status(world).capacity), extended(status(world).allocatable))
    };
    for (extra, expected) in [
        (vec![("gpus", 4000)], pairs(&[(GPU, "4")])),
        (vec![("gpus", 1000), ("a.b/c", 1000)], pairs(&[("a.b/c", "1"), (GPU, "1")])),
        (vec![], pairs(&[])),
    ] {
        assert_eq!(described(&extra, &mut world), (expected.clone(), expected), "{extra:?}");
    }
    assert_eq!(status(&world).capacity.unwrap_or_default()["cpu"].0, "4", "the rest stays");
}

/// Mesos counts whole cards of a set, too.
#[test]
fn items_of_a_set_are_units() {
    let mut world = World::new(1);
    let set = v1::Resource {
        name: "example.com/card".into(),
        r#type: v1::value::Type::Set as i32,
        set: Some(v1::value::Set { item: vec!["x".into(), "y".into()] }),
        ..v1::Resource::default()
    };
    let mut seen = world.mesos.seen();
    seen[0].resources.push(set);
    world.send(Event::Agents(seen));
    world.run(Duration::from_secs(1));
    assert_eq!(extended(status(&world).capacity), pairs(&[("example.com/card", "2")]));
}
