//! The operator API and its event stream (M268 to M308).

use km_mesos_core::{
    link::MasterMessage,
    master::{Answer, Event},
};
use km_mesos_proto::v1::{
    self, TaskState,
    master::{Call, call, call::Type, event::Type as EventType},
    task_status::Reason,
};

use crate::harness::*;

fn drain(world: &mut World, agent: &TestAgent, mark_gone: bool) -> Answer {
    let drain =
        call::DrainAgent { agent_id: agent.id.as_str().into(), mark_gone: Some(mark_gone), ..Default::default() };
    world.operator(Type::DrainAgent, Call { drain_agent: Some(drain), ..Default::default() })
}

fn reactivate(world: &mut World, agent: &TestAgent) -> Answer {
    let reactivate = call::ReactivateAgent { agent_id: agent.id.as_str().into() };
    world.operator(Type::ReactivateAgent, Call { reactivate_agent: Some(reactivate), ..Default::default() })
}

fn agent_view(world: &mut World) -> v1::master::response::get_agents::Agent {
    world.response(Type::GetAgents).get_agents.expect("set").agents.remove(0)
}

#[test]
fn a_drained_agent_loses_its_tasks_and_can_be_reactivated() {
    // M268, M269, M272, M273
    let mut world = World::new();
    let scheduler = world.subscribe(framework("a"));
    let agent = world.agent("cpus:2;mem:1024");
    assert_eq!(reactivate(&mut world, &agent), Answer::refused(400, "Agent is not deactivated"));
    let offer = world.offer(&scheduler);
    world.accept(&scheduler, &[&offer], vec![launch(vec![task("t", &offer, "cpus:1")])]);
    world.status(&scheduler, &agent, "t", TaskState::TaskRunning, [1; 16]);
    world.read(&scheduler);
    world.read_agent(&agent);
    assert_eq!(drain(&mut world, &agent, false).status, 200);
    assert!(matches!(&world.read_agent(&agent)[..], [MasterMessage::Drain { .. }]));
    assert_eq!(reactivate(&mut world, &agent), Answer::refused(400, "Agent is still in the DRAINING state"));
    world.status(&scheduler, &agent, "t", TaskState::TaskKilled, [2; 16]);
    assert_eq!(world.update(&scheduler).state(), TaskState::TaskKilled);
    world.pass_secs(5);
    assert!(world.offers(&scheduler).is_empty());
    world.acknowledge(&scheduler, &agent, "t", [2; 16]);
    let view = agent_view(&mut world);
    assert_eq!(view.drain_info.map(|drain| drain.state()), Some(v1::DrainState::Drained));
    assert!(view.estimated_drain_start_time.is_some());
    assert_eq!(reactivate(&mut world, &agent).status, 200);
    assert_eq!(world.offers(&scheduler).len(), 1);
    let unknown = TestAgent { id: "x".to_owned(), ..agent };
    assert_eq!(drain(&mut world, &unknown, false), Answer::refused(400, "Unknown agent"));
}

#[test]
fn an_idle_agent_that_is_drained_for_good_is_gone_at_once() {
    // M270
    let mut world = World::new();
    let agent = world.agent("cpus:2;mem:1024");
    world.read_agent(&agent);
    assert_eq!(drain(&mut world, &agent, true).status, 200);
    assert!(world.read_agent(&agent).iter().any(|message| matches!(message, MasterMessage::Refused { .. })));
    assert!(world.response(Type::GetAgents).get_agents.expect("set").agents.is_empty());
}

#[test]
fn a_deactivated_agent_is_not_offered() {
    let mut world = World::new();
    let scheduler = world.subscribe(framework("a"));
    let agent = world.agent("cpus:2;mem:1024");
    world.offer(&scheduler);
    let deactivate = call::DeactivateAgent { agent_id: agent.id.as_str().into() };
    let call = Call { deactivate_agent: Some(deactivate), ..Default::default() };
    assert_eq!(world.operator(Type::DeactivateAgent, call).status, 200);
    assert!(world.read(&scheduler)[0].rescind.is_some());
    world.pass_secs(5);
    assert!(world.read(&scheduler).is_empty());
    assert!(agent_view(&mut world).deactivated());
}

fn schedule(world: &mut World, windows: Vec<v1::maintenance::Window>) -> Answer {
    let update = call::UpdateMaintenanceSchedule { schedule: v1::maintenance::Schedule { windows } };
    let call = Call { update_maintenance_schedule: Some(update), ..Default::default() };
    world.operator(Type::UpdateMaintenanceSchedule, call)
}

fn window(hosts: &[&str]) -> v1::maintenance::Window {
    let machine = |host: &&str| v1::MachineId {
        hostname: Some((*host).to_owned()),
        ip: (!host.is_empty()).then(|| "127.0.0.1".to_owned()),
    };
    v1::maintenance::Window {
        machine_ids: hosts.iter().map(machine).collect(),
        unavailability: v1::Unavailability { start: v1::TimeInfo { nanoseconds: 77 }, duration: None },
    }
}

#[test]
fn maintenance_is_announced_started_and_ended() {
    // M276 to M283
    let mut world = World::new();
    let scheduler = world.subscribe(framework("a"));
    let agent = world.agent("cpus:2;mem:1024");
    let offer = world.offer(&scheduler);
    world.accept(&scheduler, &[&offer], vec![launch(vec![task("t", &offer, "cpus:1")])]);
    world.pass_secs(1);
    world.offer(&scheduler);
    for bad in [vec![window(&[])], vec![window(&["host", "host"])], vec![window(&[""])]] {
        assert_eq!(schedule(&mut world, bad).status, 400);
    }
    assert_eq!(schedule(&mut world, vec![window(&["host"])]).status, 200);
    let events = world.read(&scheduler);
    assert!(events.iter().any(|event| event.rescind.is_some()));
    let inverse: Vec<_> = events.iter().filter_map(|event| event.inverse_offers.as_ref()).collect();
    assert_eq!(inverse.len(), 1);
    assert!(inverse[0].inverse_offers[0].resources.is_empty());
    let offers = events.iter().filter_map(|event| event.offers.as_ref()).flat_map(|offers| &offers.offers);
    let starts: Vec<_> = offers.filter_map(|offer| offer.unavailability).map(|one| one.start.nanoseconds).collect();
    assert_eq!(starts, [77]);
    let machines = || vec![v1::MachineId { hostname: Some("host".to_owned()), ip: Some("127.0.0.1".to_owned()) }];
    let stop = || Call { stop_maintenance: Some(call::StopMaintenance { machines: machines() }), ..Default::default() };
    let start =
        || Call { start_maintenance: Some(call::StartMaintenance { machines: machines() }), ..Default::default() };
    assert_eq!(world.operator(Type::StopMaintenance, stop()).status, 400);
    assert_eq!(world.operator(Type::StartMaintenance, start()).status, 200);
    assert_eq!(world.operator(Type::StartMaintenance, start()).status, 400);
    let status = world.updates(&scheduler).remove(0);
    assert_eq!((status.state(), status.reason()), (TaskState::TaskLost, Reason::AgentRemoved));
    assert_eq!(schedule(&mut world, Vec::new()).status, 400, "a machine that is down stays in the schedule");
    let refused = world.register(agent.info.clone(), Vec::new(), Vec::new(), Vec::new());
    assert_eq!(refused.id, "");
    assert_eq!(world.operator(Type::StopMaintenance, stop()).status, 200);
    let status = world.response(Type::GetMaintenanceStatus).get_maintenance_status.expect("set").status;
    assert!(status.draining_machines.is_empty() && status.down_machines.is_empty());
    assert_eq!(world.register(agent.info, Vec::new(), Vec::new(), Vec::new()).id, agent.id);
}

#[test]
fn subscribers_see_what_happens() {
    // M303 to M308
    let mut world = World::new();
    let operator = world.connection();
    world.handle(Event::OperatorSubscribe { connection: operator });
    let scheduler = world.subscribe(framework("a"));
    let agent = world.agent("cpus:2;mem:1024");
    let offer = world.offer(&scheduler);
    world.accept(&scheduler, &[&offer], vec![launch(vec![task("t", &offer, "cpus:1")])]);
    world.status(&scheduler, &agent, "t", TaskState::TaskRunning, [1; 16]);
    world.status(&scheduler, &agent, "t", TaskState::TaskRunning, [1; 16]);
    world.simple(&scheduler, v1::scheduler::call::Type::Teardown);
    let kinds: Vec<EventType> = world.operator_events[&operator].iter().map(v1::master::Event::r#type).collect();
    let expected = [
        EventType::Subscribed,
        EventType::Heartbeat,
        EventType::FrameworkAdded,
        EventType::AgentAdded,
        EventType::TaskAdded,
        EventType::TaskUpdated,
        EventType::FrameworkRemoved,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn operators_reserve_what_is_offered_by_rescinding() {
    // M301, M164, M321
    let mut world = World::new();
    let scheduler = world.subscribe(in_roles("a", &["r"]));
    let agent = world.agent("cpus:2;mem:1024");
    world.offer(&scheduler);
    let mut reserved = resources("cpus:1").to_protos();
    reserved[0].reservations = vec![v1::resource::ReservationInfo {
        r#type: Some(v1::resource::reservation_info::Type::Dynamic as i32),
        role: Some("r".to_owned()),
        ..Default::default()
    }];
    let reserve = |resources: Vec<v1::Resource>| {
        let reserve = call::ReserveResources { agent_id: agent.id.as_str().into(), resources, source: Vec::new() };
        Call { reserve_resources: Some(reserve), ..Default::default() }
    };
    assert_eq!(world.operator(Type::ReserveResources, reserve(reserved.clone())).status, 202);
    let events = world.read(&scheduler);
    assert!(events[0].rescind.is_some());
    let anew = &events[1].offers.as_ref().expect("offered again").offers[0];
    assert_eq!(offered(anew).reserved("r").scalar("cpus").milli(), 1000);
    let mut too_much = reserved.clone();
    too_much[0].scalar = Some(v1::value::Scalar { value: 100.0 });
    assert_eq!(world.operator(Type::ReserveResources, reserve(too_much)).status, 409);
    let mut allocated = reserved;
    allocated[0].allocation_info = Some(v1::resource::AllocationInfo { role: Some("r".to_owned()) });
    assert_eq!(world.operator(Type::ReserveResources, reserve(allocated)).status, 400);
}
