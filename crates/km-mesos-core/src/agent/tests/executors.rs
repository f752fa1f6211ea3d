//! Custom executors: launch, delivery, kill, shutdown, exit, and the checks of the executor API.

use std::time::Duration;

use km_mesos_proto::v1::{
    self,
    TaskState::*,
    executor::{call, event::Type},
    framework_info::capability,
    task_status::{Reason, Source},
};

use super::{
    super::{Action, Event},
    bench::*,
};
use crate::link::MasterMessage;

fn task(id: &str) -> String {
    id.to_owned()
}

#[test]
fn tasks_wait_for_their_executor_and_later_ones_go_to_it_at_once() {
    let mut bench = Bench::registered();
    let actions = bench.run(vec![custom("a", "e"), custom("b", "e")]);
    let containers = launched(&actions);
    assert_eq!(containers.len(), 1);
    bench.feed(Event::Launched { container: containers[0].clone(), pid: 7 });
    assert_eq!(told(&bench.subscribe("e", 1)), [(1, Type::Subscribed), (1, Type::Launch), (1, Type::Launch)]);
    let actions = bench.run(vec![custom("c", "e")]);
    assert_eq!((launched(&actions).len(), told(&actions)), (0, vec![(1, Type::Launch)]));
    assert_eq!(told(&bench.run_group("e", &["d", "f"])), [(1, Type::LaunchGroup)]);
}

#[test]
fn a_repeated_order_runs_nothing_twice() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    bench.subscribe("e", 1);
    assert_eq!(bench.run(vec![custom("a", "e")]), []);
    let actions = bench.update("e", "a", TaskFinished, 1);
    assert_eq!(bench.acknowledge_all("a", &actions), [TaskFinished]);
    assert_eq!(bench.run(vec![custom("a", "e")]), []);
}

#[test]
fn the_environment_leads_an_executor_to_its_agent() {
    let mut bench = Bench::registered();
    let mut info = custom("a", "e");
    let variable = |name: &str| v1::environment::Variable {
        name: name.to_owned(),
        value: Some("own".to_owned()),
        ..Default::default()
    };
    let environment = v1::Environment { variables: vec![variable("HELLO"), variable("MESOS_SLAVE_ID")] };
    info.executor.as_mut().unwrap().command.as_mut().unwrap().environment = Some(environment);
    let actions = bench.run(vec![info]);
    let launch = actions.iter().find_map(|action| match action {
        Action::Launch(launch) => Some(launch),
        _ => None,
    });
    let launch = launch.unwrap();
    let value = |name: &str| launch.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let sandbox = format!("/work/slaves/S0/frameworks/fw/executors/e/runs/{}", launch.container);
    assert_eq!(launch.sandbox, sandbox);
    for (name, expected) in [
        ("HELLO", "own"),
        ("MESOS_SLAVE_ID", "S0"),
        ("MESOS_FRAMEWORK_ID", "fw"),
        ("MESOS_EXECUTOR_ID", "e"),
        ("MESOS_DIRECTORY", &sandbox),
        ("MESOS_SANDBOX", &sandbox),
        ("MESOS_AGENT_ENDPOINT", "127.0.0.1:5051"),
        ("MESOS_SLAVE_PID", "slave(1)@127.0.0.1:5051"),
        ("MESOS_CHECKPOINT", "1"),
        ("MESOS_RECOVERY_TIMEOUT", "15mins"),
        ("MESOS_SUBSCRIPTION_BACKOFF_MAX", "2secs"),
        ("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", "5secs"),
    ] {
        assert_eq!(value(name), Some(expected), "{name}");
    }
}

#[test]
fn an_executor_that_never_subscribes_is_ended() {
    let mut bench = Bench::registered();
    let container = launched(&bench.run(vec![custom("a", "e")])).remove(0);
    bench.feed(Event::Launched { container: container.clone(), pid: 7 });
    assert_eq!(destroyed(&bench.pass(Duration::from_secs(59))), Vec::<String>::new());
    assert_eq!(destroyed(&bench.pass(Duration::from_secs(1))), std::slice::from_ref(&container));
    let actions = bench.feed(Event::Exited { container, status: Some(9) });
    let reason = Reason::ExecutorRegistrationTimeout;
    assert_eq!(said(&actions), [(task("a"), TaskFailed, Source::Agent, Some(reason))]);
    assert_eq!(exits(&actions), [("e".to_owned(), 9)]);
}

#[test]
fn a_launch_that_fails_or_takes_too_long_fails_the_task() {
    let mut bench = Bench::registered();
    let reason = Some(Reason::ContainerLaunchFailed);
    let container = launched(&bench.run(vec![custom("a", "e")])).remove(0);
    let actions = bench.feed(Event::LaunchFailed { container, message: "no disk".to_owned() });
    assert_eq!(said(&actions), [(task("a"), TaskFailed, Source::Agent, reason)]);
    assert_eq!(exits(&actions), [("e".to_owned(), -1)]);

    let container = launched(&bench.run(vec![custom("b", "e")])).remove(0);
    assert_eq!(destroyed(&bench.pass(Duration::from_secs(60))), std::slice::from_ref(&container));
    let actions = bench.feed(Event::LaunchFailed { container, message: "destroyed".to_owned() });
    assert_eq!(said(&actions), [(task("b"), TaskFailed, Source::Agent, reason)]);
}

#[test]
fn an_executors_exit_fails_its_tasks_and_a_new_one_can_come() {
    let mut bench = Bench::registered();
    let container = launched(&bench.run(vec![custom("a", "e"), custom("b", "e")])).remove(0);
    bench.subscribe("e", 1);
    let finished = bench.update("e", "b", TaskFinished, 1);
    let actions = bench.feed(Event::Exited { container, status: Some(256) });
    assert_eq!(said(&actions), [(task("a"), TaskFailed, Source::Agent, Some(Reason::ExecutorTerminated))]);
    assert_eq!(exits(&actions), [("e".to_owned(), 256)]);
    assert!(actions.contains(&Action::CloseStream { connection: 1 }));
    assert_eq!(launched(&bench.run(vec![custom("c", "e")])).len(), 1);
    assert_eq!(bench.acknowledge_all("b", &finished), [TaskFinished]);
}

#[test]
fn a_queued_task_is_killed_with_its_group_and_the_idle_executor_is_sent_away() {
    let mut bench = Bench::registered();
    let container = launched(&bench.run_group("e", &["a", "b"])).remove(0);
    let actions = bench.kill("b");
    let reason = Some(Reason::TaskKilledDuringLaunch);
    let killed = |id| (task(id), TaskKilled, Source::Agent, reason);
    assert_eq!(said(&actions), [killed("a"), killed("b")]);
    assert_eq!(told(&bench.subscribe("e", 1)), [(1, Type::Shutdown)]);
    assert_eq!(destroyed(&bench.pass(Duration::from_secs(5))), std::slice::from_ref(&container));
    assert_eq!(exits(&bench.feed(Event::Exited { container, status: Some(0) })), [("e".to_owned(), 0)]);
}

#[test]
fn other_queued_tasks_are_still_delivered() {
    let mut bench = Bench::registered();
    bench.run_group("e", &["a", "b"]);
    bench.run(vec![custom("c", "e")]);
    bench.kill("a");
    assert_eq!(told(&bench.subscribe("e", 1)), [(1, Type::Subscribed), (1, Type::Launch)]);
}

#[test]
fn a_delivered_task_is_killed_by_its_executor_even_if_that_is_away_for_a_moment() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    bench.subscribe("e", 1);
    bench.update("e", "a", TaskRunning, 1);
    assert_eq!(told(&bench.kill("a")), [(1, Type::Kill)]);
    bench.feed(Event::StreamClosed { connection: 1 });
    assert_eq!(told(&bench.kill("a")), []);
    assert_eq!(told(&bench.subscribe("e", 2)), [(2, Type::Subscribed), (2, Type::Kill)]);
}

#[test]
fn kill_of_a_task_that_is_not_here_tells_the_truth() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    let actions = bench.kill("x");
    assert_eq!(said(&actions), [(task("x"), TaskLost, Source::Agent, Some(Reason::Reconciliation))]);
    assert_eq!(bench.acknowledge_all("x", &actions), [TaskLost]);
}

#[test]
fn shutdown_gives_grace_and_then_kills() {
    let mut bench = Bench::registered();
    let mut info = custom("a", "e");
    let grace = v1::DurationInfo { nanoseconds: 2_000_000_000 };
    info.executor.as_mut().unwrap().shutdown_grace_period = Some(grace);
    let container = launched(&bench.run(vec![info])).remove(0);
    bench.subscribe("e", 1);
    let framework_id = v1::FrameworkId { value: FRAMEWORK.to_owned() };
    let executor_id = v1::ExecutorId { value: "e".to_owned() };
    let shutdown = MasterMessage::ShutdownExecutor { framework_id, executor_id };
    assert_eq!(told(&bench.master(shutdown.clone())), [(1, Type::Shutdown)]);
    assert_eq!(told(&bench.master(shutdown)), []);
    let dropped = bench.run(vec![custom("b", "e")]);
    assert_eq!(said(&dropped), [(task("b"), TaskLost, Source::Agent, Some(Reason::ExecutorTerminated))]);
    assert_eq!(destroyed(&bench.pass(Duration::from_secs(2))), std::slice::from_ref(&container));
    let actions = bench.feed(Event::Exited { container, status: Some(9) });
    assert_eq!(said(&actions), [(task("a"), TaskFailed, Source::Agent, Some(Reason::ExecutorTerminated))]);
}

#[test]
fn partition_aware_frameworks_hear_dropped_instead_of_lost() {
    let mut bench = Bench::registered().with_capability(capability::Type::PartitionAware);
    bench.run(vec![custom("a", "e")]);
    assert_eq!(said(&bench.kill("x"))[0].1, TaskDropped);
}

#[test]
fn a_lost_launch_is_noticed_when_the_executor_subscribes_again() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e"), custom("b", "e"), custom("c", "e")]);
    bench.subscribe("e", 1);
    bench.update("e", "c", TaskRunning, 9);
    let subscribe = call::Subscribe {
        unacknowledged_tasks: vec![custom("a", "e")],
        unacknowledged_updates: vec![call::Update { status: status("a", TaskStarting, 1) }],
    };
    let actions = bench.call(subscribe_call("e", subscribe), Some(2)).unwrap();
    assert!(actions.contains(&Action::CloseStream { connection: 1 }));
    assert_eq!(told(&actions), [(2, Type::Subscribed), (2, Type::Acknowledged)]);
    assert_eq!(
        said(&actions),
        [
            (task("a"), TaskStarting, Source::Executor, None),
            (task("b"), TaskLost, Source::Agent, Some(Reason::AgentRestarted)),
        ]
    );
}

#[test]
fn calls_are_checked_in_order() {
    let mut bench = Bench::registered();
    let update = |change: &dyn Fn(&mut v1::TaskStatus)| {
        let mut call = update_call("e", "a", TaskRunning, 1);
        change(&mut call.update.as_mut().unwrap().status);
        call
    };
    let refused = |bench: &Bench, call| bench.agent.check(&call).unwrap_err();
    assert_eq!(refused(&bench, update(&|_| {})).message, "Framework cannot be found");
    bench.run(vec![custom("a", "e"), command("cmd")]);
    for executor in ["x", "cmd"] {
        let refusal = refused(&bench, subscribe_call(executor, call::Subscribe::default()));
        assert_eq!((refusal.status, refusal.message.as_str()), (400, "Executor cannot be found"));
    }
    let refusal = refused(&bench, update(&|_| {}));
    assert_eq!((refusal.status, refusal.message.as_str()), (403, "Executor is not subscribed"));
    bench.subscribe("e", 1);
    assert_eq!(bench.agent.check(&update(&|_| {})), Ok(()));
    let wrong: [&dyn Fn(&mut v1::TaskStatus); 5] = [
        &|status| status.uuid = None,
        &|status| status.uuid = Some(vec![1; 15]),
        &|status| status.source = Some(Source::Agent.into()),
        &|status| status.state = TaskStaging.into(),
        &|status| status.executor_id = Some(v1::ExecutorId { value: "other".to_owned() }),
    ];
    for (index, change) in wrong.into_iter().enumerate() {
        assert_eq!(refused(&bench, update(change)).status, 400, "{index}");
    }
    let mut call = update(&|_| {});
    call.update = None;
    assert_eq!(refused(&bench, call).status, 400);
    let mut call = message_call("e", b"");
    call.r#type = None;
    assert_eq!(refused(&bench, call).status, 400);
}

#[test]
fn an_update_that_names_another_agent_is_ignored() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    bench.subscribe("e", 1);
    let mut call = update_call("e", "a", TaskRunning, 1);
    call.update.as_mut().unwrap().status.agent_id = Some(v1::AgentId { value: "other".to_owned() });
    assert_eq!(bench.call(call, None).unwrap(), []);
}

#[test]
fn messages_go_both_ways_unchanged() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    bench.subscribe("e", 1);
    let framework_id = v1::FrameworkId { value: FRAMEWORK.to_owned() };
    let executor_id = v1::ExecutorId { value: "e".to_owned() };
    let data = vec![0, 255];
    let up = bench.call(message_call("e", &data), None).unwrap();
    let message = crate::link::AgentMessage::FrameworkMessage {
        framework_id: framework_id.clone(),
        executor_id: executor_id.clone(),
        data: data.clone(),
    };
    assert_eq!(up, [Action::Send(Box::new(message))]);
    let down = bench.master(MasterMessage::FrameworkMessage { framework_id, executor_id, data: data.clone() });
    let Action::SendEvent { event, .. } = &down[0] else { panic!("{down:?}") };
    assert_eq!(event.message.as_ref().unwrap().data, data);
}

#[test]
fn idle_streams_show_life_every_half_hour() {
    let mut bench = Bench::registered();
    bench.run(vec![custom("a", "e")]);
    bench.subscribe("e", 1);
    for _ in 0..2 {
        let actions = bench.pass(Duration::from_secs(30 * 60));
        assert_eq!(told(&actions), [(1, Type::Heartbeat)]);
        let link = bench.link;
        bench.feed(Event::LinkClosed { link, reason: "silence".to_owned() });
    }
}
