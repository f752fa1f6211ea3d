//! Operations in an ACCEPT other than launches, and how their end is told (M159 to M177, M231 to M235).

use km_mesos_core::link::{AgentMessage, MasterMessage};
use km_mesos_proto::v1::{self, TaskState, offer::operation, scheduler};

use crate::{
    harness::*,
    stage::{Stage, stage},
};

fn reservation(text: &str, role: &str, principal: Option<&str>) -> Vec<v1::Resource> {
    let mut all = resources(text).to_protos();
    for one in &mut all {
        one.reservations = vec![v1::resource::ReservationInfo {
            r#type: Some(v1::resource::reservation_info::Type::Dynamic as i32),
            role: Some(role.to_owned()),
            principal: principal.map(str::to_owned),
            labels: None,
        }];
    }
    all
}

fn reserve(resources: Vec<v1::Resource>) -> v1::offer::Operation {
    v1::offer::Operation {
        r#type: Some(operation::Type::Reserve as i32),
        reserve: Some(operation::Reserve { resources, source: Vec::new() }),
        ..Default::default()
    }
}

fn unreserve(resources: Vec<v1::Resource>) -> v1::offer::Operation {
    v1::offer::Operation {
        r#type: Some(operation::Type::Unreserve as i32),
        unreserve: Some(operation::Unreserve { resources }),
        ..Default::default()
    }
}

#[test]
fn reservations_are_made_used_and_undone() {
    // M171, M173, M175
    let mut stage = stage(in_roles("a", &["r"]), "cpus:4;mem:4096");
    let offer = stage.offer.clone();
    let reserved = reservation("cpus:2;mem:1024", "r", None);
    let mut on_reserved = task("t", &offer, "cpus:1");
    on_reserved.resources = reservation("cpus:1;mem:512", "r", None);
    let alien = reservation("cpus:1", "other", None);
    let operations = vec![reserve(alien), reserve(reserved.clone()), launch(vec![on_reserved])];
    stage.world.accept(&stage.scheduler, &[&offer], operations);
    let told = stage.world.read_agent(&stage.agent);
    assert!(told.iter().any(|message| matches!(message, MasterMessage::CheckpointResources { .. })));
    assert!(told.iter().any(|message| matches!(message, MasterMessage::RunTasks { .. })));
    let (scheduler, agent) = (stage.scheduler.clone(), stage.agent.clone());
    stage.world.status(&scheduler, &agent, "t", TaskState::TaskFinished, [1; 16]);
    stage.world.pass_secs(2);
    let all: km_mesos_proto::resources::Resources = stage.world.offers(&scheduler).iter().map(offered).sum();
    let expected = km_mesos_proto::resources::Resources::from_protos(&reserved).expect("well-formed");
    assert_eq!(all.reserved("r"), expected);
    assert_eq!(all.unreserved(), resources("cpus:2;mem:3072"));
}

#[test]
fn unreserve_gives_back_to_all() {
    // M171
    let mut stage = stage(in_roles("a", &["r"]), "cpus:4;mem:4096");
    let offer = stage.offer.clone();
    let reserved = reservation("cpus:2", "r", None);
    stage.world.accept(&stage.scheduler, &[&offer], vec![reserve(reserved.clone())]);
    stage.world.pass_secs(1);
    let offer = stage.world.offer(&stage.scheduler);
    assert!(!offered(&offer).reserved("r").is_empty());
    stage.world.accept(&stage.scheduler, &[&offer], vec![unreserve(reserved)]);
    stage.world.pass_secs(1);
    assert_eq!(offered(&stage.world.offer(&stage.scheduler)), resources("cpus:4;mem:4096"));
}

#[test]
fn failed_operations_with_an_id_say_why() {
    // M128, M159, M160
    let mut stage = stage(in_roles("a", &["r"]), "cpus:4;mem:4096");
    let offer = stage.offer.clone();
    let mut to_star = reserve(reservation("cpus:1", "*", None));
    to_star.id = Some("op".into());
    let mut identified = launch(vec![task("t", &offer, "cpus:1")]);
    identified.id = Some("x".into());
    stage.world.accept(&stage.scheduler, &[&offer], vec![to_star, identified]);
    let events = stage.world.read(&stage.scheduler);
    let status =
        events.iter().find_map(|event| event.update_operation_status.as_ref()).expect("a status").status.clone();
    assert_eq!(status.state(), v1::OperationState::OperationError);
    assert!(status.message().contains("role \"*\" cannot be reserved"), "{}", status.message());
    let update = events.iter().find_map(|event| event.update.as_ref()).expect("an update");
    assert_eq!(update.status.state(), TaskState::TaskError);
}

#[test]
fn volumes_are_created_and_destroyed() {
    // M168, M176
    let mut stage = stage(in_roles("a", &["r"]), "cpus:4;mem:4096;disk(r):1000");
    let volume = |size: &str| {
        let mut one = resources(&format!("disk(r):{size}")).to_protos().remove(0);
        one.disk = Some(v1::resource::DiskInfo {
            persistence: Some(v1::resource::disk_info::Persistence { id: "id1".to_owned(), principal: None }),
            volume: Some(v1::Volume {
                container_path: "path1".to_owned(),
                mode: v1::volume::Mode::Rw as i32,
                ..Default::default()
            }),
            source: None,
        });
        one
    };
    let create = |size: &str| v1::offer::Operation {
        r#type: Some(operation::Type::Create as i32),
        create: Some(operation::Create { volumes: vec![volume(size)] }),
        ..Default::default()
    };
    let offer = stage.offer.clone();
    stage.world.accept(&stage.scheduler, &[&offer], vec![create("5000"), create("100")]);
    stage.world.pass_secs(1);
    let offer = stage.world.offer(&stage.scheduler);
    let volumes = offered(&offer).persistent_volumes();
    assert_eq!(volumes.scalar("disk").milli(), 100_000);
    let destroy = v1::offer::Operation {
        r#type: Some(operation::Type::Destroy as i32),
        destroy: Some(operation::Destroy { volumes: vec![volume("100")] }),
        ..Default::default()
    };
    stage.world.accept(&stage.scheduler, &[&offer], vec![destroy]);
    stage.world.pass_secs(1);
    assert!(offered(&stage.world.offer(&stage.scheduler)).persistent_volumes().is_empty());
}

/// A reservation whose end is told, after the agent has been told of it: what the agent was told.
fn reserve_identified(stage: &mut Stage) -> v1::Operation {
    let mut identified = reserve(reservation("cpus:1", "r", None));
    identified.id = Some("op".into());
    let offer = stage.offer.clone();
    stage.world.accept(&stage.scheduler, &[&offer], vec![identified]);
    let told = stage.world.read_agent(&stage.agent);
    let applied = told.into_iter().find_map(|message| match message {
        MasterMessage::ApplyOperation { operation, .. } => Some(operation),
        _ => None,
    });
    applied.expect("the agent is told")
}

/// As the agent tells its end.
fn finished(mut operation: v1::Operation) -> v1::Operation {
    operation.latest_status.state = v1::OperationState::OperationFinished as i32;
    operation.latest_status.uuid = Some(v1::Uuid { value: vec![7; 16] });
    operation.statuses.push(operation.latest_status.clone());
    operation
}

fn statuses(stage: &mut Stage) -> Vec<v1::OperationStatus> {
    let events = stage.world.read(&stage.scheduler);
    events.into_iter().filter_map(|event| Some(event.update_operation_status?.status)).collect()
}

fn known(stage: &mut Stage) -> Vec<v1::Operation> {
    let response = stage.world.response(v1::master::call::Type::GetOperations);
    response.get_operations.expect("an answer").operations
}

fn acknowledge(stage: &mut Stage, uuid: [u8; 16]) {
    let acknowledge = scheduler::call::AcknowledgeOperationStatus {
        agent_id: Some(v1::AgentId { value: stage.agent.id.clone() }),
        uuid: uuid.to_vec(),
        operation_id: "op".into(),
        ..Default::default()
    };
    let call = scheduler::Call { acknowledge_operation_status: Some(acknowledge), ..Default::default() };
    let scheduler = stage.scheduler.clone();
    stage.world.call(&scheduler, scheduler::call::Type::AcknowledgeOperationStatus, call);
}

#[test]
fn an_operations_end_is_told_until_it_is_acknowledged() {
    // M234, M235
    let mut stage = stage(in_roles("a", &["r"]), "cpus:4;mem:4096");
    let operation = reserve_identified(&mut stage);
    assert!(statuses(&mut stage).is_empty());
    assert_eq!(known(&mut stage)[0].latest_status.state(), v1::OperationState::OperationPending);
    let agent = stage.agent.clone();
    for _ in 0..2 {
        stage.world.agent_says(&agent, AgentMessage::OperationUpdate { operation: finished(operation.clone()) });
        let told = statuses(&mut stage);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].state(), v1::OperationState::OperationFinished);
    }
    acknowledge(&mut stage, [8; 16]);
    assert_eq!(known(&mut stage).len(), 1);
    acknowledge(&mut stage, [7; 16]);
    assert!(known(&mut stage).is_empty());
    let told = stage.world.read_agent(&agent);
    let ends = |message: &&MasterMessage| matches!(message, MasterMessage::AcknowledgeOperation { .. });
    assert_eq!(told.iter().filter(ends).count(), 1);
}

#[test]
fn an_operation_that_the_agent_never_got_is_dropped() {
    let mut stage = stage(in_roles("a", &["r"]), "cpus:4;mem:4096");
    reserve_identified(&mut stage);
    let info = stage.agent.info.clone();
    stage.world.register(info, Vec::new(), Vec::new(), Vec::new());
    let told = statuses(&mut stage);
    assert_eq!(told.iter().map(v1::OperationStatus::state).collect::<Vec<_>>(), [v1::OperationState::OperationDropped]);
    assert!(known(&mut stage).is_empty());
}

#[test]
fn operations_of_a_gone_framework_are_acknowledged_for_it() {
    let mut stage = stage(in_roles("a", &["r"]), "cpus:4;mem:4096");
    let operation = reserve_identified(&mut stage);
    let (scheduler, agent) = (stage.scheduler.clone(), stage.agent.clone());
    stage.world.simple(&scheduler, scheduler::call::Type::Teardown);
    stage.world.agent_says(&agent, AgentMessage::OperationUpdate { operation: finished(operation) });
    let told = stage.world.read_agent(&agent);
    assert!(told.iter().any(|message| matches!(
        message,
        MasterMessage::AcknowledgeOperation { status_uuid, .. } if *status_uuid == [7; 16]
    )));
    assert!(known(&mut stage).is_empty());
}
