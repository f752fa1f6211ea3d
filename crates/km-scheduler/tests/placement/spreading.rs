//! The default spread of pods that say nothing about it.

use km_placement::{Policy, Strategy};
use km_podtask::PodKey;
use km_scheduler::core::{Config, DefaultSpread, Event};
use serde_json::json;

use crate::{
    SECOND, annotated,
    world::{World, config, spec},
};

/// Three agents in one zone and one, the last, in another.
fn world(strategy: Strategy, spread: DefaultSpread) -> World {
    let policy = Policy { strategy, ..Policy::default() };
    let mut world = World::with_config(4, Config { policy, default_spread: spread, ..config() });
    let mut seen = world.mesos.seen();
    for agent in &mut seen {
        let zone = if agent.hostname == "host4" { "z2" } else { "z1" };
        agent.domain = Some(("r".to_owned(), zone.to_owned()));
    }
    world.send(Event::Agents(seen));
    world.run(SECOND * 2);
    world
}

fn service(world: &mut World, app: Option<&str>) {
    let selector = app.map(|app| ("app".to_owned(), app.to_owned())).into_iter().collect();
    world.send(Event::Service { id: PodKey::new("default", "web"), selector });
}

/// The zones of the first two pods of an app or an owner.
fn zones(world: &mut World, change: impl Fn(&mut k8s_openapi::api::core::v1::Pod)) -> Vec<&'static str> {
    let mut zones = Vec::new();
    for name in ["p", "q"] {
        let pod = world.api.create_as(name, spec("100m", "64Mi", None), &change);
        world.run(SECOND * 3);
        assert!(world.is_running(&pod), "{:?}", world.log);
        zones.push(if world.node_of(&pod).as_deref() == Some("host4") { "z2" } else { "z1" });
    }
    zones.sort_unstable();
    zones
}

fn of_app(pod: &mut k8s_openapi::api::core::v1::Pod) {
    pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
}

fn of_replica_set(pod: &mut k8s_openapi::api::core::v1::Pod) {
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true }]);
    pod.metadata.owner_references = Some(serde_json::from_value(owner).expect("an owner"));
}

#[test]
fn pods_of_a_service_or_replica_set_go_to_several_zones_where_spreading_is_chosen() {
    let always = |list: &str| DefaultSpread::parse(list).expect("it is lawful");
    let both = ["z1", "z2"];
    // `spread` alone minds how full agents are: the second pod goes to the next agent of the same zone.
    let table = [
        (Strategy::Spread, DefaultSpread::Auto, Some("web"), both),
        (Strategy::Spread, always("none"), Some("web"), ["z1", "z1"]),
        (Strategy::Spread, DefaultSpread::Auto, Some("other"), ["z1", "z1"]),
        (Strategy::Spread, DefaultSpread::Auto, None, ["z1", "z1"]),
        (Strategy::Pack, DefaultSpread::Auto, Some("web"), ["z1", "z1"]),
        (Strategy::Pack, always("topology.kubernetes.io/zone:1"), Some("web"), both),
        (Strategy::FirstFit, DefaultSpread::Auto, Some("web"), ["z1", "z1"]),
    ];
    for (strategy, spread, selects, expected) in table {
        let mut world = world(strategy, spread.clone());
        service(&mut world, Some("gone"));
        service(&mut world, selects);
        assert_eq!(zones(&mut world, of_app), expected, "{strategy:?}, {spread:?}, service for {selects:?}");
    }
    assert_eq!(zones(&mut world(Strategy::Spread, DefaultSpread::Auto), of_replica_set), both);
    // A pod may choose to be spread by itself.
    let mut chosen = world(Strategy::Pack, DefaultSpread::Auto);
    service(&mut chosen, Some("web"));
    let spread = annotated("placement", "spread");
    let both_ways = |pod: &mut k8s_openapi::api::core::v1::Pod| {
        of_app(pod);
        spread(pod);
    };
    assert_eq!(zones(&mut chosen, both_ways), both);
}

fn cordon(world: &mut World, host: &str, unschedulable: bool) {
    let patch = json!({ "spec": { "unschedulable": unschedulable } });
    world.api.patch_node(host, &patch).expect("the node is there");
}

/// A service that comes while a pod waits counts for it.
#[test]
fn a_waiting_pod_hears_of_a_new_service() {
    let mut world = world(Strategy::Spread, DefaultSpread::Auto);
    let first = world.api.create_as("first", spec("100m", "64Mi", None), of_app);
    world.run(SECOND * 3);
    assert_ne!(world.node_of(&first).as_deref(), Some("host4"));
    for host in ["host1", "host2", "host3", "host4"] {
        cordon(&mut world, host, true);
    }
    let second = world.api.create_as("second", spec("100m", "64Mi", None), of_app);
    world.run(SECOND * 3);
    assert!(!world.is_running(&second));
    service(&mut world, Some("web"));
    for host in ["host1", "host2", "host3", "host4"] {
        cordon(&mut world, host, false);
    }
    world.run(SECOND * 10);
    assert_eq!(world.node_of(&second).as_deref(), Some("host4"));
}
