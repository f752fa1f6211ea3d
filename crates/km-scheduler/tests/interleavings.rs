//! Invariants 1 to 4, 6 and 8 under random interleavings of everything that can happen, and liveness after it.

mod world;

use std::time::Duration;

use km_mesos_proto::v1::TaskState;
use km_podtask::PodKey;
use proptest::prelude::*;
use world::{World, spec};

#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Delete(u8),
    /// Deliver so many things, starting with this party.
    Deliver(u8, u8),
    Work,
    Allocate,
    Wait(u16),
    Partition(u8),
    Heal(u8),
    ExecutorDies(u8),
    Finish(u8, bool),
    Restart,
    Disconnect,
    Subscribe,
    ApiDown(bool),
    InDoubt(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<u8>().prop_map(Step::Create),
        2 => any::<u8>().prop_map(Step::Delete),
        8 => (any::<u8>(), 1..6u8).prop_map(|(party, count)| Step::Deliver(party, count)),
        4 => Just(Step::Work),
        4 => Just(Step::Allocate),
        5 => (1..3000u16).prop_map(Step::Wait),
        1 => (0..3u8).prop_map(Step::Partition),
        1 => (0..3u8).prop_map(Step::Heal),
        1 => (0..3u8).prop_map(Step::ExecutorDies),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(number, good)| Step::Finish(number, good)),
        1 => Just(Step::Restart),
        1 => Just(Step::Disconnect),
        1 => Just(Step::Subscribe),
        1 => any::<bool>().prop_map(Step::ApiDown),
        1 => any::<bool>().prop_map(Step::InDoubt),
    ]
}

fn play(world: &mut World, step: &Step, number: usize) {
    let agent = |which: u8| format!("agent{}", which % 3 + 1);
    let nth = |which: u8| {
        let keys: Vec<PodKey> = world.api.pods.keys().cloned().collect();
        (!keys.is_empty()).then(|| keys[usize::from(which) % keys.len()].clone())
    };
    match step {
        Step::Create(kind) => {
            let cpu = ["100m", "250m", "500m"][usize::from(kind % 3)];
            let port = (kind % 7 == 0).then_some(31_005);
            let owner = (kind % 2 == 0).then_some("rs");
            if !world.api.down && world.api.pods.len() < 20 {
                world.api.create(&format!("p{number}"), spec(cpu, "64Mi", port), owner);
            }
        }
        Step::Delete(which) => {
            if let Some(key) = nth(*which).filter(|_| !world.api.down) {
                world.api.delete(&key);
            }
        }
        Step::Deliver(party, count) => {
            world.mesos.deliver(world.now);
            for turn in 0..*count {
                world.deliver_one(usize::from(party.wrapping_add(turn)));
            }
        }
        Step::Work => world.mesos.work(&mut world.api),
        Step::Allocate if world.connected => world.mesos.allocate(world.now),
        Step::Wait(millis) => {
            world.now += Duration::from_millis(u64::from(*millis));
            world.send(km_scheduler::core::Event::Tick);
        }
        Step::Partition(which) => world.mesos.partition(&agent(*which)),
        Step::Heal(which) => world.mesos.heal(&agent(*which)),
        Step::ExecutorDies(which) => world.mesos.executor_dies(&agent(*which)),
        Step::Finish(which, good) => {
            let (state, phase) =
                if *good { (TaskState::TaskFinished, "Succeeded") } else { (TaskState::TaskFailed, "Failed") };
            world.mesos.finish(&mut world.api, usize::from(*which), state, phase);
        }
        Step::Restart if !world.api.down => world.restart(),
        Step::Disconnect => world.disconnect(),
        Step::Subscribe => world.subscribe(),
        Step::ApiDown(down) => world.api.down = *down,
        Step::InDoubt(arrives) => world.in_doubt = Some(*arrives),
        Step::Allocate | Step::Restart => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 300, ..ProptestConfig::default() })]

    /// The world checks the invariants at each step. When the faults end, every pod runs that can, every deleted pod is
    /// gone, and there is exactly one live task for each pod that runs.
    #[test]
    fn invariants_hold_whatever_happens(steps in proptest::collection::vec(step(), 1..120)) {
        let mut world = World::new(3);
        // So short that pods are evicted from partitioned agents.
        world.api.toleration = Some(2);
        for (number, step) in steps.iter().enumerate() {
            play(&mut world, step, number);
        }
        world.api.down = false;
        world.in_doubt = None;
        for agent in ["agent1", "agent2", "agent3"] {
            world.mesos.heal(agent);
        }
        if !world.connected {
            world.subscribe();
        }
        world.run(Duration::from_secs(400));
        let mut alive = 0;
        for (key, pod) in &world.api.pods {
            if km_kube::pod::is_terminal(pod) {
                continue;
            }
            alive += 1;
            // Three agents have the port that some pods name, so at most three of these run.
            let named = pod.spec.as_ref().is_some_and(|spec| {
                spec.containers.iter().flat_map(|one| one.ports.iter().flatten()).any(|port| port.host_port.is_some())
            });
            prop_assert!(pod.metadata.deletion_timestamp.is_none(), "{key} isn't gone");
            prop_assert!(named || km_kube::pod::phase(pod) == "Running", "{key} doesn't run");
            if km_kube::pod::phase(pod) != "Running" {
                alive -= 1;
            }
        }
        prop_assert_eq!(world.live_tasks(), alive, "invariant 5: a live task for each running pod");
        for agent in world.mesos.agents.values() {
            prop_assert!(agent.tasks.values().all(|task| task.updates.is_empty()), "everything is acknowledged");
        }
    }
}
