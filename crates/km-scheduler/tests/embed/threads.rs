//! Callbacks, scheduling and looks at pods from many threads at once.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use km_kube::selector::LabelSelector;
use km_mesos_proto::v1::TaskState;

use super::{Call, Stage, big_offer, host, key, pod, status};

const PODS: usize = 64;

#[test]
fn everything_may_happen_at_once() {
    let stage = Arc::new(Stage::new());
    let launched = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..PODS {
            let (stage, launched) = (&stage, &launched);
            scope.spawn(move || {
                let name = format!("pod-{number}");
                let machines = || Ok::<_, Infallible>((0..4).map(|agent| host(&agent.to_string())).collect());
                stage.scheduler.schedule(pod(&name), machines).unwrap();
                stage.scheduler.create_pod(&key(&name)).unwrap();
                launched.fetch_add(1, Ordering::SeqCst);
            });
        }
        // Offers come and go while pods are scheduled.
        scope.spawn(|| {
            for number in 0.. {
                if launched.load(Ordering::SeqCst) == PODS {
                    return;
                }
                let agent = (number % 4).to_string();
                let (kept, taken_back) = (format!("kept-{number}"), format!("back-{number}"));
                stage.scheduler.offer_rescinded(taken_back.as_str().into());
                stage.scheduler.resource_offers(vec![big_offer(&kept, &agent)]);
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            while launched.load(Ordering::SeqCst) < PODS {
                assert!(stage.scheduler.list_pods(&LabelSelector::everything()).len() <= PODS);
                thread::yield_now();
            }
        });
    });
    let launches = stage.driver.calls();
    let mut offers = BTreeSet::new();
    for call in &launches {
        let Call::Launch(used, tasks) = call else { panic!("{call:?} is no launch") };
        assert_eq!((used.len(), tasks.len()), (1, 1));
        assert!(offers.insert(used[0].clone()), "offer {} was used twice", used[0]);
    }
    assert_eq!(launches.len(), PODS);

    // All of them run and end, again from several threads.
    thread::scope(|scope| {
        for call in &launches {
            let Call::Launch(_, tasks) = call else { continue };
            let scheduler = &stage.scheduler;
            scope.spawn(move || {
                scheduler.status_update(status(&tasks[0], TaskState::TaskRunning));
                scheduler.status_update(status(&tasks[0], TaskState::TaskFinished));
            });
        }
    });
    assert!(stage.scheduler.list_pods(&LabelSelector::everything()).is_empty());
}
