//! Subscriptions end in many ways; all but one are followed by the next.

use km_mesos_proto::v1::scheduler::call;

use crate::{
    Stand,
    cluster::{PATIENCE, pod},
    error,
    master::{FakeMaster, Reply},
    offer, offers_of, seen,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_masters_restart_old_offers_are_not_used() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    let stand = Stand::set(master.address.to_string(), |_| ()).await;
    seen(&master, call::Type::Subscribe, 1).await;
    master.offer(vec![offer("old", "a1", "*", 4.0)]);
    master.cut();
    stand.create(&pod("p", "1")).await;
    let subscriptions = seen(&master, call::Type::Subscribe, 2).await;
    let ids: Vec<_> = subscriptions.iter().map(|seen| seen.call.framework_id.clone()).collect();
    assert_eq!(ids, [None, Some("framework-1".into())], "the id is kept");
    master.offer(vec![offer("new", "a1", "*", 4.0)]);
    let accepts = seen(&master, call::Type::Accept, 1).await;
    assert_eq!(offers_of(&accepts[0]), ["new"].into());
    stand.strike().await;
}

/// Offers that nobody wants would be declined one by one. Only where the master tells its agents: otherwise their offers are
/// all that shows them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_begins_without_offers_when_nothing_waits() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    master.tell_agents();
    master.tell_version("1.11.0");
    let stand = Stand::set(master.address.to_string(), |_| ()).await;
    let suppressed = async |count: usize| {
        let subscriptions = seen(&master, call::Type::Subscribe, count).await;
        subscriptions[count - 1].call.subscribe.clone().unwrap().suppressed_roles
    };
    seen(&master, call::Type::Suppress, 1).await;
    master.cut();
    assert_eq!(suppressed(1).await, [""; 0]);
    assert_eq!(suppressed(2).await, ["*"]);
    // It says anew which roles are suppressed.
    let updates = seen(&master, call::Type::UpdateFramework, 2).await;
    assert_eq!(updates[1].call.update_framework.clone().unwrap().suppressed_roles, ["*"]);
    stand.create(&pod("p", "1")).await;
    seen(&master, call::Type::Revive, 1).await;
    master.cut();
    assert_eq!(suppressed(3).await, [""; 0], "a pod waits");
    master.offer(vec![offer("o", "a1", "*", 4.0)]);
    seen(&master, call::Type::Accept, 1).await;
    stand.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_master_is_subscribed_to_again() {
    // Heartbeats are announced, and none comes; the connection stays open.
    let master = FakeMaster::with_heartbeat(0.1, |_| Reply::Accept).await;
    let stand = Stand::set(master.address.to_string(), |_| ()).await;
    let subscriptions = seen(&master, call::Type::Subscribe, 2).await;
    assert_eq!(subscriptions[1].call.framework_id, Some("framework-1".into()));
    stand.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_master_of_a_list_is_followed_when_the_first_dies() {
    let (first, second) = (FakeMaster::start(|_| Reply::Accept).await, FakeMaster::start(|_| Reply::Accept).await);
    let stand = Stand::set(format!("{},{}", first.address, second.address), |_| ()).await;
    seen(&first, call::Type::Subscribe, 1).await;
    first.die();
    let subscriptions = seen(&second, call::Type::Subscribe, 1).await;
    assert_eq!(subscriptions[0].call.framework_id, Some("framework-1".into()));
    stand.create(&pod("p", "1")).await;
    second.offer(vec![offer("o", "a1", "*", 4.0)]);
    seen(&second, call::Type::Accept, 1).await;
    stand.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_whose_framework_another_took_over_ends_and_does_not_fight() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    let stand = Stand::set(master.address.to_string(), |_| ()).await;
    seen(&master, call::Type::Subscribe, 1).await;
    master.send(&error("Framework failed over"));
    let ended = tokio::time::timeout(PATIENCE, stand.scheduler.join()).await.unwrap();
    assert!(ended.unwrap_err().to_string().contains("another scheduler subscribed"));
    assert_eq!(master.seen(call::Type::Subscribe).len(), 1);
    stand.cluster.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_is_stopped_leaves_its_framework_alone() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    let stand = Stand::set(master.address.to_string(), |_| ()).await;
    seen(&master, call::Type::Subscribe, 1).await;
    stand.create(&pod("p", "1")).await;
    master.offer(vec![offer("o", "a1", "*", 4.0)]);
    seen(&master, call::Type::Accept, 1).await;
    stand.strike().await;
    for kind in [call::Type::Teardown, call::Type::Kill, call::Type::Shutdown] {
        assert!(master.seen(kind).is_empty(), "{}", kind.as_str_name());
    }
}
