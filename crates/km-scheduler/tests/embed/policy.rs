//! Who gets which offer: scheduling, offers that come and go, and the policy.

use std::{io, time::Duration};

use km_scheduler::embed::{Error, PodTask, Slaves, fcfs};

use super::{Call, Stage, big_offer, eventually, host, key, offer, pod, pod_with_ports};

#[test]
fn scheduling_waits_for_an_offer_that_fits() {
    let stage = Stage::new();
    let waiting = stage.schedule(pod_with_ports("web", &[31005]), &["host-a1", "host-a2"]);
    eventually("the pod waits", || stage.scheduler.get_pod(&key("web")).is_ok());
    for too_little in [
        offer("o1", "a1", "cpus:0.9;mem:4096;ports:[31000-31100]"),
        offer("o2", "a1", "cpus:4;mem:511;ports:[31000-31100]"),
        offer("o3", "a1", "cpus:4;mem:4096;ports:[31006-31100]"),
        big_offer("o4", "elsewhere"),
    ] {
        stage.scheduler.resource_offers(vec![too_little]);
        assert!(!waiting.is_finished());
    }
    stage.scheduler.resource_offers(vec![big_offer("o5", "a2")]);
    assert_eq!(waiting.join().unwrap().unwrap(), "host-a2");
    assert_eq!(stage.scheduler.offers().len(), 4, "what doesn't fit is kept");
}

#[test]
fn a_failed_list_of_machines_is_returned_at_once() {
    let stage = Stage::new();
    let failed = stage.scheduler.schedule(pod("web"), || Err(io::Error::other("no list")));
    assert!(matches!(&failed, Err(Error::Machines(error)) if error.to_string() == "no list"), "{failed:?}");
    assert!(matches!(stage.scheduler.get_pod(&key("web")), Err(Error::UnknownPod(_))));
}

#[test]
fn patience_ends_and_a_second_call_takes_over() {
    let stage = Stage::new();
    let machines = || Ok::<_, io::Error>(vec![host("a1")]);
    let late = stage.scheduler.schedule_within(Duration::from_millis(1), pod("web"), machines);
    assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    assert!(matches!(stage.scheduler.get_pod(&key("web")), Err(Error::UnknownPod(_))), "the pod is forgotten");

    let first = stage.schedule(pod("web"), &["host-a1"]);
    eventually("the pod waits", || stage.scheduler.get_pod(&key("web")).is_ok());
    let second = stage.schedule(pod("web"), &["host-a2"]);
    assert!(matches!(first.join().unwrap(), Err(Error::Superseded(_))));
    stage.scheduler.resource_offers(vec![big_offer("o1", "a2")]);
    assert_eq!(second.join().unwrap().unwrap(), "host-a2");
    stage.scheduler.create_pod(&key("web")).unwrap();
    let launched = stage.schedule(pod("web"), &["host-a1"]).join().unwrap();
    assert!(matches!(launched, Err(Error::AlreadyLaunched(_))), "{launched:?}");
}

#[test]
fn a_rescinded_offer_is_not_used() {
    let stage = Stage::new();
    stage.scheduler.resource_offers(vec![big_offer("o1", "a1"), big_offer("o2", "a1")]);
    stage.scheduler.offer_rescinded("o1".into());
    stage.scheduler.offer_rescinded("never-made".into());
    stage.schedule(pod("web"), &["host-a1"]).join().unwrap().unwrap();
    stage.scheduler.create_pod(&key("web")).unwrap();
    assert!(matches!(&stage.driver.calls()[..], [Call::Launch(offers, _)] if offers[..] == ["o2"]));
    assert!(stage.scheduler.offers().is_empty());
}

#[test]
fn offers_are_kept_by_agent_and_wake_all_that_wait() {
    let stage = Stage::new();
    let first = stage.schedule(pod("first"), &["host-a1"]);
    let second = stage.schedule(pod("second"), &["host-a2"]);
    eventually("both wait", || ["first", "second"].iter().all(|name| stage.scheduler.get_pod(&key(name)).is_ok()));
    stage.scheduler.resource_offers(vec![big_offer("o1", "a1"), big_offer("o2", "a2"), big_offer("o3", "a2")]);
    assert_eq!(first.join().unwrap().unwrap(), "host-a1");
    assert_eq!(second.join().unwrap().unwrap(), "host-a2");
    let slaves: Vec<(String, String)> = stage.scheduler.slaves().into_iter().collect();
    assert_eq!(slaves, [("a1".into(), "host-a1".into()), ("a2".into(), "host-a2".into())]);
    // An agent stays known, and keeps its first host name.
    let mut renamed = big_offer("o4", "a1");
    renamed.hostname = "renamed".to_owned();
    stage.scheduler.resource_offers(vec![renamed]);
    assert_eq!(stage.scheduler.slaves()["a1"], "host-a1");
}

#[test]
fn free_offers_can_be_returned() {
    let stage = Stage::new();
    stage.launch("web", "o1", "a1");
    stage.scheduler.resource_offers(vec![big_offer("o2", "a1"), big_offer("o3", "a2")]);
    stage.scheduler.return_offers().unwrap();
    assert_eq!(stage.driver.calls().last(), Some(&Call::Decline(vec!["o2".into(), "o3".into()])));
    assert!(stage.scheduler.offers().is_empty());
}

/// A policy that likes the agent with the greatest id.
fn last_agent_first(slaves: &Slaves<'_>, tasks: &mut [&mut PodTask]) -> Vec<String> {
    let mut placed = Vec::new();
    let mut free: Vec<_> = slaves.values().rev().flat_map(|slave| slave.offers.values()).collect();
    for task in tasks {
        let Some(index) = free.iter().position(|offer| task.accept_offer(offer)) else { continue };
        let offer = free.remove(index);
        task.fill_task_info(offer).unwrap();
        task.selected_machine.put(offer.hostname.clone()).unwrap();
        placed.push(task.id.clone());
    }
    placed
}

#[test]
fn another_policy_chooses_another_machine() {
    for (stage, expected) in [(Stage::new(), "host-a1"), (Stage::with(last_agent_first), "host-a9")] {
        stage.scheduler.resource_offers(vec![big_offer("o1", "a1"), big_offer("o9", "a9")]);
        let machines = ["host-a1", "host-a9"];
        assert_eq!(stage.schedule(pod("web"), &machines).join().unwrap().unwrap(), expected);
    }
}

#[test]
fn a_policy_that_breaks_the_rules_is_undone() {
    type Rule = fn(&Slaves<'_>, &mut [&mut PodTask]) -> Vec<String>;
    let table: [(&str, Rule); 4] = [
        ("names a task that isn't there", |_, _| vec!["nobody".into()]),
        ("names a task that it didn't fill in", |_, tasks| vec![tasks[0].id.clone()]),
        ("fills one in without naming it", |slaves, tasks| {
            tasks[0].fill_task_info(slaves["a1"].offers["o1"]).unwrap();
            tasks[0].selected_machine.put("host-a1".into()).unwrap();
            Vec::new()
        }),
        ("uses an offer that was never made", |_, tasks| {
            tasks[0].fill_task_info(&big_offer("forged", "a1")).unwrap();
            tasks[0].selected_machine.put("host-a1".into()).unwrap();
            vec![tasks[0].id.clone()]
        }),
    ];
    for (what, rule) in table {
        let stage = Stage::with(rule);
        stage.scheduler.resource_offers(vec![big_offer("o1", "a1")]);
        let machines = || Ok::<_, io::Error>(vec![host("a1")]);
        let waited = stage.scheduler.schedule_within(Duration::from_millis(1), pod("web"), machines);
        assert!(matches!(waited, Err(Error::TimedOut { .. })), "{what}: {waited:?}");
        assert_eq!(stage.scheduler.offers().len(), 1, "{what}");
    }
}

#[test]
fn first_come_first_served_places_one_task_a_call() {
    use super::tasks::task;
    use km_scheduler::embed::Slave;
    let offers = [big_offer("o1", "a1"), big_offer("o2", "a2")];
    let slaves = |count: usize| -> Slaves<'_> {
        offers[..count]
            .iter()
            .map(|offer| {
                let free = [(offer.id.value.as_str(), offer)].into();
                (offer.agent_id.value.as_str(), Slave { hostname: &offer.hostname, offers: free })
            })
            .collect()
    };
    // Machines of two tasks, number of offers, which task is placed where.
    type Case<'a> = (&'a [&'a str], &'a [&'a str], usize, Option<(usize, &'a str)>);
    let table: [Case<'_>; 5] = [
        (&["host-a1"], &["host-a1"], 1, Some((0, "host-a1"))),
        (&["host-a2"], &["host-a1"], 1, Some((1, "host-a1"))),
        (&["host-a2", "host-a1"], &["host-a1"], 2, Some((0, "host-a1"))),
        (&["elsewhere"], &[], 2, None),
        (&["host-a1"], &["host-a1"], 0, None),
    ];
    for (first, second, count, expected) in table {
        let mut tasks = [task("first", &[], first), task("second", &[], second)];
        let placed = fcfs(&slaves(count), &mut tasks.iter_mut().collect::<Vec<_>>());
        match expected {
            None => assert!(placed.is_empty()),
            Some((index, host)) => {
                assert_eq!(placed, [tasks[index].id.clone()]);
                assert_eq!(tasks[index].selected_machine.take().as_deref(), Some(host));
                assert_eq!(tasks[index].offer_ids.len(), 1);
                assert!(tasks[1 - index].offer_ids.is_empty());
            }
        }
    }
}
