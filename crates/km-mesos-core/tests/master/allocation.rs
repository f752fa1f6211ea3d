//! Filters, suppression, fair share, minima, quota (M052 to M123).

use km_mesos_core::master::Event;
use km_mesos_proto::v1::{
    self, framework_info,
    scheduler::{self, call::Type},
};

use crate::harness::*;

#[test]
fn one_offer_per_agent_and_role() {
    // M052, M073
    let mut world = World::new();
    let info = with(framework("a"), framework_info::capability::Type::MultiRole);
    let scheduler = world.subscribe(v1::FrameworkInfo { roles: vec!["*".to_owned()], ..info });
    world.agent("cpus:2;mem:1024;ports:[31000-32000]");
    world.agent("cpus:1;mem:512");
    let offers = world.offers(&scheduler);
    assert_eq!(offers.len(), 2);
    for offer in offers {
        assert_eq!(offer.allocation_info.clone().and_then(|info| info.role), Some("*".to_owned()));
        for resource in &offer.resources {
            assert_eq!(resource.allocation_info, offer.allocation_info);
            assert_eq!(resource.role.as_deref(), Some("*"), "the old form without RESERVATION_REFINEMENT");
        }
    }
}

#[test]
fn a_framework_of_one_role_is_not_told_of_allocations() {
    let mut world = World::new();
    let scheduler = world.subscribe(framework("a"));
    world.agent("cpus:2;mem:1024");
    let offers = world.offers(&scheduler);
    assert_eq!(offers.len(), 1);
    assert_eq!(offers[0].allocation_info, None);
    assert!(offers[0].resources.iter().all(|resource| resource.allocation_info.is_none()));
}

#[test]
fn refusals_last_as_long_as_measured() {
    // M063, M070, M071; times measured on Apache Mesos 1.11
    for (refuse, batches) in [(0.0, 1), (0.5, 2), (2.0, 3), (5.0, 6)] {
        let mut world = World::new();
        let scheduler = world.subscribe(framework("a"));
        world.agent("cpus:2;mem:1024");
        world.pass(std::time::Duration::from_millis(1010));
        let offer = world.offer(&scheduler);
        world.decline(&scheduler, &offer, refuse);
        let mut waited = 0;
        while world.offers(&scheduler).is_empty() {
            world.pass_secs(1);
            waited += 1;
            assert!(waited < 20);
        }
        assert_eq!(waited, batches, "refuse_seconds {refuse}");
    }
}

#[test]
fn revive_ends_a_refusal_at_once_and_suppress_stops_offers() {
    // M064, M065, M066, M067, M069
    let mut world = World::new();
    let scheduler = world.subscribe(framework("a"));
    world.agent("cpus:2;mem:1024");
    let offer = world.offer(&scheduler);
    world.decline(&scheduler, &offer, 3600.0);
    world.pass_secs(10);
    assert!(world.offers(&scheduler).is_empty());
    world.simple(&scheduler, Type::Revive);
    let offer = world.offer(&scheduler);
    world.decline(&scheduler, &offer, 0.0);
    world.simple(&scheduler, Type::Suppress);
    world.pass_secs(10);
    assert!(world.offers(&scheduler).is_empty());
    world.simple(&scheduler, Type::Revive);
    let offer = world.offer(&scheduler);
    world.simple(&scheduler, Type::Revive);
    assert!(world.offers(&scheduler).is_empty(), "nothing is free");
    world.decline(&scheduler, &offer, 0.0);
    let second = world.subscribe_suppressed(again(framework("a"), &scheduler), &["*"]);
    world.pass_secs(10);
    assert!(world.offers(&second).is_empty());
    world.handle(Event::Disconnected { connection: second.connection });
    let third = world.subscribe(again(framework("a"), &scheduler));
    assert_eq!(world.offers(&third).len(), 1);
}

#[test]
fn a_revive_of_one_role_leaves_the_other_alone() {
    // M068
    let mut world = World::new();
    let scheduler = world.subscribe_suppressed(in_roles("a", &["r1", "r2"]), &["r1"]);
    world.agent("cpus:2;mem:1024");
    let role = |offer: &v1::Offer| offer.allocation_info.clone().and_then(|info| info.role).unwrap_or_default();
    let offer = world.offer(&scheduler);
    assert_eq!(role(&offer), "r2");
    world.decline(&scheduler, &offer, 3600.0);
    let revive = scheduler::Call {
        revive: Some(scheduler::call::Revive { roles: vec!["r1".to_owned()] }),
        ..Default::default()
    };
    world.call(&scheduler, Type::Revive, revive);
    let offer = world.offer(&scheduler);
    assert_eq!(role(&offer), "r1");
    world.decline(&scheduler, &offer, 3600.0);
    world.pass_secs(10);
    assert!(world.offers(&scheduler).is_empty());
}

#[test]
fn roles_are_compared_before_frameworks() {
    // M090
    let mut world = World::new();
    let one = world.subscribe(in_roles("1", &["role1"]));
    world.agent("cpus:2;mem:1024");
    assert_eq!(world.offers(&one).len(), 1);
    let two = world.subscribe(in_roles("2", &["role2"]));
    world.agent("cpus:1;mem:512");
    assert_eq!(world.offers(&two).len(), 1);
    world.agent("cpus:3;mem:2048");
    assert_eq!(world.offers(&two).len(), 1);
    let three = world.subscribe(in_roles("3", &["role1"]));
    world.agent("cpus:4;mem:4096");
    assert_eq!(world.offers(&three).len(), 1);
    let four = world.subscribe(in_roles("4", &["role1"]));
    world.agent("cpus:1;mem:512");
    assert_eq!((world.offers(&two).len(), world.offers(&four).len()), (1, 0));
}

#[test]
fn equal_frameworks_take_turns() {
    // M094
    let mut world = World::new();
    let schedulers = [world.subscribe(framework("a")), world.subscribe(framework("b"))];
    world.agent("cpus:2;mem:1024");
    let mut counts = [0, 0];
    for _ in 0..10 {
        for (place, scheduler) in schedulers.iter().enumerate() {
            for offer in world.offers(scheduler) {
                counts[place] += 1;
                world.decline(scheduler, &offer, 0.0);
            }
        }
        world.pass_secs(1);
    }
    assert_eq!(counts, [5, 5]);
}

#[test]
fn reservations_go_to_their_role_and_those_below() {
    // M107, M108
    let mut world = World::new();
    let other = world.subscribe(in_roles("other", &["b"]));
    let child = world.subscribe(in_roles("child", &["a/b/c"]));
    world.agent("cpus(a):2;mem(a):1024");
    assert!(world.offers(&other).is_empty());
    let offer = world.offer(&child);
    assert_eq!(offer.allocation_info.and_then(|info| info.role), Some("a/b/c".to_owned()));
}

#[test]
fn too_little_is_not_offered() {
    // M058, M110
    for (agent, offers) in
        [("cpus:0.009;mem:31", 0), ("cpus:0.01;mem:1", 1), ("cpus:0.001;mem:32", 1), ("cpus:2", 1), ("mem:200", 1)]
    {
        let mut world = World::new();
        let scheduler = world.subscribe(framework("a"));
        world.agent(agent);
        assert_eq!(world.offers(&scheduler).len(), offers, "{agent}");
    }
}

#[test]
fn gpu_agents_are_for_gpu_frameworks() {
    let mut world = World::new();
    let plain = world.subscribe(framework("plain"));
    let gpu = world.subscribe(with(framework("gpu"), framework_info::capability::Type::GpuResources));
    world.agent("cpus:2;mem:1024;gpus:1");
    assert_eq!((world.offers(&plain).len(), world.offers(&gpu).len()), (0, 1));
}

#[test]
fn unanswered_offers_are_rescinded_after_the_timeout() {
    // M074, M075
    let mut config = config();
    config.offer_timeout = Some(std::time::Duration::from_secs(10));
    let mut world = World::with(config, km_mesos_core::master::Registry::default());
    let scheduler = world.subscribe(framework("a"));
    world.agent("cpus:2;mem:1024");
    let offer = world.offer(&scheduler);
    world.pass_secs(11);
    let events = world.read(&scheduler);
    assert_eq!(events[0].rescind.as_ref().map(|rescind| rescind.offer_id.clone()), Some(offer.id));
    let anew = events[1].offers.as_ref().expect("offered again").offers[0].clone();
    world.decline(&scheduler, &anew, 3600.0);
    world.pass_secs(30);
    assert!(world.read(&scheduler).is_empty());
}

fn quota(role: &str, guarantees: &[(&str, f64)], limits: &[(&str, f64)]) -> v1::quota::QuotaConfig {
    let amounts = |pairs: &[(&str, f64)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), v1::value::Scalar { value: *value })).collect()
    };
    v1::quota::QuotaConfig { role: role.to_owned(), guarantees: amounts(guarantees), limits: amounts(limits) }
}

fn set_quota(world: &mut World, config: v1::quota::QuotaConfig, force: bool) -> km_mesos_core::master::Answer {
    let update = v1::master::call::UpdateQuota { force: Some(force), quota_configs: vec![config] };
    let call = v1::master::Call { update_quota: Some(update), ..Default::default() };
    world.operator(v1::master::call::Type::UpdateQuota, call)
}

#[test]
fn a_limit_cuts_offers_and_a_guarantee_keeps_room() {
    // M114, M115
    let mut world = World::new();
    assert_eq!(set_quota(&mut world, quota("limited", &[], &[("cpus", 1.0), ("mem", 512.0)]), true).status, 200);
    let limited = world.subscribe(in_roles("limited", &["limited"]));
    world.agent("cpus:2;mem:1024");
    assert_eq!(offered(&world.offer(&limited)), resources("cpus:1;mem:512"));

    let mut world = World::new();
    assert_eq!(set_quota(&mut world, quota("kept", &[("cpus", 2.0), ("mem", 1024.0)], &[]), true).status, 200);
    let other = world.subscribe(in_roles("other", &["other"]));
    world.agent("cpus:2;mem:1024");
    world.pass_secs(5);
    assert!(world.offers(&other).is_empty(), "headroom is kept though the role has no framework");
    let kept = world.subscribe(in_roles("kept", &["kept"]));
    let offer = world.offer(&kept);
    assert_eq!(offered(&offer), resources("cpus:2;mem:1024"));
    world.decline(&kept, &offer, 3600.0);
    world.pass_secs(5);
    assert!(world.offers(&other).is_empty(), "what it declines is held back for it");
}

#[test]
fn unlawful_quota_is_refused_with_the_reason() {
    // M330, M331
    let cases = [
        (quota("", &[], &[("cpus", 1.0)]), "Invalid 'QuotaConfig.role': Role names cannot be the empty string"),
        (
            quota("r", &[], &[("cpus", 1_000_000_000_001.0)]),
            "{'cpus': 1000000000001} is invalid: values greater than 1 trillion (1000000000000) are not supported",
        ),
        (quota("r", &[("cpus", 2.0)], &[("cpus", 1.0)]), "is not contained within"),
        (quota("r", &[("cpus", 5.0)], &[]), "total quota guarantees 'cpus:5' exceed cluster capacity"),
    ];
    for (config, text) in cases {
        let mut world = World::new();
        world.agent("cpus:2;mem:1024");
        let answer = set_quota(&mut world, config, false);
        assert_eq!(answer.status, 400, "{text}");
        let km_mesos_core::master::Body::Text(reason) = answer.body else { panic!("no reason: {text}") };
        assert!(reason.contains(text), "'{reason}' lacks '{text}'");
    }
}
