//! Whatever happens in whatever order, the numbered promises of a pod hold (they are asserted in `world`).

use proptest::prelude::*;
use serde_json::{Value, from_value, json};

use super::world::World;
use crate::{Event, Hook, ProbeKind, StartFailure, StopCause};

#[derive(Clone, Debug)]
enum Step {
    Answer { index: usize, good: bool },
    Exit { index: usize, code: i32 },
    Obey,
    Pass,
    Stop { cause: StopCause, grace: u64 },
    Stray(usize),
    Update { image: bool, milli_cpu: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(index, good)| Step::Answer { index, good }),
        4 => (any::<usize>(), prop_oneof![Just(0), Just(1)]).prop_map(|(index, code)| Step::Exit { index, code }),
        2 => Just(Step::Obey),
        3 => Just(Step::Pass),
        1 => (0..4usize, 0..40u64).prop_map(|(cause, grace)| {
            let causes = [StopCause::Deleted, StopCause::Gone, StopCause::Killed, StopCause::Shutdown];
            Step::Stop { cause: causes[cause], grace }
        }),
        2 => (0..10usize).prop_map(Step::Stray),
        2 => (any::<bool>(), 1..9i64).prop_map(|(image, cpu)| Step::Update { image, milli_cpu: cpu * 100 }),
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    (
        prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
        0..2usize,
        any::<bool>(),
        1..3usize,
        any::<bool>(),
        prop::option::of(1..100i64),
    )
        .prop_map(|(policy, inits, sidecar, mains, probed, deadline)| {
            let mut init: Vec<Value> =
                (0..inits).map(|index| json!({"name": format!("i{index}"), "image": "x:1"})).collect();
            if sidecar {
                init.push(json!({"name": "side", "image": "x:1", "restartPolicy": "Always"}));
            }
            let main = |index| {
                let mut container = json!({"name": format!("m{index}"), "image": "x"});
                if probed {
                    container["livenessProbe"] = json!({"tcpSocket": {"port": 1}, "failureThreshold": 1});
                    container["lifecycle"] = json!({"postStart": {"httpGet": {"port": 1}},
                                                    "preStop": {"sleep": {"seconds": 1}}});
                }
                container
            };
            let containers: Vec<Value> = (0..mains).map(main).collect();
            json!({"restartPolicy": policy, "initContainers": init, "containers": containers,
                   "activeDeadlineSeconds": deadline})
        })
}

/// An event that fits nothing that was asked.
fn stray(world: &World, which: usize) -> Event {
    let (container, attempt) = ("m0".to_owned(), 99);
    match which {
        0 => Event::Start,
        1 => Event::Timer,
        2 => Event::Started { container, attempt, at: world.wall() },
        3 => Event::StartFailed { container, attempt, failure: StartFailure::Config("late".into()) },
        4 => Event::Exited { container, attempt, exit: world.exit(1) },
        5 => Event::Probed { container, attempt, kind: ProbeKind::Liveness, result: Err("late".into()) },
        6 => Event::HookFinished { container, attempt, hook: Hook::PostStart, result: Err("late".into()) },
        7 => Event::PullFailed { container: "none".into(), message: "late".into() },
        8 => Event::Exited { container: "none".into(), attempt: 0, exit: world.exit(1) },
        _ => Event::StartFailed { container: "none".into(), attempt: 0, failure: StartFailure::Create("x".into()) },
    }
}

fn play(world: &mut World, step: Step) {
    match step {
        Step::Answer { index, good } if !world.open.is_empty() => world.answer(index % world.open.len(), good),
        Step::Exit { index, code } if !world.live.is_empty() => {
            let (name, attempt) = world.live.iter().nth(index % world.live.len()).unwrap().clone();
            // A process that was asked for but not confirmed may end as well; its start call answers no more.
            let starting = |action: &crate::Action| matches!(action, crate::Action::StartContainer { container, .. } if *container == name);
            world.open.retain(|action| !starting(action));
            let exit = world.exit(code);
            world.send(Event::Exited { container: name, attempt, exit });
        }
        Step::Obey => {
            for (name, _) in std::mem::take(&mut world.signals) {
                let live = world.live.iter().find(|(live, _)| *live == name).cloned();
                if let Some((container, attempt)) = live {
                    let exit = world.exit(143);
                    world.send(Event::Exited { container, attempt, exit });
                }
            }
        }
        Step::Pass if world.timer.is_some() => {
            world.pass();
        }
        Step::Stop { cause, grace } => world.stop(cause, grace),
        Step::Stray(which) => world.send(stray(world, which)),
        Step::Update { image, milli_cpu } => world.update(|pod| {
            let container = &mut pod.spec.as_mut().unwrap().containers[0];
            if image {
                container.image = Some(format!("x:{milli_cpu}"));
            } else {
                container.resources = from_value(json!({"requests": {"cpu": format!("{milli_cpu}m")}})).unwrap();
            }
        }),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn promises_hold_in_any_order(spec in spec(), steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new(spec).holding(500, 64 << 20);
        world.send(Event::Start);
        for step in steps {
            play(&mut world, step);
        }
        // A stopped pod ends once the node does what it is told.
        world.stop(StopCause::Killed, 5);
        for _ in 0..60 {
            world.settle();
            play(&mut world, Step::Obey);
            if world.done.is_some() {
                break;
            }
            if world.open.is_empty() && world.signals.is_empty() {
                prop_assert!(world.timer.is_some(), "nothing open, nothing timed, not done");
                world.pass();
            }
        }
        prop_assert!(world.done.is_some());
        prop_assert!(matches!(world.phase(), "Succeeded" | "Failed"));
    }
}
