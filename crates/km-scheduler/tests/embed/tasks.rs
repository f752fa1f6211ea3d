//! A pod as a task: ranges, ports, what an offer must have, and what is launched.

use k8s_openapi::api::core::v1::Pod;
use km_mesos_proto::{resources::Resources, v1};
use km_scheduler::embed::{PodTask, SelectedMachine, TASK_NAME, new_ranges};

use super::{executor, offer, pod_with_ports};

/// A task of a pod with such host ports that may run on such machines.
pub fn task(name: &str, ports: &[i32], machines: &[&str]) -> PodTask {
    let machines = machines.iter().map(|machine| (*machine).to_owned()).collect();
    PodTask::new(format!("task-{name}"), pod_with_ports(name, ports), machines, executor())
}

#[test]
fn each_port_is_a_range_of_its_own() {
    type Case<'a> = (&'a [u64], &'a [(u64, u64)]);
    let table: [Case<'_>; 3] =
        [(&[80, 81, 81], &[(80, 80), (81, 81), (81, 81)]), (&[], &[]), (&[9, 7], &[(9, 9), (7, 7)])];
    for (ports, expected) in table {
        let ranges: Vec<(u64, u64)> = new_ranges(ports).range.iter().map(|range| (range.begin, range.end)).collect();
        assert_eq!(ranges, expected);
    }
}

#[test]
fn a_new_task_waits() {
    let mut task = task("web", &[], &["h1", "h2"]);
    assert_eq!((task.id.as_str(), task.machines.len(), task.task_info.name.as_str()), ("task-web", 2, TASK_NAME));
    assert!(task.offer_ids.is_empty() && task.task_info.data.is_none());
    assert_eq!(task.task_info.executor, Some(executor()));
    assert_eq!(task.selected_machine, SelectedMachine::default());
    // There is room for one machine.
    assert_eq!(task.selected_machine.put("h1".into()), Ok(()));
    assert_eq!(task.selected_machine.put("h2".into()), Err("h2".into()));
    assert_eq!(task.selected_machine.take().as_deref(), Some("h1"));
    assert_eq!(task.selected_machine.take(), None);
}

#[test]
fn all_host_ports_are_listed_in_order() {
    let mut task = task("web", &[80, 0, 443], &[]);
    let container = task.pod.spec.as_ref().unwrap().containers[0].clone();
    task.pod.spec.as_mut().unwrap().containers.push(container);
    assert_eq!(task.ports(), [80, 0, 443, 80, 0, 443]);
    task.pod = Pod::default();
    assert!(task.ports().is_empty());
}

#[test]
fn an_offer_must_have_cpu_memory_and_all_ports() {
    let table: [(&str, &[i32], bool); 13] = [
        ("cpus:1;mem:512", &[], true),
        ("cpus:0.999;mem:512", &[], false),
        ("cpus:1;mem:511.999", &[], false),
        ("cpus:1", &[], false),
        ("mem:512", &[], false),
        ("cpus:1;mem:512;ports:[80-90]", &[80], true),
        ("cpus:1;mem:512;ports:[80-90]", &[90], true),
        ("cpus:1;mem:512;ports:[80-90]", &[79], false),
        ("cpus:1;mem:512;ports:[80-90]", &[91], false),
        ("cpus:1;mem:512;ports:[80-90,100-100]", &[100, 85], true),
        // No port is asked for; the original took zero for one, so such pods never fitted.
        ("cpus:1;mem:512", &[0], true),
        // Reserved and unreserved amounts add up; the original saw the last only.
        ("cpus(web):0.5;cpus:0.5;mem:512", &[], true),
        ("cpus:1;mem:512;ports(web):[80-90]", &[80], true),
    ];
    for (resources, ports, expected) in table {
        let accepted = task("web", ports, &[]).accept_offer(&offer("o1", "a1", resources));
        assert_eq!(accepted, expected, "{resources}, ports {ports:?}");
    }
}

#[test]
fn the_executor_must_fit_too_where_it_does_not_run_yet() {
    let mut task = task("web", &[], &[]);
    let resources = Resources::parse("cpus:0.5;mem:64", "*").unwrap().to_protos();
    task.task_info.executor = Some(v1::ExecutorInfo { resources, ..executor() });
    let mut offer = offer("o1", "a1", "cpus:1;mem:512");
    assert!(!task.accept_offer(&offer));
    offer.executor_ids = vec![executor().executor_id];
    assert!(task.accept_offer(&offer));
}

#[test]
fn a_filled_in_task_carries_everything() {
    let mut task = task("web", &[31005, 0, 31007], &["host-a1"]);
    let offer = offer("o1", "a1", "cpus:2;mem:1024;ports:[31000-31010]");
    task.fill_task_info(&offer).unwrap();
    let info = &task.task_info;
    assert_eq!((info.task_id.value.as_str(), info.agent_id.value.as_str()), ("task-web", "a1"));
    assert_eq!((info.name.as_str(), &info.executor), (TASK_NAME, &Some(executor())));
    let taken = Resources::from_protos(&info.resources).unwrap();
    let expected = Resources::parse("cpus:1;mem:512;ports:[31005-31005,31007-31007]", "*").unwrap();
    assert_eq!(taken, expected);
    let manifest: Pod = serde_saphyr::from_str(std::str::from_utf8(info.data()).unwrap()).unwrap();
    assert_eq!(manifest, task.pod);
    assert_eq!(task.offer_ids.len(), 1);
    assert_eq!(task.offer_ids[0], offer.id);
    let text = String::from_utf8(info.data().to_vec()).unwrap();
    assert!(text.lines().any(|line| line == "kind: Pod"), "{text}");

    let mut poor = super::offer("o2", "a1", "cpus:0.5;mem:512");
    poor.agent_id = "a2".into();
    assert!(task.fill_task_info(&poor).is_err());
    assert_eq!(task.offer_ids, [offer.id], "a failure changes nothing");
}
