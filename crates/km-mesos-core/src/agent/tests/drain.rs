//! Draining: tasks are killed for that reason, new ones are refused, a restart changes nothing (M274, M275).

use km_mesos_proto::v1::{
    DrainConfig, TaskState::*, executor::event::Type, framework_info::capability, task_status::Reason,
};

use super::bench::*;
use crate::link::MasterMessage;

fn drain(bench: &mut Bench, mark_gone: bool) -> Vec<super::super::Action> {
    bench.master(MasterMessage::Drain { config: DrainConfig { max_grace_period: None, mark_gone: Some(mark_gone) } })
}

fn reasons(actions: &[super::super::Action]) -> Vec<(String, km_mesos_proto::v1::TaskState, Option<Reason>)> {
    said(actions).into_iter().map(|(task, state, _, reason)| (task, state, reason)).collect()
}

#[test]
fn what_runs_is_killed_and_what_comes_is_refused() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("running", "e")]);
    bench.subscribe("e", 1);
    bench.run(vec![custom("queued", "late")]);
    let actions = drain(&mut bench, false);
    assert_eq!(told(&actions), [(1, Type::Kill)]);
    let because = Some(Reason::AgentDraining);
    assert_eq!(reasons(&actions), [("queued".to_owned(), TaskKilled, because)]);
    let actions = bench.update("e", "running", TaskKilled, 1);
    assert_eq!(reasons(&actions), [("running".to_owned(), TaskKilled, because)]);
    let actions = bench.run(vec![custom("new", "e")]);
    assert_eq!(reasons(&actions), [("new".to_owned(), TaskLost, because)]);
    assert!(bench.agent.draining().is_some());
}

#[test]
fn an_agent_that_goes_for_good_says_so_to_those_who_understand() {
    for (aware, state) in [(true, TaskGoneByOperator), (false, TaskKilled)] {
        let mut bench = Bench::registered();
        if aware {
            bench = bench.with_capability(capability::Type::PartitionAware);
        }
        bench.run(vec![custom("t", "e")]);
        let actions = drain(&mut bench, true);
        assert_eq!(reasons(&actions), [("t".to_owned(), state, Some(Reason::AgentDraining))]);
    }
}

#[test]
fn it_ends_with_the_last_framework_and_not_with_a_restart() {
    let mut bench = Bench::registered();
    let container = launched(&bench.run(vec![custom("t", "e")])).remove(0);
    bench.subscribe("e", 1);
    bench.update("e", "t", TaskRunning, 0);
    bench.acknowledge("t", vec![0; 16]);
    drain(&mut bench, false);
    bench.restart(&[]);
    bench.subscribe("e", 2);
    bench.register();
    let actions = bench.update("e", "t", TaskKilled, 1);
    assert_eq!(reasons(&actions), [("t".to_owned(), TaskKilled, Some(Reason::AgentDraining))]);
    bench.acknowledge("t", vec![1; 16]);
    assert!(bench.agent.draining().is_some(), "the executor is still there");
    bench.feed(super::super::Event::Exited { container, status: Some(0) });
    assert!(bench.agent.draining().is_none());
    assert!(!launched(&bench.run(vec![custom("next", "e")])).is_empty());
}
