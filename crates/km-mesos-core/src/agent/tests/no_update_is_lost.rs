//! Whatever breaks: updates of a task reach the framework in order, one at a time, and none that the agent confirmed
//! to its executor is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use km_mesos_proto::v1::{
    self, TaskState,
    executor::{call, event::Type},
};
use proptest::prelude::*;

use super::{
    super::{Action, Event},
    bench::*,
};
use crate::link::AgentMessage;

/// One step of a run.
#[derive(Clone, Copy, Debug)]
enum Step {
    Run,
    Subscribe,
    Update {
        task: usize,
        terminal: bool,
    },
    /// The framework acknowledges what it got last of a task.
    Acknowledge {
        task: usize,
    },
    BreakLink,
    Register,
    BreakStream,
    ExecutorExits,
    Pass {
        seconds: u64,
    },
    /// The agent dies; with `losing`, it dies right after its checkpoints, before it told anybody, in the step that
    /// comes next.
    Restart,
    LoseNextMessages,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Run),
        2 => Just(Step::Subscribe),
        6 => (0..6usize, any::<bool>()).prop_map(|(task, terminal)| Step::Update { task, terminal }),
        6 => (0..6usize).prop_map(|task| Step::Acknowledge { task }),
        1 => Just(Step::BreakLink),
        2 => Just(Step::Register),
        1 => Just(Step::BreakStream),
        1 => Just(Step::ExecutorExits),
        2 => (1..100u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => Just(Step::Restart),
        1 => Just(Step::LoseNextMessages),
    ]
}

#[derive(Default)]
struct World {
    /// What the framework got, per task: uuids in order of first arrival.
    received: BTreeMap<String, Vec<Vec<u8>>>,
    acknowledged: BTreeSet<Vec<u8>>,
    /// What the executor sent, per task, and what of it was confirmed.
    sent: BTreeMap<String, Vec<v1::TaskStatus>>,
    confirmed: BTreeSet<Vec<u8>>,
    /// Tasks the executor has.
    tasks: BTreeSet<String>,
    container: Option<String>,
    connection: Option<u64>,
    connections: u64,
    tasks_made: usize,
    updates_made: u64,
    losing: bool,
}

impl World {
    fn observe(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Launch(launch) => self.container = Some(launch.container),
                _ if self.losing => {}
                Action::Send(message) => {
                    if let AgentMessage::Update { status, .. } = *message {
                        self.receive(status);
                    }
                }
                Action::SendEvent { connection, event } if Some(connection) == self.connection => {
                    match event.r#type() {
                        Type::Launch => {
                            self.tasks.insert(event.launch.unwrap().task.task_id.value);
                        }
                        Type::Acknowledged => {
                            self.confirmed.insert(event.acknowledged.unwrap().uuid);
                        }
                        _ => {}
                    }
                }
                Action::CloseStream { connection } if Some(connection) == self.connection => self.connection = None,
                _ => {}
            }
        }
        self.losing = false;
    }

    fn receive(&mut self, status: v1::TaskStatus) {
        let list = self.received.entry(status.task_id.value).or_default();
        let uuid = status.uuid.unwrap();
        if !list.contains(&uuid) {
            assert!(list.last().is_none_or(|last| self.acknowledged.contains(last)), "two updates in flight");
            list.push(uuid);
        }
    }

    fn unconfirmed(&self) -> call::Subscribe {
        let waiting = |status: &&v1::TaskStatus| !self.confirmed.contains(status.uuid());
        let fresh = |task: &&String| {
            self.sent.get(*task).is_none_or(|sent| sent.iter().all(|status| !self.confirmed.contains(status.uuid())))
        };
        call::Subscribe {
            unacknowledged_tasks: self.tasks.iter().filter(fresh).map(|task| custom(task, "e")).collect(),
            unacknowledged_updates: self
                .sent
                .values()
                .flatten()
                .filter(waiting)
                .map(|status| call::Update { status: status.clone() })
                .collect(),
        }
    }

    fn executor_is_gone(&mut self) {
        self.container = None;
        self.connection = None;
        self.tasks.clear();
        // What it could not get rid of died with it.
        for sent in self.sent.values_mut() {
            sent.retain(|status| self.confirmed.contains(status.uuid()));
        }
    }
}

fn subscribe(bench: &mut Bench, world: &mut World) {
    if world.container.is_none() {
        return;
    }
    let call = subscribe_call("e", world.unconfirmed());
    if bench.agent.check(&call).is_ok() {
        world.connections += 1;
        let old = world.connection.replace(world.connections);
        let actions = bench.feed(Event::Subscribe { connection: world.connections, call });
        world.observe(actions);
        if let Some(connection) = old {
            world.observe(bench.feed(Event::StreamClosed { connection }));
        }
    }
}

fn update(bench: &mut Bench, world: &mut World, task: usize, terminal: bool) {
    let Some(task) = world.tasks.iter().nth(task).cloned() else { return };
    if world.connection.is_none() {
        return;
    }
    let state = if terminal { TaskState::TaskFinished } else { TaskState::TaskRunning };
    world.updates_made += 1;
    let mut call = update_call("e", &task, state, 0);
    let status = &mut call.update.as_mut().unwrap().status;
    status.uuid = Some([world.updates_made.to_be_bytes(), [0xff; 8]].concat());
    if bench.agent.check(&call).is_err() {
        return;
    }
    world.sent.entry(task.clone()).or_default().push(call.update.as_ref().unwrap().status.clone());
    if terminal {
        world.tasks.remove(&task);
    }
    let actions = bench.feed(Event::ExecutorCall(call));
    world.observe(actions);
}

fn acknowledge(bench: &mut Bench, world: &mut World, task: &str) -> bool {
    if !bench.agent.is_registered() {
        return false;
    }
    let Some(uuid) = world.received.get(task).and_then(|list| list.last()).cloned() else { return false };
    let fresh = world.acknowledged.insert(uuid.clone());
    let actions = bench.acknowledge(task, uuid);
    world.observe(actions);
    fresh
}

fn play(bench: &mut Bench, world: &mut World, step: Step) {
    match step {
        Step::Run => {
            world.tasks_made += 1;
            let actions = bench.run(vec![custom(&format!("t{}", world.tasks_made), "e")]);
            world.observe(actions);
        }
        Step::Subscribe => subscribe(bench, world),
        Step::Update { task, terminal } => update(bench, world, task, terminal),
        Step::Acknowledge { task } => {
            if let Some(task) = world.received.keys().nth(task).cloned() {
                acknowledge(bench, world, &task);
            }
        }
        Step::BreakLink => {
            let link = bench.link;
            world.observe(bench.feed(Event::LinkClosed { link, reason: "broken".to_owned() }));
        }
        Step::Register => world.observe(bench.register()),
        Step::BreakStream => {
            if let Some(connection) = world.connection.take() {
                world.observe(bench.feed(Event::StreamClosed { connection }));
            }
        }
        Step::ExecutorExits => {
            if let Some(container) = world.container.clone() {
                world.executor_is_gone();
                world.observe(bench.feed(Event::Exited { container, status: Some(0) }));
            }
        }
        Step::Pass { seconds } => {
            let actions = bench.pass(Duration::from_secs(seconds));
            reap(bench, world, actions);
        }
        Step::Restart => {
            world.connection = None;
            let actions = bench.restart(&[]);
            reap(bench, world, actions);
        }
        Step::LoseNextMessages => world.losing = true,
    }
}

/// Ends the containers that are to be destroyed.
fn reap(bench: &mut Bench, world: &mut World, actions: Vec<Action>) {
    let destroyed = destroyed(&actions);
    world.observe(actions);
    for container in destroyed {
        if world.container.as_ref() == Some(&container) {
            world.executor_is_gone();
        }
        world.observe(bench.feed(Event::Exited { container, status: Some(9) }));
    }
}

/// Everything is in order again: whatever was confirmed arrives.
fn settle(bench: &mut Bench, world: &mut World) {
    world.losing = false;
    for _ in 0..3 {
        subscribe(bench, world);
        let actions = bench.pass(Duration::from_secs(70));
        reap(bench, world, actions);
        world.observe(bench.register());
    }
    for _ in 0..200 {
        let tasks: Vec<String> = world.received.keys().cloned().collect();
        let mut any = false;
        for task in tasks {
            any |= acknowledge(bench, world, &task);
        }
        if !any {
            return;
        }
    }
    panic!("updates never end");
}

proptest! {
    #[test]
    fn no_confirmed_update_is_lost(steps in prop::collection::vec(step(), 1..80)) {
        let mut bench = Bench::registered();
        let mut world = World::default();
        for step in steps {
            play(&mut bench, &mut world, step);
        }
        settle(&mut bench, &mut world);
        for (task, sent) in &world.sent {
            let received = world.received.get(task).cloned().unwrap_or_default();
            let confirmed: Vec<Vec<u8>> = until_terminal(sent)
                .filter(|status| world.confirmed.contains(status.uuid()))
                .map(|status| status.uuid().to_vec())
                .collect();
            let of_executor: Vec<Vec<u8>> = received.into_iter().filter(|uuid| confirmed.contains(uuid)).collect();
            prop_assert_eq!(of_executor, confirmed, "of {}", task);
        }
    }
}

/// The executor sends nothing after a terminal update.
fn until_terminal(sent: &[v1::TaskStatus]) -> impl Iterator<Item = &v1::TaskStatus> {
    let end = sent.iter().position(|status| status.state() == TaskState::TaskFinished);
    sent.iter().take(end.map_or(sent.len(), |end| end + 1))
}
