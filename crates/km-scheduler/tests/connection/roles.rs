//! Offers of several agents and roles.

use km_mesos_proto::v1::{self, scheduler::call};

use crate::{
    Stand,
    cluster::pod,
    master::{FakeMaster, Reply},
    offer, offers_of, seen, tasks_of,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accept_is_for_one_agent_and_may_use_several_of_its_offers() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    let stand = Stand::set(master.address.to_string(), |_| ()).await;
    seen(&master, call::Type::Subscribe, 1).await;
    for name in ["p", "q"] {
        stand.create(&pod(name, "800m")).await;
    }
    // Neither offer of the first agent is enough for a pod and the executor, but both are.
    master.offer(vec![offer("o1", "a1", "*", 0.6), offer("o2", "a1", "*", 0.6), offer("o3", "a2", "*", 1.2)]);
    let accepts = seen(&master, call::Type::Accept, 2).await;
    let mut used: Vec<Vec<&str>> = accepts.iter().map(|accept| offers_of(accept).into_iter().collect()).collect();
    used.sort();
    assert_eq!(used, [vec!["o1", "o2"], vec!["o3"]]);
    assert_eq!(tasks_of(&accepts).len(), 2);
    stand.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pods_role_chooses_the_offer_and_is_on_every_resource() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    let stand = Stand::set(master.address.to_string(), |flags| {
        flags.mesos_framework_roles = vec!["a".to_owned(), "b".to_owned()];
        flags.mesos_default_pod_roles = vec!["a".to_owned()];
    })
    .await;
    let subscribe = seen(&master, call::Type::Subscribe, 1).await.remove(0).call.subscribe.unwrap();
    assert_eq!(subscribe.framework_info.roles, ["a", "b"]);
    // The first pod brings the executor, from its own role's offer.
    stand.create(&pod("p", "1")).await;
    master.offer(vec![offer("o1", "a1", "a", 4.0), offer("o2", "a1", "b", 4.0)]);
    let accepts = seen(&master, call::Type::Accept, 1).await;
    assert_eq!(offers_of(&accepts[0]), ["o1"].into());
    let first = tasks_of(&accepts).remove(0);
    let executor = first.executor.clone().unwrap();
    let resources = || first.resources.iter().chain(&executor.resources);
    assert!(resources().all(|resource| allocated_to(resource) == "a"), "{first:?}");

    let mut annotated = pod("q", "1");
    annotated.metadata.annotations = Some([("k8s.mesosphere.io/roles".to_owned(), "b".to_owned())].into());
    stand.submit(&annotated).await;
    let runs_already = |mut offer: v1::Offer| {
        offer.executor_ids = vec![executor.executor_id.clone()];
        offer
    };
    master.offer(vec![runs_already(offer("o3", "a1", "a", 2.0)), runs_already(offer("o4", "a1", "b", 4.0))]);
    let accepts = seen(&master, call::Type::Accept, 2).await;
    assert!(offers_of(&accepts[1]).is_subset(&["o2", "o4"].into()), "{:?}", offers_of(&accepts[1]));
    let second = tasks_of(&accepts).remove(1);
    assert!(second.resources.iter().all(|resource| allocated_to(resource) == "b"), "{second:?}");
    assert_eq!(second.executor, first.executor, "an executor stays what it is");
    stand.strike().await;
}

fn allocated_to(resource: &v1::Resource) -> &str {
    resource.allocation_info.as_ref().and_then(|info| info.role.as_deref()).unwrap_or("nobody")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_roles_pod_may_bring_the_executor() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    let stand = Stand::set(master.address.to_string(), |flags| {
        flags.mesos_framework_roles = vec!["a".to_owned(), "b".to_owned()];
        flags.mesos_default_pod_roles = vec!["a".to_owned()];
    })
    .await;
    seen(&master, call::Type::Subscribe, 1).await;
    let mut pod = pod("q", "1");
    pod.metadata.annotations = Some([("k8s.mesosphere.io/roles".to_owned(), "b".to_owned())].into());
    stand.create(&pod).await;
    master.offer(vec![offer("o1", "a1", "a", 4.0), offer("o2", "a1", "b", 4.0)]);
    let accepts = seen(&master, call::Type::Accept, 1).await;
    assert_eq!(offers_of(&accepts[0]), ["o2"].into());
    let task = tasks_of(&accepts).remove(0);
    let executor = task.executor.clone().unwrap();
    assert!(task.resources.iter().chain(&executor.resources).all(|one| allocated_to(one) == "b"), "{task:?}");
    stand.strike().await;
}

/// Both offers hold unreserved resources, but what is taken of them counts for the quota of the role they are made to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreserved_resources_offered_to_a_role_are_not_for_pods_of_another() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    let stand = Stand::set(master.address.to_string(), |flags| {
        flags.mesos_framework_roles = ["a", "b", "*"].map(str::to_owned).to_vec();
        flags.mesos_default_pod_roles = vec!["*".to_owned()];
    })
    .await;
    seen(&master, call::Type::Subscribe, 1).await;
    let mut pod = pod("q", "1");
    pod.metadata.annotations = Some([("k8s.mesosphere.io/roles".to_owned(), "b,*".to_owned())].into());
    stand.create(&pod).await;
    let unreserved = |mut offer: v1::Offer| {
        offer.resources.iter_mut().for_each(|resource| resource.reservations.clear());
        offer
    };
    master.offer(vec![unreserved(offer("o1", "a1", "a", 4.0)), unreserved(offer("o2", "a1", "b", 4.0))]);
    let accepts = seen(&master, call::Type::Accept, 1).await;
    assert_eq!(offers_of(&accepts[0]), ["o2"].into());
    let task = tasks_of(&accepts).remove(0);
    assert!(task.resources.iter().all(|one| allocated_to(one) == "b"), "{task:?}");
    stand.strike().await;
}
