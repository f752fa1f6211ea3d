//! Frameworks subscribe, fail over, are torn down (M008 to M051).

use km_mesos_core::master::Event;
use km_mesos_proto::v1::{
    self, TaskState,
    scheduler::{self, call::Type, event},
};

use crate::harness::*;

fn kinds(events: &[scheduler::Event]) -> Vec<event::Type> {
    events.iter().map(scheduler::Event::r#type).collect()
}

fn error_of(events: &[scheduler::Event]) -> String {
    events.iter().find_map(|event| event.error.as_ref()).map(|error| error.message.clone()).unwrap_or_default()
}

#[test]
fn subscribed_is_followed_by_a_heartbeat_at_once_and_one_per_interval() {
    // M008, M009
    let mut world = World::new();
    let scheduler = world.subscribe(framework("a"));
    assert_eq!(scheduler.id, "master-0000");
    let subscribed = world.events[&scheduler.connection][0].subscribed.clone().expect("SUBSCRIBED first");
    assert_eq!(subscribed.heartbeat_interval_seconds, Some(15.0));
    assert_eq!(subscribed.master_info.map(|info| info.id), Some("master".to_owned()));
    assert_eq!(kinds(&world.events[&scheduler.connection]), [event::Type::Subscribed, event::Type::Heartbeat]);
    world.pass_secs(31);
    assert_eq!(world.events[&scheduler.connection].len(), 4);
}

#[test]
fn bad_subscriptions_get_an_error_and_the_streams_end() {
    // M010, M026, M033, M034
    let role = |role: &str| v1::FrameworkInfo { role: Some(role.to_owned()), ..framework("a") };
    let mut both = in_roles("a", &["x"]);
    both.role = Some("x".to_owned());
    let cases = [
        ("leading slash", role("/test/test1")),
        ("endless failover", v1::FrameworkInfo { failover_timeout: Some(1e12), ..framework("a") }),
        ("endless negative failover", v1::FrameworkInfo { failover_timeout: Some(-1e12), ..framework("a") }),
        ("roles without MULTI_ROLE", v1::FrameworkInfo { roles: vec!["x".to_owned()], ..framework("a") }),
        ("role with MULTI_ROLE", both),
        ("duplicate roles", in_roles("a", &["x", "x"])),
        ("id with slash", v1::FrameworkInfo { id: Some("a/b".into()), ..framework("a") }),
    ];
    for (name, info) in cases {
        let mut world = World::new();
        let scheduler = world.subscribe(info);
        let events = world.read(&scheduler);
        assert_eq!(kinds(&events), [event::Type::Error], "{name}");
        assert!(world.closed.contains(&scheduler.connection), "{name}");
        assert!(
            world.response(v1::master::call::Type::GetFrameworks).get_frameworks.expect("set").frameworks.is_empty()
        );
    }
}

#[test]
fn an_empty_id_is_no_id() {
    // M025
    let mut world = World::new();
    let scheduler = world.subscribe(v1::FrameworkInfo { id: Some("".into()), ..framework("a") });
    assert_eq!(scheduler.id, "master-0000");
}

#[test]
fn a_second_subscription_takes_over_and_the_first_hears_of_it() {
    // M017, M024
    let mut world = World::new();
    let first = world.subscribe(framework("a"));
    let _agent = world.agent("cpus:2;mem:1024");
    let offer = world.offer(&first);
    let second = world.subscribe(again(framework("b"), &first));
    assert_eq!(second.id, first.id);
    assert_eq!(error_of(&world.read(&first)), "Framework failed over");
    assert!(world.closed.contains(&first.connection));
    let anew = world.offer(&second);
    assert_ne!(anew.id, offer.id);
    assert_eq!(offered(&anew), resources("cpus:2;mem:1024"));
    // The old stream's end means nothing any more.
    world.handle(Event::Disconnected { connection: first.connection });
    assert_eq!(world.simple(&second, Type::Revive).status, 202);
}

#[test]
fn calls_are_fenced_by_stream_id_and_subscription() {
    // M013, M014, M032
    let mut world = World::new();
    let first = world.subscribe(framework("a"));
    let teardown = || scheduler::Call { r#type: Some(Type::Teardown as i32), ..Default::default() };
    assert_eq!(world.call_as(&first, None, teardown()).status, 400);
    let second = world.subscribe(again(framework("a"), &first));
    let stale = first.stream_id.clone();
    assert_eq!(world.call_as(&second, Some(&stale), teardown()).status, 400);
    world.handle(Event::Disconnected { connection: second.connection });
    let current = second.stream_id.clone();
    let answer = world.call_as(&second, Some(&current), teardown());
    assert_eq!(answer, km_mesos_core::master::Answer::refused(403, "Framework is not subscribed"));
    let unknown = Scheduler { id: "nobody".to_owned(), ..second };
    let answer = world.call_as(&unknown, Some(&current), teardown());
    assert_eq!(answer, km_mesos_core::master::Answer::refused(400, "Framework cannot be found"));
}

#[test]
fn removed_frameworks_may_not_come_back() {
    // M019, M020
    let mut world = World::new();
    let torn = world.subscribe(framework("a"));
    assert_eq!(world.simple(&torn, Type::Teardown).status, 202);
    let retry = world.subscribe(again(framework("a"), &torn));
    assert_eq!(error_of(&world.read(&retry)), "Framework has been removed");

    let lost = world.subscribe(v1::FrameworkInfo { failover_timeout: Some(10.0), ..framework("a") });
    world.handle(Event::Disconnected { connection: lost.connection });
    world.pass_secs(9);
    assert_eq!(world.response(v1::master::call::Type::GetFrameworks).get_frameworks.expect("set").frameworks.len(), 1);
    world.pass_secs(2);
    let retry = world.subscribe(again(framework("a"), &lost));
    assert_eq!(error_of(&world.read(&retry)), "Framework has been removed");
}

#[test]
fn the_principal_stays_and_user_and_checkpoint_are_kept() {
    // M021, M023
    let mut world = World::new();
    let first = world.subscribe(v1::FrameworkInfo { principal: Some("p".to_owned()), ..framework("a") });
    let other = v1::FrameworkInfo { principal: Some("q".to_owned()), ..again(framework("a"), &first) };
    let refused = world.subscribe(other);
    assert_eq!(error_of(&world.read(&refused)), "Changing framework's principal is not allowed.");
    assert_eq!(world.simple(&first, Type::Revive).status, 202, "the old scheduler is left alone");
    let changed = v1::FrameworkInfo {
        principal: Some("p".to_owned()),
        user: "other".to_owned(),
        checkpoint: Some(false),
        ..again(framework("renamed"), &first)
    };
    world.subscribe(changed);
    let info = world.response(v1::master::call::Type::GetFrameworks).get_frameworks.expect("set").frameworks[0]
        .framework_info
        .clone();
    assert_eq!((info.name.as_str(), info.user.as_str(), info.checkpoint), ("renamed", "user", Some(true)));
}

fn update(world: &mut World, scheduler: &Scheduler, info: v1::FrameworkInfo, suppressed: &[&str]) -> (u16, String) {
    let update = scheduler::call::UpdateFramework {
        framework_info: info,
        suppressed_roles: suppressed.iter().map(|role| (*role).to_owned()).collect(),
        offer_constraints: None,
    };
    let call = scheduler::Call { update_framework: Some(update), ..Default::default() };
    let answer = world.call(scheduler, Type::UpdateFramework, call);
    let text = match answer.body {
        km_mesos_core::master::Body::Text(text) => text,
        _ => String::new(),
    };
    (answer.status, text)
}

#[test]
fn update_framework_refuses_what_is_immutable() {
    // M040 to M042
    let mut world = World::new();
    let scheduler = world.subscribe(v1::FrameworkInfo { principal: Some("p".to_owned()), ..framework("a") });
    let base = v1::FrameworkInfo { principal: Some("p".to_owned()), ..again(framework("new"), &scheduler) };
    let cases = [
        (v1::FrameworkInfo { user: "x".to_owned(), ..base.clone() }, "Updating 'FrameworkInfo.user' is unsupported"),
        (
            v1::FrameworkInfo { checkpoint: Some(false), ..base.clone() },
            "Updating 'FrameworkInfo.checkpoint' is unsupported",
        ),
        (
            v1::FrameworkInfo { principal: Some("q".to_owned()), ..base },
            "Changing framework's principal is not allowed",
        ),
    ];
    for (info, text) in cases {
        let (status, reason) = update(&mut world, &scheduler, info, &[]);
        assert_eq!(status, 400);
        assert!(reason.contains(text), "{reason}");
    }
    let frameworks = world.response(v1::master::call::Type::GetFrameworks).get_frameworks.expect("set");
    assert_eq!(frameworks.frameworks[0].framework_info.name, "a");
}

#[test]
fn roles_come_and_go_by_update_framework() {
    // M045, M046, M047
    let mut world = World::new();
    let scheduler = world.subscribe(in_roles("a", &[]));
    world.agent("cpus:2;mem:1024");
    world.pass_secs(2);
    assert!(world.offers(&scheduler).is_empty());
    let with_role = again(in_roles("a", &["r"]), &scheduler);
    assert_eq!(update(&mut world, &scheduler, with_role.clone(), &["r"]).0, 200);
    world.pass_secs(2);
    assert!(world.offers(&scheduler).is_empty(), "a suppressed role gets nothing");
    assert_eq!(update(&mut world, &scheduler, with_role, &[]).0, 200);
    let offer = world.offer(&scheduler);
    let without = again(in_roles("a", &[]), &scheduler);
    assert_eq!(update(&mut world, &scheduler, without, &[]).0, 200);
    world.pass_secs(2);
    let events = world.read(&scheduler);
    assert_eq!(kinds(&events), [event::Type::Rescind]);
    assert_eq!(events[0].rescind.as_ref().map(|rescind| &rescind.offer_id), Some(&offer.id));
}

#[test]
fn teardown_ends_executors_and_marks_tasks_killed_without_updates() {
    // M028, M201
    let mut world = World::new();
    let scheduler = world.subscribe(framework("a"));
    let agent = world.agent("cpus:2;mem:1024");
    let offer = world.offer(&scheduler);
    world.accept(&scheduler, &[&offer], vec![launch(vec![task("t", &offer, "cpus:1;mem:100")])]);
    world.status(&scheduler, &agent, "t", TaskState::TaskRunning, [1; 16]);
    world.read(&scheduler);
    world.read_agent(&agent);
    world.simple(&scheduler, Type::Teardown);
    assert!(world.read(&scheduler).is_empty());
    let shutdown = km_mesos_core::link::MasterMessage::ShutdownFramework { framework_id: scheduler.id.as_str().into() };
    assert!(world.read_agent(&agent).contains(&shutdown));
    let tasks = world.response(v1::master::call::Type::GetTasks).get_tasks.expect("set");
    assert!(tasks.tasks.is_empty());
    assert_eq!(tasks.completed_tasks[0].state(), TaskState::TaskKilled);
    let other = world.subscribe(framework("b"));
    assert_eq!(offered(&world.offer(&other)), resources("cpus:2;mem:1024"), "all resources are back (M055)");
}
