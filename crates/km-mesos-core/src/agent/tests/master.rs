//! The link to the master, and the ends of frameworks and of the agent.

use std::time::Duration;

use km_mesos_proto::v1::{self, TaskState::*, executor::event::Type};

use super::{
    super::{Action, Event},
    bench::*,
};
use crate::link::{AgentMessage, MasterMessage};

fn connects(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Connect { .. }))
}

fn framework_id() -> v1::FrameworkId {
    v1::FrameworkId { value: FRAMEWORK.to_owned() }
}

#[test]
fn failed_connections_are_tried_again_later_and_later() {
    let mut bench = Bench::started();
    let mut longest = Duration::ZERO;
    for attempt in 0..12 {
        let link = bench.link;
        assert_eq!(bench.feed(Event::LinkClosed { link, reason: "refused".to_owned() }), []);
        let wait = bench.agent.next_deadline().unwrap() - bench.now;
        assert!(wait <= Duration::from_secs(1) * (1 << attempt).min(60), "{attempt}: {wait:?}");
        longest = longest.max(wait);
        assert!(connects(&bench.pass(wait)), "{attempt}");
    }
    assert!(longest > Duration::from_secs(1));
    bench.register();
    assert!(bench.agent.is_registered());
}

#[test]
fn silence_is_a_broken_link_and_pings_are_answered() {
    let mut bench = Bench::registered();
    for _ in 0..3 {
        bench.now += Duration::from_secs(74);
        assert_eq!(bench.master(MasterMessage::Ping), [Action::Send(Box::new(AgentMessage::Pong))]);
    }
    assert_eq!(bench.pass(Duration::from_secs(75)), [Action::Disconnect]);
    assert!(!bench.agent.is_registered());
    assert!(connects(&bench.pass(Duration::from_secs(60))));
}

#[test]
fn a_master_that_does_not_answer_a_registration_is_given_up() {
    let mut bench = Bench::started();
    assert_eq!(bench.pass(Duration::from_secs(15)), [Action::Disconnect]);
}

#[test]
fn what_comes_on_an_old_link_is_ignored() {
    let mut bench = Bench::registered();
    let old = bench.link;
    bench.feed(Event::LinkClosed { link: old, reason: "gone".to_owned() });
    bench.pass(Duration::from_secs(60));
    assert_ne!(bench.link, old);
    assert_eq!(bench.feed(Event::Master { link: old, message: MasterMessage::Ping }), []);
    assert_eq!(bench.feed(Event::LinkClosed { link: old, reason: "gone".to_owned() }), []);
    bench.register();
    assert!(bench.agent.is_registered());
}

#[test]
fn a_removed_framework_is_shut_down_in_silence() {
    let mut bench = Bench::registered();
    let custom_container = launched(&bench.run(vec![custom("a", "e")])).remove(0);
    let command_container = launched(&bench.run(vec![command("c")])).remove(0);
    bench.feed(Event::Launched { container: command_container.clone(), pid: 7 });
    bench.subscribe("e", 1);
    bench.update("e", "a", TaskRunning, 1);
    let actions = bench.master(MasterMessage::ShutdownFramework { framework_id: framework_id() });
    assert_eq!(told(&actions), [(1, Type::Shutdown)]);
    assert!(actions.contains(&Action::Signal { container: command_container.clone() }));
    assert_eq!(told(&bench.update("e", "a", TaskKilled, 2)), [(1, Type::Acknowledged)]);
    assert_eq!(destroyed(&bench.pass(Duration::from_secs(5))).len(), 2);
    for container in [custom_container, command_container] {
        assert_eq!(said(&bench.feed(Event::Exited { container, status: Some(9) })), []);
    }
    assert!(bench.agent.get_frameworks().frameworks.is_empty());
    let completed = bench.agent.get_tasks().completed_tasks;
    assert_eq!(completed.iter().map(v1::Task::state).collect::<Vec<_>>(), [TaskKilled, TaskKilled]);
    assert!(bench.files.keys().all(|path| path == "agent"));
}

#[test]
fn a_stopped_agent_kills_everything_unregisters_and_forgets_its_id() {
    let mut bench = Bench::registered();
    let container = launched(&bench.run(vec![custom("a", "e")])).remove(0);
    bench.subscribe("e", 1);
    let actions = bench.feed(Event::Shutdown);
    assert_eq!((told(&actions), ended(&actions)), (vec![(1, Type::Shutdown)], false));
    assert_eq!(bench.run(vec![custom("b", "e")]), []);
    let actions = bench.feed(Event::Exited { container, status: Some(0) });
    assert!(actions.contains(&Action::Send(Box::new(AgentMessage::Unregister))));
    assert!(ended(&actions));
    assert!(bench.files.is_empty());
}

#[test]
fn an_idle_agent_stops_at_once_even_without_a_master() {
    assert!(ended(&Bench::registered().feed(Event::Shutdown)));
    let actions = Bench::started().feed(Event::Shutdown);
    assert!(ended(&actions));
    assert!(!actions.iter().any(|action| matches!(action, Action::Send(_))));
}

#[test]
fn an_agent_that_is_refused_kills_everything_and_ends() {
    let mut bench = Bench::registered();
    let container = launched(&bench.run(vec![custom("a", "e")])).remove(0);
    let actions = bench.master(MasterMessage::Refused { message: "gone".to_owned() });
    assert_eq!(destroyed(&actions), std::slice::from_ref(&container));
    let actions = bench.feed(Event::LaunchFailed { container, message: "destroyed".to_owned() });
    assert!(ended(&actions));
    assert!(!actions.contains(&Action::Send(Box::new(AgentMessage::Unregister))), "{actions:?}");
}

#[test]
fn a_framework_cannot_change_whether_it_is_checkpointed() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    let framework = v1::FrameworkInfo { checkpoint: Some(false), name: "new".to_owned(), ..bench.framework.clone() };
    bench.master(MasterMessage::UpdateFramework { framework });
    let known = bench.agent.get_frameworks().frameworks.remove(0).framework_info;
    assert_eq!((known.name.as_str(), known.checkpoint()), ("new", true));
}

#[test]
fn changed_resources_survive_a_restart() {
    let mut bench = Bench::registered();
    let resources = vec![v1::Resource { name: "cpus".to_owned(), ..Default::default() }];
    bench.master(MasterMessage::CheckpointResources { resources: resources.clone() });
    bench.restart(&[]);
    assert_eq!(bench.agent.resources(), resources);
}
