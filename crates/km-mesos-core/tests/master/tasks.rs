//! Task states, acknowledgements, kills and reconciliation (M178 to M227).

use km_mesos_core::link::MasterMessage;
use km_mesos_proto::v1::{self, TaskState, task_status::Reason};

use crate::harness::*;

struct Stage {
    world: World,
    scheduler: Scheduler,
    agent: TestAgent,
}

fn running(info: v1::FrameworkInfo) -> Stage {
    let mut world = World::new();
    let scheduler = world.subscribe(info);
    let agent = world.agent("cpus:2;mem:1024");
    let offer = world.offer(&scheduler);
    world.accept_refusing(&scheduler, &[&offer], vec![launch(vec![task("t", &offer, "cpus:1;mem:100")])], 1e6);
    world.status(&scheduler, &agent, "t", TaskState::TaskRunning, [1; 16]);
    assert_eq!(world.update(&scheduler).state(), TaskState::TaskRunning);
    world.read_agent(&agent);
    Stage { world, scheduler, agent }
}

#[test]
fn a_terminal_task_frees_its_resources_at_once_and_goes_with_the_acknowledgement() {
    // M057, M210, M223, M224
    let Stage { mut world, scheduler, agent } = running(framework("a"));
    world.acknowledge(&scheduler, &agent, "t", [1; 16]);
    let told = world.read_agent(&agent);
    assert!(matches!(&told[..], [MasterMessage::Acknowledge { uuid, .. }] if *uuid == vec![1; 16]));
    world.status(&scheduler, &agent, "t", TaskState::TaskFinished, [2; 16]);
    assert_eq!(world.update(&scheduler).state(), TaskState::TaskFinished);
    let answers = world.reconcile(&scheduler, &[]);
    assert_eq!(answers.len(), 1, "not acknowledged yet");
    assert_eq!((answers[0].state(), answers[0].reason()), (TaskState::TaskFinished, Reason::Reconciliation));
    world.pass_secs(1);
    assert_eq!(offered(&world.offer(&scheduler)), resources("cpus:2;mem:1024"));
    world.acknowledge(&scheduler, &agent, "t", [9; 16]);
    assert_eq!(world.reconcile(&scheduler, &[]).len(), 1, "a wrong uuid acknowledges nothing (M206)");
    world.acknowledge(&scheduler, &agent, "t", [2; 16]);
    assert!(world.reconcile(&scheduler, &[]).is_empty());
    let tasks = world.response(v1::master::call::Type::GetTasks).get_tasks.expect("set");
    assert_eq!((tasks.tasks.len(), tasks.completed_tasks.len()), (0, 1));
}

#[test]
fn a_second_end_is_forwarded_but_changes_nothing() {
    // M207
    let Stage { mut world, scheduler, agent } = running(framework("a"));
    world.status(&scheduler, &agent, "t", TaskState::TaskFinished, [2; 16]);
    world.acknowledge(&scheduler, &agent, "t", [2; 16]);
    world.read(&scheduler);
    world.status(&scheduler, &agent, "t", TaskState::TaskKilled, [3; 16]);
    assert_eq!(world.update(&scheduler).state(), TaskState::TaskKilled);
    let tasks = world.response(v1::master::call::Type::GetTasks).get_tasks.expect("set");
    assert_eq!(tasks.completed_tasks[0].state(), TaskState::TaskFinished);
}

#[test]
fn kills_go_to_the_agent_or_are_answered_with_the_truth() {
    // M182, M183
    for (info, gone, unknown) in [
        (framework("a"), TaskState::TaskLost, TaskState::TaskLost),
        (aware("a"), TaskState::TaskGone, TaskState::TaskUnknown),
    ] {
        let Stage { mut world, scheduler, agent } = running(info);
        world.kill(&scheduler, "t", None);
        assert!(
            matches!(&world.read_agent(&agent)[..], [MasterMessage::KillTask { task_id, .. }] if task_id.value == "t")
        );
        assert!(world.updates(&scheduler).is_empty());
        world.kill(&scheduler, "t", Some("other"));
        assert!(world.read_agent(&agent).is_empty(), "a wrong agent id drops the kill");
        let id = agent.id.clone();
        for (named, state) in [(Some(id.as_str()), gone), (None, unknown), (Some("nowhere"), unknown)] {
            world.kill(&scheduler, "x", named);
            let status = world.update(&scheduler);
            assert_eq!((status.state(), status.reason()), (state, Reason::Reconciliation), "{named:?}");
            assert_eq!(status.source(), v1::task_status::Source::Master);
            assert!(status.uuid.is_none() && status.unreachable_time.is_none());
        }
    }
}

#[test]
fn explicit_reconciliation_tells_the_newest_forwarded_state() {
    // M220, M221, M225 to M227
    let Stage { mut world, scheduler, agent } = running(aware("a"));
    let answers = world.reconcile(&scheduler, &[("t", None)]);
    assert_eq!(answers[0].state(), TaskState::TaskRunning);
    assert!(answers[0].uuid.is_none());
    assert_eq!(answers[0].message(), "Reconciliation: Latest task state");
    // The agent is ahead: FINISHED is its newest state, RUNNING what it forwards.
    let status = v1::TaskStatus {
        task_id: "t".into(),
        state: TaskState::TaskRunning as i32,
        uuid: Some(vec![5; 16]),
        ..Default::default()
    };
    let message = km_mesos_core::link::AgentMessage::Update {
        framework_id: scheduler.id.as_str().into(),
        status,
        latest_state: TaskState::TaskFinished,
    };
    world.agent_says(&agent, message);
    world.read(&scheduler);
    assert_eq!(world.reconcile(&scheduler, &[("t", None)])[0].state(), TaskState::TaskRunning);
    let id = agent.id.clone();
    assert_eq!(world.reconcile(&scheduler, &[("x", Some(&id))])[0].state(), TaskState::TaskGone);
    assert_eq!(world.reconcile(&scheduler, &[("x", Some("nowhere"))])[0].state(), TaskState::TaskUnknown);
    assert_eq!(world.reconcile(&scheduler, &[("x", None)])[0].state(), TaskState::TaskUnknown);
}

#[test]
fn statuses_for_a_lost_scheduler_wait_for_the_next() {
    // M029, M211
    let Stage { mut world, scheduler, agent } = running(framework("a"));
    world.handle(km_mesos_core::master::Event::Disconnected { connection: scheduler.connection });
    world.status(&scheduler, &agent, "t", TaskState::TaskFinished, [2; 16]);
    let second = world.subscribe(again(framework("a"), &scheduler));
    world.read(&second);
    world.status(&second, &agent, "t", TaskState::TaskFinished, [2; 16]);
    let status = world.update(&second);
    assert_eq!(status.uuid, Some(vec![2; 16]));
    world.acknowledge(&second, &agent, "t", [2; 16]);
    assert!(world.reconcile(&second, &[]).is_empty());
}

#[test]
fn messages_go_both_ways_unchanged() {
    // M204, M203
    let Stage { mut world, scheduler, agent } = running(framework("a"));
    let message = km_mesos_proto::v1::scheduler::call::Message {
        agent_id: agent.id.as_str().into(),
        executor_id: "e".into(),
        data: vec![0, 255, 7],
    };
    let call = v1::scheduler::Call { message: Some(message), ..Default::default() };
    world.call(&scheduler, v1::scheduler::call::Type::Message, call);
    let told = world.read_agent(&agent);
    assert!(matches!(&told[..], [MasterMessage::FrameworkMessage { data, .. }] if *data == [0, 255, 7]));
    let back = km_mesos_core::link::AgentMessage::FrameworkMessage {
        framework_id: scheduler.id.as_str().into(),
        executor_id: "e".into(),
        data: vec![1, 2],
    };
    world.agent_says(&agent, back);
    let event = world.read(&scheduler).into_iter().find_map(|event| event.message).expect("MESSAGE");
    assert_eq!((event.data, event.agent_id.value), (vec![1, 2], agent.id.clone()));
    let shutdown = v1::scheduler::call::Shutdown { executor_id: "e".into(), agent_id: agent.id.as_str().into() };
    let call = v1::scheduler::Call { shutdown: Some(shutdown), ..Default::default() };
    world.call(&scheduler, v1::scheduler::call::Type::Shutdown, call);
    assert!(matches!(&world.read_agent(&agent)[..], [MasterMessage::ShutdownExecutor { .. }]));
}
