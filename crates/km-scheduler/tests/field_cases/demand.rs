//! How often offers are asked for, and what becomes of them.

use std::time::Duration;

use km_mesos_proto::v1::{
    TaskState,
    task_status::{Reason, Source},
};
use km_scheduler::core::{Action, Event};

use crate::{
    SECOND, launch_only, revives, send, status, vanish,
    world::{World, spec},
};

#[test]
fn a_new_pod_after_a_long_rest_asks_for_offers_at_once_and_many_pods_ask_seldom() {
    let mut world = World::new(2);
    world.send(Event::Agents(world.mesos.seen()));
    world.run(SECOND * 600);
    assert!(world.mesos.is_suppressed() && world.mesos.offers.is_empty());
    let before = revives(&world);
    let pod = world.create("p", spec("100m", "32Mi", None));
    world.run(Duration::from_millis(500));
    assert!(world.is_running(&pod));
    assert_eq!(revives(&world), before + 1);
    world.run(SECOND * 600);
    let before = revives(&world);
    for number in 0..50 {
        world.create(&format!("many{number}"), spec("50m", "32Mi", None));
        world.run(Duration::from_millis(20));
    }
    world.run(SECOND);
    // Two seconds, ten of them a second at most.
    assert!(revives(&world) - before <= 20, "{} revives", revives(&world) - before);
}

#[test]
fn an_idle_framework_gets_no_offers_and_keeps_what_is_left_of_a_used_one_away() {
    let mut world = World::new(5);
    world.send(Event::Agents(world.mesos.seen()));
    world.run(SECOND * 60);
    let declines = |world: &World| world.count(|action| matches!(action, Action::Decline { .. }));
    let before = declines(&world);
    world.run(SECOND * 600);
    assert_eq!(declines(&world), before);
    world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 5);
    let refused: Vec<Duration> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::Accept { refuse, .. } | Action::Decline { refuse, .. } => Some(*refuse),
            _ => None,
        })
        .collect();
    assert!(refused.iter().all(|refuse| *refuse >= SECOND * 120), "{refused:?}");
}

#[test]
fn an_unschedulable_pod_revives_no_more_often_than_its_back_off() {
    let mut world = World::new(1);
    world.create("big", spec("64", "64Mi", None));
    world.run(SECOND * 60);
    let before = revives(&world);
    world.run(SECOND * 600);
    let count = revives(&world) - before;
    assert!((5..=24).contains(&count), "{count} revives in 10 minutes");
}

#[test]
fn a_new_subscription_while_idle_is_suppressed_again() {
    let mut world = World::new(1);
    world.send(Event::Agents(world.mesos.seen()));
    world.run(SECOND * 10);
    world.disconnect();
    world.subscribe();
    assert!(!world.mesos.is_suppressed());
    world.run(SECOND * 10);
    assert!(world.mesos.is_suppressed());
}

#[test]
fn rescinded_offers_known_unknown_or_already_used_cost_nothing() {
    let mut world = World::new(1);
    world.run(Duration::from_millis(10));
    world.send(Event::Rescinded("unknown".into()));
    let held = world.core.offer_lines(world.now).first().map(|offer| offer.id.clone());
    if let Some(id) = held {
        world.mesos.offers.remove(&id);
        world.send(Event::Rescinded(id.as_str().into()));
    }
    world.run(SECOND);
    // Used while it is being rescinded: the master drops the launch.
    let pod = world.create("p", spec("1", "64Mi", None));
    let (task, agent) = launch_only(&mut world);
    let used = world.log.iter().find_map(|action| match action {
        Action::Accept { offers, .. } => Some(offers[0].clone()),
        _ => None,
    });
    vanish(&mut world, &agent, &task);
    world.mesos.agents.get_mut(&agent).expect("it is there").executor = None;
    world.send(Event::Rescinded(used.expect("an offer was used")));
    send(&mut world, status(&task, TaskState::TaskLost, Source::Master, Reason::InvalidOffers));
    world.run(SECOND * 10);
    assert!(world.is_running(&pod));
    assert_eq!(world.live_tasks(), 1);
}
