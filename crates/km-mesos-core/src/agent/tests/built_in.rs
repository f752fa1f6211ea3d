//! Tasks that the agent runs itself.

use std::time::Duration;

use km_mesos_proto::v1::{
    self,
    TaskState::{self, *},
    framework_info::capability,
    task_status::{Reason, Source},
};

use super::{
    super::{Action, Event},
    bench::*,
};
use crate::link::MasterMessage;

/// A command task that runs, with the updates so far acknowledged. Returns its container.
fn running(bench: &mut Bench, task: v1::TaskInfo) -> String {
    let name = task.task_id.value.clone();
    let container = launched(&bench.run(vec![task])).remove(0);
    let actions = bench.feed(Event::Launched { container: container.clone(), pid: 7 });
    assert_eq!(bench.acknowledge_all(&name, &actions), [TaskStarting, TaskRunning]);
    container
}

#[test]
fn a_command_runs_and_its_exit_status_decides() {
    for (status, state, reason, message) in [
        (0, TaskFinished, None, "Command exited with status 0"),
        (3 << 8, TaskFailed, Some(Reason::CommandExecutorFailed), "Command exited with status 3"),
        (9, TaskFailed, Some(Reason::CommandExecutorFailed), "Command terminated with signal Killed"),
    ] {
        let mut bench = Bench::registered();
        let container = running(&mut bench, command("t"));
        let actions = bench.feed(Event::Exited { container, status: Some(status) });
        assert_eq!(said(&actions), [("t".to_owned(), state, Source::Executor, reason)]);
        assert_eq!(statuses(&actions)[0].message(), message);
        // An executor that the agent made up is nobody's business.
        assert_eq!(exits(&actions), []);
        assert_eq!(bench.acknowledge_all("t", &actions), [state]);
        assert!(bench.agent.get_executors().executors.is_empty());
        assert!(bench.files.keys().all(|path| path == "agent"), "{:?}", bench.files.keys());
    }
}

#[test]
fn a_kill_is_soft_first() {
    let policy =
        |seconds: i64| v1::KillPolicy { grace_period: Some(v1::DurationInfo { nanoseconds: seconds * 1_000_000_000 }) };
    for (own, override_, grace) in [(None, None, 3), (Some(policy(7)), None, 7), (Some(policy(7)), Some(policy(1)), 1)]
    {
        let mut bench = Bench::registered();
        let container = running(&mut bench, v1::TaskInfo { kill_policy: own, ..command("t") });
        let framework_id = v1::FrameworkId { value: FRAMEWORK.to_owned() };
        let task_id = v1::TaskId { value: "t".to_owned() };
        let kill = MasterMessage::KillTask { framework_id, task_id, kill_policy: override_ };
        assert!(bench.master(kill.clone()).contains(&Action::Signal { container: container.clone() }));
        assert_eq!(bench.master(kill), []);
        assert_eq!(bench.pass(Duration::from_secs(grace) - Duration::from_millis(1)), []);
        assert_eq!(destroyed(&bench.pass(Duration::from_millis(1))), std::slice::from_ref(&container));
        let actions = bench.feed(Event::Exited { container, status: Some(0) });
        assert_eq!(said(&actions), [("t".to_owned(), TaskKilled, Source::Executor, None)]);
    }
}

#[test]
fn killing_is_told_to_those_who_know_it() {
    let mut bench = Bench::registered().with_capability(capability::Type::TaskKillingState);
    let container = running(&mut bench, command("t"));
    let killing = bench.kill("t");
    assert_eq!(said(&killing)[0].1, TaskKilling);
    bench.feed(Event::Exited { container, status: Some(15) });
    assert_eq!(bench.acknowledge_all("t", &killing), [TaskKilling, TaskKilled]);
}

#[test]
fn a_command_killed_before_its_start_never_starts() {
    let mut bench = Bench::registered();
    let container = launched(&bench.run(vec![command("t")])).remove(0);
    let actions = bench.kill("t");
    let reason = Some(Reason::TaskKilledDuringLaunch);
    assert_eq!(said(&actions), [("t".to_owned(), TaskKilled, Source::Agent, reason)]);
    assert_eq!(destroyed(&actions), std::slice::from_ref(&container));
    assert_eq!(said(&bench.feed(Event::LaunchFailed { container, message: "destroyed".to_owned() })), []);
    assert_eq!(bench.acknowledge_all("t", &actions), [TaskKilled]);
}

#[test]
fn a_command_that_runs_too_long_fails() {
    let mut bench = Bench::registered().with_capability(capability::Type::TaskKillingState);
    let limit = Some(v1::DurationInfo { nanoseconds: 4_000_000_000 });
    let container = running(&mut bench, v1::TaskInfo { max_completion_time: limit, ..command("t") });
    assert_eq!(bench.pass(Duration::from_secs(4)).last(), Some(&Action::Signal { container: container.clone() }));
    let actions = bench.feed(Event::Exited { container, status: Some(15) });
    assert_eq!(said(&actions)[0].3, Some(Reason::MaxCompletionTimeReached));
}

#[test]
fn a_command_outlives_the_agent_but_its_exit_status_does_not() {
    let mut bench = Bench::registered();
    let container = running(&mut bench, command("t"));
    bench.restart(&[]);
    assert_eq!(said(&bench.register()), []);
    let actions = bench.feed(Event::Exited { container, status: None });
    assert_eq!(said(&actions), [("t".to_owned(), TaskFailed, Source::Agent, Some(Reason::ExecutorTerminated))]);
    assert_eq!(statuses(&actions)[0].message(), "Command exit status unknown");
}

#[test]
fn a_kill_goes_on_after_a_restart() {
    let mut bench = Bench::registered();
    let container = running(&mut bench, command("t"));
    bench.kill("t");
    assert!(bench.restart(&[]).contains(&Action::Signal { container: container.clone() }));
    bench.register();
    assert_eq!(destroyed(&bench.pass(Duration::from_secs(3))), [container]);
}

#[test]
fn a_default_executors_group_lives_and_dies_together() {
    let group = |bench: &mut Bench| {
        let executor = v1::ExecutorInfo { r#type: Some(v1::executor_info::Type::Default.into()), ..executor_info("e") };
        let tasks = vec![command("a"), command("b")];
        let framework = bench.framework.clone();
        let run = MasterMessage::RunTaskGroup { framework, executor, group: v1::TaskGroupInfo { tasks } };
        let containers = launched(&bench.master(run));
        for (task, container) in ["a", "b"].into_iter().zip(&containers) {
            let actions = bench.feed(Event::Launched { container: container.clone(), pid: 7 });
            assert_eq!(bench.acknowledge_all(task, &actions), [TaskStarting, TaskRunning]);
        }
        containers
    };
    let state = |actions: &[Action]| {
        said(actions).into_iter().map(|(id, state, ..)| (id, state)).collect::<Vec<(String, TaskState)>>()
    };

    let mut bench = Bench::registered();
    let containers = group(&mut bench);
    let first = bench.feed(Event::Exited { container: containers[0].clone(), status: Some(0) });
    assert_eq!(state(&first), [("a".to_owned(), TaskFinished)]);
    assert!(!first.iter().any(|action| matches!(action, Action::Signal { .. })));
    let second = bench.feed(Event::Exited { container: containers[1].clone(), status: Some(0) });
    assert_eq!(exits(&second), [("e".to_owned(), 0)]);

    let mut bench = Bench::registered();
    let containers = group(&mut bench);
    let first = bench.feed(Event::Exited { container: containers[0].clone(), status: Some(256) });
    assert_eq!(state(&first), [("a".to_owned(), TaskFailed)]);
    assert!(first.contains(&Action::Signal { container: containers[1].clone() }));
    let second = bench.feed(Event::Exited { container: containers[1].clone(), status: Some(15) });
    assert_eq!(state(&second), [("b".to_owned(), TaskKilled)]);
    assert_eq!(exits(&second), [("e".to_owned(), 0)]);
}
