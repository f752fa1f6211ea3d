//! The agent dies and comes back.

use std::time::Duration;

use km_mesos_proto::v1::{
    TaskState::*,
    executor::{call, event::Type},
    framework_info::capability,
    task_status::{Reason, Source},
};

use super::{
    super::{Action, Event, Recovered},
    bench::*,
};

fn connects(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Connect { .. }))
}

/// An executor with a running task. Returns its container.
fn running(bench: &mut Bench) -> String {
    let container = launched(&bench.run(vec![custom("a", "e")])).remove(0);
    bench.subscribe("e", 1);
    let actions = bench.update("e", "a", TaskRunning, 1);
    assert_eq!(bench.acknowledge_all("a", &actions), [TaskRunning]);
    container
}

#[test]
fn an_executor_that_subscribes_again_goes_on() {
    let mut bench = Bench::registered();
    running(&mut bench);
    assert!(!connects(&bench.restart(&[])));
    assert_eq!(bench.agent.check(&update_call("e", "a", TaskRunning, 2)).unwrap_err().status, 503);
    let actions = bench.subscribe("e", 2);
    assert_eq!(told(&actions), [(2, Type::Subscribed)]);
    // Nobody else is waited for.
    assert!(connects(&actions));
    assert_eq!(said(&bench.register()), []);
    assert_eq!(told(&bench.kill("a")), [(2, Type::Kill)]);
    let actions = bench.update("e", "a", TaskKilled, 3);
    assert_eq!(bench.acknowledge_all("a", &actions), [TaskKilled]);
}

#[test]
fn the_agent_comes_back_under_its_id() {
    let mut bench = Bench::registered();
    let actions = bench.restart(&[]);
    let Some(Action::Connect { register, .. }) = actions.first() else { panic!("{actions:?}") };
    let crate::link::AgentMessage::Register { info, .. } = register.as_ref() else { panic!("{register:?}") };
    assert_eq!(info.id.as_ref().unwrap().value, AGENT);
}

#[test]
fn a_silent_executor_is_ended_and_its_tasks_are_lost() {
    for (aware, state) in [(false, TaskLost), (true, TaskGone)] {
        let mut bench = Bench::registered();
        if aware {
            bench = bench.with_capability(capability::Type::PartitionAware);
        }
        let container = running(&mut bench);
        bench.restart(&[]);
        let actions = bench.pass(Duration::from_secs(2));
        assert_eq!(destroyed(&actions), std::slice::from_ref(&container));
        assert!(connects(&actions));
        bench.register();
        let actions = bench.feed(Event::Exited { container, status: None });
        let reason = Some(Reason::ExecutorReregistrationTimeout);
        assert_eq!(said(&actions), [("a".to_owned(), state, Source::Agent, reason)]);
    }
}

#[test]
fn an_executor_that_died_meanwhile_fails_its_tasks() {
    let mut bench = Bench::registered();
    let container = running(&mut bench);
    assert!(connects(&bench.restart(&[container])));
    let reason = Some(Reason::ExecutorTerminated);
    assert_eq!(said(&bench.register()), [("a".to_owned(), TaskFailed, Source::Agent, reason)]);
}

#[test]
fn an_update_that_reached_nobody_arrives_after_the_restart() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    bench.subscribe("e", 1);
    bench.update("e", "a", TaskRunning, 1);
    bench.restart(&[]);
    bench.subscribe("e", 2);
    assert_eq!(said(&bench.register()), [("a".to_owned(), TaskRunning, Source::Executor, None)]);
}

#[test]
fn a_task_that_was_never_delivered_is_dropped_and_the_idle_executor_sent_away() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    bench.restart(&[]);
    let actions = bench.subscribe("e", 1);
    assert_eq!(told(&actions), [(1, Type::Subscribed), (1, Type::Shutdown)]);
    assert_eq!(said(&bench.register()), [("a".to_owned(), TaskLost, Source::Agent, Some(Reason::AgentRestarted))]);
}

#[test]
fn a_kill_while_the_executor_is_away_reaches_it() {
    let mut bench = Bench::registered();
    running(&mut bench);
    bench.restart(&[]);
    bench.call(subscribe_call("e", call::Subscribe::default()), Some(2)).unwrap();
    bench.register();
    bench.feed(Event::StreamClosed { connection: 2 });
    bench.kill("a");
    assert_eq!(told(&bench.subscribe("e", 3)), [(3, Type::Subscribed), (3, Type::Kill)]);
}

#[test]
fn without_checkpoint_nothing_is_written_and_nothing_comes_back() {
    let mut bench = Bench::registered().without_checkpoint();
    running(&mut bench);
    assert!(bench.files.keys().all(|path| path == "agent"), "{:?}", bench.files.keys());
    bench.restart(&[]);
    assert!(bench.agent.get_frameworks().frameworks.is_empty());
}

#[test]
fn a_damaged_checkpoint_is_named() {
    let mut bench = Bench::registered();
    running(&mut bench);
    let files: Vec<_> = bench.files.keys().map(|path| (path.clone(), b"{".to_vec())).collect();
    for file in files {
        let error = Recovered::read(std::slice::from_ref(&file)).unwrap_err().to_string();
        assert!(error.contains(&file.0), "{error}");
    }
}

#[test]
fn what_ran_is_what_the_shell_is_asked_about() {
    let mut bench = Bench::registered();
    let container = running(&mut bench);
    let command = launched(&bench.run(vec![command("c")])).remove(0);
    let files: Vec<_> = bench.files.clone().into_iter().collect();
    let mut expected = vec![container, command];
    let mut asked = Recovered::read(&files).unwrap().containers();
    expected.sort();
    asked.sort();
    assert_eq!(asked, expected);
}

/// The registration under way lists the executor, so the master must hear of its end after it.
#[test]
fn the_end_of_an_executor_during_registration_is_told_after_it() {
    let mut bench = Bench::registered();
    let container = running(&mut bench);
    bench.restart(&[]);
    assert!(connects(&bench.pass(Duration::from_secs(2))));
    assert_eq!(exits(&bench.feed(Event::Exited { container, status: Some(9) })), []);
    assert_eq!(exits(&bench.register()), [("e".to_owned(), 9)]);
}
