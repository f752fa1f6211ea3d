//! The status update manager: order, retries, duplicates, acknowledgements.

use std::time::Duration;

use km_mesos_proto::v1::TaskState::{self, *};

use super::{
    super::{Action, Event},
    bench::*,
};
use crate::link::{AgentMessage, MasterMessage};

fn running() -> Bench {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    bench.subscribe("e", 1);
    bench
}

fn states(actions: &[Action]) -> Vec<TaskState> {
    said(actions).into_iter().map(|(_, state, ..)| state).collect()
}

#[test]
fn one_update_is_in_flight_and_it_tells_the_latest_state() {
    let mut bench = running();
    assert_eq!(states(&bench.update("e", "a", TaskRunning, 1)), [TaskRunning]);
    assert_eq!(states(&bench.update("e", "a", TaskFinished, 2)), []);
    let actions = bench.pass(Duration::from_secs(10));
    let Some(Action::Send(message)) = actions.first() else { panic!("{actions:?}") };
    let AgentMessage::Update { status, latest_state, .. } = message.as_ref() else { panic!("{message:?}") };
    assert_eq!((status.state(), *latest_state), (TaskRunning, TaskFinished));
    assert_eq!(states(&bench.acknowledge("a", vec![1; 16])), [TaskFinished]);
    assert_eq!(states(&bench.acknowledge("a", vec![2; 16])), []);
    assert!(bench.agent.get_tasks().launched_tasks.is_empty());
    assert_eq!(bench.agent.get_tasks().completed_tasks.len(), 1);
}

#[test]
fn retries_double_up_to_ten_minutes() {
    let mut bench = running();
    bench.update("e", "a", TaskRunning, 1);
    for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
        // Pings keep the link open meanwhile.
        bench.master(MasterMessage::Ping);
        bench.now += Duration::from_secs(seconds) - Duration::from_millis(1);
        bench.master(MasterMessage::Ping);
        assert_eq!(states(&bench.feed(Event::Tick)), [], "{seconds}");
        assert_eq!(states(&bench.pass(Duration::from_millis(1))), [TaskRunning], "{seconds}");
    }
}

#[test]
fn acknowledgements_that_do_not_fit_are_ignored() {
    let mut bench = running();
    bench.update("e", "a", TaskStarting, 1);
    bench.update("e", "a", TaskRunning, 2);
    assert_eq!(bench.acknowledge("a", vec![9; 16]), []);
    assert_eq!(bench.acknowledge("a", vec![2; 16]), []);
    assert_eq!(bench.acknowledge("x", vec![1; 16]), []);
    assert_eq!(states(&bench.acknowledge("a", vec![1; 16])), [TaskRunning]);
    assert_eq!(bench.acknowledge("a", vec![1; 16]), []);
}

#[test]
fn duplicates_are_confirmed_to_the_executor_and_not_forwarded() {
    let mut bench = running();
    bench.update("e", "a", TaskRunning, 1);
    let again = bench.update("e", "a", TaskRunning, 1);
    assert_eq!((states(&again), told(&again).len()), (vec![], 1));
    bench.acknowledge("a", vec![1; 16]);
    let late = bench.update("e", "a", TaskRunning, 1);
    assert_eq!((states(&late), told(&late).len()), (vec![], 1));
}

#[test]
fn after_a_terminal_update_another_counts_only_once_that_is_acknowledged() {
    let mut bench = running();
    let finished = bench.update("e", "a", TaskFinished, 1);
    assert_eq!(states(&bench.update("e", "a", TaskKilled, 2)), []);
    assert_eq!(bench.acknowledge_all("a", &finished), [TaskFinished]);
    let late = bench.update("e", "a", TaskKilled, 3);
    assert_eq!(bench.acknowledge_all("a", &late), [TaskKilled]);
    let known = bench.agent.get_tasks();
    assert_eq!(known.completed_tasks.len(), 1);
    assert_eq!(known.completed_tasks[0].state(), TaskFinished);
}

#[test]
fn an_update_is_on_disk_before_anybody_hears_of_it() {
    let mut bench = running();
    let actions = bench.update("e", "a", TaskRunning, 1);
    let position = |wanted: &dyn Fn(&Action) -> bool| actions.iter().position(wanted).unwrap();
    let written = position(&|action| matches!(action, Action::Write { .. }));
    assert!(written < position(&|action| matches!(action, Action::Send(_))));
    assert!(written < position(&|action| matches!(action, Action::SendEvent { .. })));
}

#[test]
fn what_is_in_flight_is_sent_to_every_new_master() {
    let mut bench = running();
    bench.update("e", "a", TaskRunning, 1);
    let link = bench.link;
    bench.feed(Event::LinkClosed { link, reason: "gone".to_owned() });
    assert_eq!(
        bench.update("e", "a", TaskFinished, 2).iter().filter(|action| matches!(action, Action::Send(_))).count(),
        0
    );
    let connect = bench.pass(Duration::from_secs(60));
    let Some(Action::Connect { register, .. }) = connect.first() else { panic!("{connect:?}") };
    let AgentMessage::Register { tasks, executors, frameworks, .. } = register.as_ref() else { panic!("{register:?}") };
    assert_eq!((tasks.len(), executors.len(), frameworks.len()), (1, 1, 1));
    assert_eq!(tasks[0].state(), TaskFinished);
    assert_eq!(tasks[0].status_update_state(), TaskRunning);
    assert_eq!(tasks[0].status_update_uuid(), vec![1; 16]);
    assert_eq!(states(&bench.register()), [TaskRunning]);
}
