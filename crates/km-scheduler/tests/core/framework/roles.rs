//! Roles that come and go.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use km_mesos_proto::v1;
use km_offers::DeclineReason;
use km_scheduler::core::{Action, CallOutcome, Event};
use serde_json::json;

use super::{FrameworkAnswer, SECOND, Stage, framework};

fn offer(id: &str, agent: &str, role: &str) -> v1::Offer {
    let allocation_info = Some(v1::resource::AllocationInfo { role: Some(role.to_owned()) });
    let reservation = v1::resource::ReservationInfo {
        r#type: Some(v1::resource::reservation_info::Type::Dynamic.into()),
        role: Some(role.to_owned()),
        ..v1::resource::ReservationInfo::default()
    };
    let scalar = |name: &str, value: f64| v1::Resource {
        name: name.to_owned(),
        r#type: v1::value::Type::Scalar.into(),
        scalar: Some(v1::value::Scalar { value }),
        allocation_info: allocation_info.clone(),
        reservations: vec![reservation.clone()],
        ..v1::Resource::default()
    };
    v1::Offer {
        id: id.into(),
        agent_id: agent.into(),
        hostname: format!("host-of-{agent}"),
        resources: vec![scalar("cpus", 4.0), scalar("mem", 4096.0)],
        allocation_info: allocation_info.clone(),
        ..v1::Offer::default()
    }
}

fn pod(name: &str, role: &str) -> Event {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-of-{name}"),
            "annotations": { "k8s.mesosphere.io/roles": role },
        },
        "spec": { "containers": [{ "name": "main", "image": "none", "resources": { "requests": { "cpu": "1" } } }] },
    }))
    .expect("a pod");
    Event::PodApplied(Arc::new(pod))
}

fn used(stage: &Stage) -> Vec<&str> {
    fn offers(action: &Action) -> Option<&Vec<v1::OfferId>> {
        if let Action::Accept { offers, .. } = action { Some(offers) } else { None }
    }
    stage.actions.iter().filter_map(offers).flatten().map(|id| id.value.as_str()).collect()
}

#[test]
fn a_pod_whose_role_is_added_asks_for_offers_and_is_placed() {
    let mut stage = Stage::new(framework(&["a"], "old"), true);
    stage.tell(pod("p", "b"));
    stage.tell(Event::Offers(vec![offer("o1", "a1", "a")]));
    stage.run(SECOND * 3);
    assert_eq!(used(&stage), [""; 0]);
    let revives = |stage: &Stage| stage.count(|action| *action == Action::Revive);
    let before = revives(&stage);
    stage.configure(&framework(&["a", "b"], "new"));
    stage.answer(FrameworkAnswer::Accepted);
    stage.run(SECOND);
    assert!(revives(&stage) > before);
    stage.tell(Event::Offers(vec![offer("o2", "a2", "b")]));
    stage.run(SECOND);
    assert_eq!(used(&stage), ["o2"]);
}

#[test]
fn offers_of_a_role_that_goes_go_back_and_its_pods_stay() {
    let mut stage = Stage::new(framework(&["a", "b"], "old"), true);
    stage.tell(pod("runs", "a"));
    stage.tell(Event::Offers(vec![offer("o1", "a1", "a")]));
    stage.run(SECOND);
    assert_eq!(used(&stage), ["o1"]);
    stage.tell(Event::AcceptResult { batch: 0, outcome: CallOutcome::Accepted });
    // Those that wait keep what is offered from going back for other reasons.
    stage.tell(pod("waits", "c"));
    stage.tell(pod("orphan", "a"));
    stage.now += SECOND / 1000;
    stage.tell(Event::Offers(vec![offer("o2", "a2", "a"), offer("o3", "a3", "b")]));
    stage.actions.clear();
    stage.configure(&framework(&["b"], "new"));
    assert_eq!(stage.declined(DeclineReason::Unwanted), ["o2"]);
    let order = |pleases: fn(&Action) -> bool| stage.actions.iter().position(pleases);
    let update = order(|action| matches!(action, Action::UpdateFramework { .. }));
    assert!(order(|action| matches!(action, Action::Decline { .. })) < update && update.is_some());
    stage.answer(FrameworkAnswer::Accepted);
    // One that was on its way.
    stage.tell(Event::Offers(vec![offer("o4", "a4", "a")]));
    stage.run(SECOND * 10);
    assert_eq!(stage.declined(DeclineReason::Unwanted), ["o2", "o4"]);
    let ends = |action: &Action| {
        matches!(
            action,
            Action::Kill { .. } | Action::DeletePod { .. } | Action::EvictPod { .. } | Action::Message { .. }
        )
    };
    assert_eq!(stage.count(ends), 0);
    let tasks = stage.core.task_lines();
    assert_eq!(tasks.iter().map(|task| task.pod.as_str()).collect::<Vec<_>>(), ["default/runs"]);
    assert_eq!(used(&stage), [""; 0], "no pod of that role is placed any more");
}
