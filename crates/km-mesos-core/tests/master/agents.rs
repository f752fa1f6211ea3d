//! Agents are lost and come back (M236 to M258).

use km_mesos_core::{
    link::{AgentMessage, MasterMessage},
    master::{Event, Page},
};
use km_mesos_proto::v1::{self, TaskState, task_status::Reason};

use crate::harness::*;

struct Stage {
    world: World,
    scheduler: Scheduler,
    agent: TestAgent,
    task: v1::Task,
}

fn running(info: v1::FrameworkInfo) -> Stage {
    let mut world = World::new();
    let scheduler = world.subscribe(info);
    let agent = world.agent("cpus:2;mem:1024");
    let offer = world.offer(&scheduler);
    world.accept_refusing(&scheduler, &[&offer], vec![launch(vec![task("t", &offer, "cpus:1;mem:100")])], 0.0);
    world.status(&scheduler, &agent, "t", TaskState::TaskRunning, [1; 16]);
    world.acknowledge(&scheduler, &agent, "t", [1; 16]);
    world.read(&scheduler);
    world.read_agent(&agent);
    let task = world.response(v1::master::call::Type::GetTasks).get_tasks.expect("set").tasks.remove(0);
    Stage { world, scheduler, agent, task }
}

/// Lets the agent miss all its pings.
fn lose(world: &mut World) {
    world.pass_secs(15 * 6 + 1);
}

#[test]
fn pings_keep_an_agent_that_answers() {
    // M238
    let mut stage = running(framework("a"));
    for _ in 0..20 {
        stage.world.pass_secs(15);
        assert!(stage.world.read_agent(&stage.agent).contains(&MasterMessage::Ping));
        let agent = stage.agent.clone();
        stage.world.agent_says(&agent, AgentMessage::Pong);
    }
    assert_eq!(stage.world.reconcile(&stage.scheduler.clone(), &[]).len(), 1);
}

#[test]
fn a_silent_agent_is_unreachable_and_its_tasks_come_back_with_it() {
    // M239, M240, M056
    for (info, lost) in [(aware("a"), TaskState::TaskUnreachable), (framework("a"), TaskState::TaskLost)] {
        let Stage { mut world, scheduler, agent, task } = running(info);
        world.pass_secs(1);
        let outstanding = world.offer(&scheduler);
        lose(&mut world);
        let events = world.read(&scheduler);
        let status = events.iter().find_map(|event| event.update.as_ref()).expect("UPDATE").status.clone();
        assert_eq!((status.state(), status.reason()), (lost, Reason::AgentRemoved));
        assert!(status.unreachable_time.is_some() && status.uuid.is_none());
        let rescinded = events.iter().find_map(|event| event.rescind.as_ref()).expect("RESCIND");
        assert_eq!(rescinded.offer_id, outstanding.id);
        let failure = events.iter().find_map(|event| event.failure.as_ref()).expect("FAILURE");
        assert_eq!(failure.agent_id.as_ref().map(|id| id.value.clone()), Some(agent.id.clone()));
        assert!(failure.executor_id.is_none());
        let state = world.page(Page::State);
        assert_eq!(state["unreachable_slaves"], 1);
        assert_eq!(state["frameworks"][0]["unreachable_tasks"][0]["state"], lost.as_str_name());
        assert_eq!(state["frameworks"][0]["tasks"].as_array().map(Vec::len), Some(0));
        let id = agent.id.clone();
        let told = world.reconcile(&scheduler, &[("t", Some(&id))]);
        assert_eq!(told[0].state(), lost);
        assert!(told[0].unreachable_time.is_some());

        let back = world.register(agent.info.clone(), Vec::new(), Vec::new(), vec![task]);
        assert_eq!(back.id, agent.id);
        let events = world.read(&scheduler);
        let status = events.iter().find_map(|event| event.update.as_ref()).expect("UPDATE").status.clone();
        assert_eq!((status.state(), status.reason()), (TaskState::TaskRunning, Reason::AgentReregistered));
        let offers = events.iter().filter_map(|event| event.offers.as_ref()).flat_map(|offers| &offers.offers);
        let rest: Vec<_> = offers.map(offered).collect();
        assert_eq!(rest, [resources("cpus:1;mem:924")]);
        let state = world.page(Page::State);
        assert_eq!(state["unreachable_slaves"], 0);
        assert_eq!(state["frameworks"][0]["tasks"][0]["state"], "TASK_RUNNING");
    }
}

/// Its launch got lost, so the agent never heard of it: it must not stay on the books when the agent is back.
#[test]
fn a_task_that_an_agent_does_not_know_on_its_return_has_ended_and_its_framework_can_be_torn_down() {
    // B074
    for (info, told, ended) in [
        (aware("a"), vec![TaskState::TaskDropped], TaskState::TaskGone),
        // It was told so when the agent was lost.
        (framework("a"), Vec::new(), TaskState::TaskLost),
    ] {
        let Stage { mut world, scheduler, agent, .. } = running(info);
        lose(&mut world);
        world.read(&scheduler);
        let back = world.register(agent.info.clone(), Vec::new(), Vec::new(), Vec::new());
        assert_eq!(back.id, agent.id);
        let updates = world.updates(&scheduler);
        assert_eq!(updates.iter().map(v1::TaskStatus::state).collect::<Vec<_>>(), told);
        let told = world.reconcile(&scheduler, &[("t", Some(&back.id))]);
        assert_eq!(told.iter().map(v1::TaskStatus::state).collect::<Vec<_>>(), [ended]);
        let state = world.page(Page::State);
        for list in ["tasks", "unreachable_tasks"] {
            assert_eq!(state["frameworks"][0][list].as_array().map(Vec::len), Some(0), "{list}");
        }
        world.simple(&scheduler, v1::scheduler::call::Type::Teardown);
        let frameworks = world.response(v1::master::call::Type::GetFrameworks).get_frameworks.expect("set");
        assert!(frameworks.frameworks.is_empty());
    }
}

#[test]
fn an_id_of_an_unreachable_task_is_taken() {
    // M138
    let Stage { mut world, scheduler, .. } = running(aware("a"));
    lose(&mut world);
    world.read(&scheduler);
    world.agent("cpus:2;mem:1024");
    let offer = world.offer(&scheduler);
    world.accept(&scheduler, &[&offer], vec![launch(vec![task("t", &offer, "cpus:1")])]);
    let status = world.update(&scheduler);
    assert_eq!(status.state(), TaskState::TaskError);
    assert_eq!(status.message(), "Task reuses the ID of an unreachable task: t");
}

#[test]
fn a_framework_torn_down_meanwhile_is_ended_on_the_agents_return() {
    // M241, M254
    let Stage { mut world, scheduler, agent, task } = running(framework("a"));
    lose(&mut world);
    world.simple(&scheduler, v1::scheduler::call::Type::Teardown);
    let tasks = world.response(v1::master::call::Type::GetTasks).get_tasks.expect("set");
    assert_eq!(tasks.completed_tasks[0].state(), TaskState::TaskKilled);
    let mut back = again(framework("a"), &scheduler);
    back.id = Some(scheduler.id.as_str().into());
    let agent = world.register(agent.info, vec![back], Vec::new(), vec![task]);
    let shutdown = MasterMessage::ShutdownFramework { framework_id: scheduler.id.as_str().into() };
    assert!(world.read_agent(&agent).contains(&shutdown));
    let frameworks = world.response(v1::master::call::Type::GetFrameworks).get_frameworks.expect("set");
    assert!(frameworks.frameworks.is_empty());
}

#[test]
fn a_new_link_replaces_the_old_and_repeats_kills() {
    // M253, M255, X095
    let Stage { mut world, scheduler, agent, task } = running(aware("a"));
    world.handle(Event::Disconnected { connection: agent.connection });
    world.kill(&scheduler, "t", None);
    let back = world.register(agent.info.clone(), Vec::new(), Vec::new(), vec![task]);
    assert_eq!(back.id, agent.id);
    let told = world.read_agent(&back);
    assert!(
        told.iter().any(|message| matches!(message, MasterMessage::KillTask { task_id, .. } if task_id.value == "t"))
    );
    assert!(world.updates(&scheduler).is_empty(), "nothing is lost");
    let again = world.register(agent.info.clone(), Vec::new(), Vec::new(), Vec::new());
    assert_eq!(again.id, agent.id);
    assert!(world.closed.contains(&back.connection));
    let status = world.updates(&scheduler).remove(0);
    assert_eq!((status.state(), status.reason()), (TaskState::TaskDropped, Reason::Reconciliation));
    assert_eq!(status.source(), v1::task_status::Source::Agent);
    world.pass_secs(1);
    let held: km_mesos_proto::resources::Resources = world
        .response(v1::master::call::Type::GetAgents)
        .get_agents
        .expect("set")
        .agents
        .iter()
        .map(|agent| km_mesos_proto::resources::Resources::from_protos(&agent.allocated_resources).expect("fine"))
        .sum();
    assert!(held.is_empty(), "the lost task holds nothing");
}

#[test]
fn without_checkpoints_tasks_are_lost_with_the_link() {
    // M250
    let info = v1::FrameworkInfo { checkpoint: Some(false), ..framework("a") };
    let Stage { mut world, scheduler, agent, .. } = running(info);
    world.handle(Event::Disconnected { connection: agent.connection });
    let status = world.update(&scheduler);
    assert_eq!((status.state(), status.reason()), (TaskState::TaskLost, Reason::AgentDisconnected));
}

#[test]
fn an_agent_that_says_goodbye_is_removed() {
    // M236, M237
    let Stage { mut world, scheduler, agent, .. } = running(framework("a"));
    world.agent_says(&agent, AgentMessage::Unregister);
    let events = world.read(&scheduler);
    let status = events.iter().find_map(|event| event.update.as_ref()).expect("UPDATE").status.clone();
    assert_eq!((status.state(), status.reason()), (TaskState::TaskLost, Reason::AgentRemoved));
    assert!(events.iter().any(|event| event.failure.is_some()));
    assert!(world.reconcile(&scheduler, &[]).is_empty());
    assert_eq!(world.master.metrics()["master/slave_removals/reason_unregistered"], 1.0);
}

#[test]
fn an_agent_marked_gone_never_returns() {
    // M257, M258, X117
    for unreachable_first in [false, true] {
        let Stage { mut world, scheduler, agent, .. } = running(aware("a"));
        if unreachable_first {
            lose(&mut world);
            world.read(&scheduler);
        }
        let gone = v1::master::call::MarkAgentGone { agent_id: agent.id.as_str().into() };
        let call = v1::master::Call { mark_agent_gone: Some(gone), ..Default::default() };
        assert_eq!(world.operator(v1::master::call::Type::MarkAgentGone, call).status, 200);
        let status = world.update(&scheduler);
        assert_eq!((status.state(), status.reason()), (TaskState::TaskGoneByOperator, Reason::AgentRemovedByOperator));
        let id = agent.id.clone();
        assert_eq!(world.reconcile(&scheduler, &[("x", Some(&id))])[0].state(), TaskState::TaskGoneByOperator);
        let back = world.register(agent.info.clone(), Vec::new(), Vec::new(), Vec::new());
        assert_eq!(back.id, "");
        assert!(matches!(&world.read_agent(&back)[..], [MasterMessage::Refused { .. }]));
        assert!(world.closed.contains(&back.connection));
    }
}

#[test]
fn a_new_master_knows_agents_by_its_registry_and_frameworks_by_its_agents() {
    // M027, M059, M228, M244, M249, M023
    let Stage { world, scheduler, agent, task } = running(aware("a"));
    let registry = world.master.registry();
    let info = again(aware("a"), &scheduler);
    let mut config = config();
    config.info.id = "second".to_owned();
    let mut world = World::with(config, registry);
    assert_eq!(world.page(Page::Slaves)["recovered_slaves"][0]["id"], agent.id);
    let early =
        world.subscribe(again(aware("other"), &Scheduler { id: "elsewhere-0000".to_owned(), ..scheduler.clone() }));
    let id = agent.id.clone();
    world.read(&early);
    assert!(world.reconcile(&early, &[("x", Some(&id)), ("y", None)]).is_empty(), "no answer while it may come back");
    let executor = v1::ExecutorInfo { framework_id: info.id.clone(), ..executor("e", "cpus:0.5") };
    let executors = vec![(scheduler.id.as_str().into(), executor)];
    let back = world.register(agent.info.clone(), vec![info.clone()], executors, vec![task]);
    assert_eq!(back.id, agent.id);
    let state = world.page(Page::State);
    let recovered =
        state["frameworks"].as_array().expect("array").iter().find(|one| one["id"] == scheduler.id.as_str());
    let recovered = recovered.expect("the framework is known");
    assert_eq!((&recovered["active"], &recovered["recovered"]), (&false.into(), &true.into()));
    assert_eq!(recovered["tasks"][0]["state"], "TASK_RUNNING");
    let other_offers: Vec<_> = world.offers(&early).iter().map(offered).collect();
    assert_eq!(other_offers, [resources("cpus:0.5;mem:924")], "what tasks and executors hold is not offered");
    let changed = v1::FrameworkInfo { checkpoint: Some(false), name: "new".to_owned(), ..info };
    let second = world.subscribe(changed);
    assert_eq!(second.id, scheduler.id);
    world.read(&second);
    assert_eq!(world.reconcile(&second, &[]).len(), 1);
    let page = world.page(Page::Frameworks);
    let page = page["frameworks"].as_array().expect("array").iter().find(|one| one["id"] == scheduler.id.as_str());
    let page = page.expect("listed");
    assert_eq!((&page["name"], &page["checkpoint"], &page["recovered"]), (&"new".into(), &true.into(), &false.into()));
    let fresh = world.agent("cpus:1;mem:512");
    assert_ne!(fresh.id, agent.id, "ids never repeat (M251)");
}
