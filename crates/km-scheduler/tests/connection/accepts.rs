//! Calls that fail, and launches of which nobody knows.

use std::sync::atomic::{AtomicUsize, Ordering};

use km_mesos_proto::v1::{
    TaskInfo, TaskState,
    scheduler::{Call, call},
};

use crate::{
    Stand,
    cluster::{pod, wait},
    master::{FakeMaster, Reply, Seen},
    offer, offers_of, reconciled, seen, tasks_of,
};

/// Does to the first call of a kind what `first` says, and accepts all else.
fn once(kind: call::Type, first: impl Fn() -> Reply) -> impl Fn(&Call) -> Reply {
    let met = AtomicUsize::new(0);
    move |call| match call.r#type() == kind && met.fetch_add(1, Ordering::SeqCst) == 0 {
        true => first(),
        false => Reply::Accept,
    }
}

/// Waits until the master is asked what became of a task.
async fn is_asked_about(master: &FakeMaster, task: &TaskInfo) {
    let names = |seen: &Seen| {
        let reconcile = seen.call.reconcile.as_ref();
        reconcile.is_some_and(|reconcile| reconcile.tasks.iter().any(|one| one.task_id == task.task_id))
    };
    wait("a reconciliation of the task", async || master.seen(call::Type::Reconcile).iter().any(names).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_launch_in_doubt_that_arrived_is_not_repeated() {
    let master = FakeMaster::start(once(call::Type::Accept, || Reply::Crash)).await;
    let stand = Stand::set(master.address.to_string(), |_| ()).await;
    seen(&master, call::Type::Subscribe, 1).await;
    stand.create(&pod("p", "1")).await;
    master.offer(vec![offer("o1", "a1", "*", 4.0)]);
    let task = tasks_of(&seen(&master, call::Type::Accept, 1).await).remove(0);

    is_asked_about(&master, &task).await;
    master.send(&reconciled(&task, TaskState::TaskRunning));
    // A second pod shows that the scheduler has gone on; the first is in no further launch.
    stand.create(&pod("q", "1")).await;
    master.offer(vec![offer("o2", "a1", "*", 4.0)]);
    let tasks = tasks_of(&seen(&master, call::Type::Accept, 2).await);
    assert_eq!(tasks.iter().filter(|one| one.name == task.name).count(), 1, "{tasks:?}");
    assert!(master.seen(call::Type::Kill).is_empty());
    assert!(master.seen(call::Type::Accept).iter().all(|seen| seen.current), "no call carries an old stream id");
    stand.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_launch_in_doubt_that_did_not_arrive_is_made_anew_from_other_offers() {
    let master = FakeMaster::start(once(call::Type::Accept, || Reply::Crash)).await;
    let stand = Stand::set(master.address.to_string(), |_| ()).await;
    seen(&master, call::Type::Subscribe, 1).await;
    stand.create(&pod("p", "1")).await;
    master.offer(vec![offer("o1", "a1", "*", 4.0)]);
    let first = tasks_of(&seen(&master, call::Type::Accept, 1).await).remove(0);

    is_asked_about(&master, &first).await;
    master.send(&reconciled(&first, TaskState::TaskGone));
    stand.waits("p").await;
    master.offer(vec![offer("o2", "a1", "*", 4.0)]);
    let accepts = seen(&master, call::Type::Accept, 2).await;
    let second = &tasks_of(&accepts)[1];
    assert!(second.name == first.name && second.task_id != first.task_id, "the same pod in another task");
    assert_eq!(offers_of(&accepts[1]), ["o2"].into());
    assert!(accepts.iter().all(|seen| seen.current), "no call carries an old stream id");
    stand.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_calls_cost_no_pod() {
    let long = "x".repeat(1 << 20);
    let cases = [
        (call::Type::Decline, 400, long.as_str()),
        (call::Type::Accept, 400, "Expecting 'offer_ids' to be present"),
        (call::Type::Accept, 403, "Framework is not subscribed"),
    ];
    for (kind, status, reason) in cases {
        let reason = reason.to_owned();
        let script = once(kind, move || Reply::Refuse(status, reason.clone()));
        let master = FakeMaster::start(script).await;
        let stand = Stand::set(master.address.to_string(), |_| ()).await;
        seen(&master, call::Type::Subscribe, 1).await;
        if kind == call::Type::Accept {
            stand.create(&pod("p", "1")).await;
        }
        master.offer(vec![offer("o1", "a1", "*", 4.0)]);
        seen(&master, kind, 1).await;
        // What was offered may be lost to both sides, so the subscription is renewed; the pod is placed in it.
        seen(&master, call::Type::Subscribe, 2).await;
        match kind {
            call::Type::Decline => stand.create(&pod("p", "1")).await,
            _ => stand.waits("p").await,
        }
        master.offer(vec![offer("o2", "a1", "*", 4.0)]);
        let accepts = wait("a launch from the second offer", async || {
            let accepts = master.seen(call::Type::Accept);
            accepts.iter().any(|accept| offers_of(accept) == ["o2"].into()).then_some(accepts)
        });
        let tasks = tasks_of(&accepts.await);
        assert_eq!(tasks.last().map(|task| task.name.as_str()), Some("p.default.pod"));
        stand.strike().await;
    }
}
