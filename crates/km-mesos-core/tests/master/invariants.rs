//! Whatever happens in whatever order: nothing is given out twice, offers end once, tasks end once.

use std::collections::BTreeMap;

use km_mesos_core::{
    link::{AgentMessage, MasterMessage},
    master::{Event, terminal},
};
use km_mesos_proto::{
    resources::Resources,
    v1::{self, TaskState, master::call::Type as Operator, scheduler::call::Type},
};
use proptest::prelude::*;

use crate::harness::*;

#[derive(Clone, Debug)]
enum Step {
    NewFramework(bool),
    NewAgent(u8),
    Launch {
        offer: usize,
        quarter: bool,
    },
    Decline {
        offer: usize,
        seconds: u8,
    },
    AcceptTwice {
        offer: usize,
    },
    Status {
        task: usize,
        end: bool,
    },
    Acknowledge {
        task: usize,
    },
    Kill {
        task: usize,
    },
    DropScheduler(usize),
    Resubscribe(usize),
    DropAgent(usize),
    ReturnAgent(usize),
    ForgetfulAgent(usize),
    Revive(usize),
    Teardown(usize),
    /// Guarantees a role so many CPUs; with none its quota ends.
    Guarantee(u8),
    Reserve(usize),
    Deactivate(usize),
    Reactivate(usize),
    Pass(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let place = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 16));
    prop_oneof![
        1 => any::<bool>().prop_map(Step::NewFramework),
        1 => (1u8..5).prop_map(Step::NewAgent),
        6 => (place(), any::<bool>()).prop_map(|(offer, quarter)| Step::Launch { offer, quarter }),
        2 => (place(), 0u8..10).prop_map(|(offer, seconds)| Step::Decline { offer, seconds }),
        1 => place().prop_map(|offer| Step::AcceptTwice { offer }),
        5 => (place(), any::<bool>()).prop_map(|(task, end)| Step::Status { task, end }),
        4 => place().prop_map(|task| Step::Acknowledge { task }),
        1 => place().prop_map(|task| Step::Kill { task }),
        1 => place().prop_map(Step::DropScheduler),
        2 => place().prop_map(Step::Resubscribe),
        1 => place().prop_map(Step::DropAgent),
        2 => place().prop_map(Step::ReturnAgent),
        1 => place().prop_map(Step::ForgetfulAgent),
        1 => place().prop_map(Step::Revive),
        1 => place().prop_map(Step::Teardown),
        2 => (0u8..4).prop_map(Step::Guarantee),
        1 => place().prop_map(Step::Reserve),
        1 => place().prop_map(Step::Deactivate),
        1 => place().prop_map(Step::Reactivate),
        4 => (0u8..120).prop_map(Step::Pass),
    ]
}

struct Play {
    world: World,
    schedulers: Vec<(Scheduler, v1::FrameworkInfo)>,
    agents: Vec<TestAgent>,
    /// Tasks by agent place as the agents know them.
    tasks: Vec<(usize, v1::Task)>,
    next_task: u32,
    next_uuid: u8,
    ends: BTreeMap<(String, String), TaskState>,
}

impl Play {
    fn live_offers(&mut self) -> Vec<v1::Offer> {
        let frameworks = self.world.response(v1::master::call::Type::GetFrameworks).get_frameworks.expect("set");
        frameworks.frameworks.into_iter().flat_map(|framework| framework.offers).collect()
    }

    fn scheduler_of(&self, id: &str) -> Option<Scheduler> {
        self.schedulers.iter().map(|(scheduler, _)| scheduler).find(|scheduler| scheduler.id == id).cloned()
    }

    fn pick<T: Clone>(all: &[T], index: usize) -> Option<T> {
        (!all.is_empty()).then(|| all[index % all.len()].clone())
    }

    fn send(&mut self, scheduler: &Scheduler, kind: Type, mut call: v1::scheduler::Call) {
        call.r#type = Some(kind as i32);
        // The framework may be gone or disconnected: then the answer is a refusal, which is fine.
        self.world.call_as(scheduler, Some(&scheduler.stream_id.clone()), call);
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::NewFramework(aware_of_partitions) => {
                let info = if aware_of_partitions { aware("f") } else { framework("f") };
                let scheduler = self.world.subscribe(info.clone());
                self.schedulers.push((scheduler, info));
            }
            Step::NewAgent(size) => {
                let agent = self.world.agent(&format!("cpus:{size};mem:{}", 512 * u32::from(size)));
                self.agents.push(agent);
            }
            Step::Launch { offer, quarter } => {
                let Some(offer) = Self::pick(&self.live_offers(), offer) else { return };
                let Some(scheduler) = self.scheduler_of(&offer.framework_id.value) else { return };
                self.next_task += 1;
                let needs = if quarter { "cpus:0.25;mem:64" } else { "cpus:3;mem:256" };
                let task = task(&format!("t{}", self.next_task), &offer, needs);
                let with = with_executor(task, executor("e", "cpus:0.1;mem:32"));
                self.accept(&scheduler, vec![offer.id], vec![launch(vec![with])]);
            }
            Step::AcceptTwice { offer } => {
                let Some(offer) = Self::pick(&self.live_offers(), offer) else { return };
                let Some(scheduler) = self.scheduler_of(&offer.framework_id.value) else { return };
                self.next_task += 1;
                let task = task(&format!("t{}", self.next_task), &offer, "cpus:0.25");
                self.accept(&scheduler, vec![offer.id.clone(), offer.id], vec![launch(vec![task])]);
            }
            Step::Decline { offer, seconds } => {
                let Some(offer) = Self::pick(&self.live_offers(), offer) else { return };
                let Some(scheduler) = self.scheduler_of(&offer.framework_id.value) else { return };
                let filters = Some(v1::Filters { refuse_seconds: Some(seconds.into()) });
                let decline = Some(v1::scheduler::call::Decline { offer_ids: vec![offer.id], filters });
                self.send(&scheduler, Type::Decline, v1::scheduler::Call { decline, ..Default::default() });
            }
            Step::Status { task, end } => {
                let Some((place, task)) = Self::pick(&self.tasks, task) else { return };
                let state = if end { TaskState::TaskFinished } else { TaskState::TaskRunning };
                let known = self
                    .tasks
                    .iter_mut()
                    .find(|(_, one)| one.task_id == task.task_id && one.framework_id == task.framework_id);
                let Some((_, known)) = known else { return };
                if terminal(known.state()) {
                    return;
                }
                self.next_uuid = self.next_uuid.wrapping_add(1);
                known.state = state as i32;
                known.status_update_state = Some(state as i32);
                known.status_update_uuid = Some(vec![self.next_uuid; 16]);
                let agent = self.agents[place].clone();
                let Some(scheduler) = self.scheduler_of(&task.framework_id.value) else { return };
                self.world.status(&scheduler, &agent, &task.task_id.value, state, [self.next_uuid; 16]);
            }
            Step::Acknowledge { task } => {
                let Some((place, task)) = Self::pick(&self.tasks, task) else { return };
                let Some(uuid) = task.status_update_uuid.clone() else { return };
                let Some(scheduler) = self.scheduler_of(&task.framework_id.value) else { return };
                let acknowledge = Some(v1::scheduler::call::Acknowledge {
                    agent_id: self.agents[place].id.as_str().into(),
                    task_id: task.task_id.clone(),
                    uuid,
                });
                self.send(&scheduler, Type::Acknowledge, v1::scheduler::Call { acknowledge, ..Default::default() });
            }
            Step::Kill { task } => {
                let Some((_, task)) = Self::pick(&self.tasks, task) else { return };
                let Some(scheduler) = self.scheduler_of(&task.framework_id.value) else { return };
                let kill = Some(v1::scheduler::call::Kill { task_id: task.task_id, agent_id: None, kill_policy: None });
                self.send(&scheduler, Type::Kill, v1::scheduler::Call { kill, ..Default::default() });
            }
            Step::DropScheduler(index) => {
                let Some((scheduler, _)) = Self::pick(&self.schedulers, index) else { return };
                self.world.handle(Event::Disconnected { connection: scheduler.connection });
            }
            Step::Resubscribe(index) => {
                let Some((old, info)) = Self::pick(&self.schedulers, index) else { return };
                let new = self.world.subscribe(again(info, &old));
                if new.id == old.id {
                    let place = index % self.schedulers.len();
                    self.schedulers[place].0 = new;
                }
            }
            Step::DropAgent(index) => {
                let Some(agent) = Self::pick(&self.agents, index) else { return };
                self.world.handle(Event::Disconnected { connection: agent.connection });
            }
            Step::ReturnAgent(index) => self.return_agent(index, true),
            Step::ForgetfulAgent(index) => self.return_agent(index, false),
            Step::Revive(index) => {
                let Some((scheduler, _)) = Self::pick(&self.schedulers, index) else { return };
                self.send(&scheduler, Type::Revive, v1::scheduler::Call::default());
            }
            Step::Teardown(index) => {
                let Some((scheduler, _)) = Self::pick(&self.schedulers, index) else { return };
                self.send(&scheduler, Type::Teardown, v1::scheduler::Call::default());
            }
            Step::Guarantee(cpus) => self.guarantee(cpus),
            Step::Reserve(index) => {
                let Some(agent) = Self::pick(&self.agents, index) else { return };
                let resources = Resources::parse("cpus(kept):0.5", "*").expect("well-formed").to_protos();
                let dynamic = |mut one: v1::Resource| {
                    one.reservations.iter_mut().for_each(|reservation| {
                        reservation.r#type = Some(v1::resource::reservation_info::Type::Dynamic as i32);
                    });
                    one
                };
                let resources = resources.into_iter().map(dynamic).collect();
                let reserve = v1::master::call::ReserveResources {
                    agent_id: agent.id.as_str().into(),
                    resources,
                    source: Vec::new(),
                };
                self.ask(Operator::ReserveResources, |call| call.reserve_resources = Some(reserve));
            }
            Step::Deactivate(index) => {
                let Some(agent) = Self::pick(&self.agents, index) else { return };
                let deactivate = v1::master::call::DeactivateAgent { agent_id: agent.id.as_str().into() };
                self.ask(Operator::DeactivateAgent, |call| call.deactivate_agent = Some(deactivate));
            }
            Step::Reactivate(index) => {
                let Some(agent) = Self::pick(&self.agents, index) else { return };
                let reactivate = v1::master::call::ReactivateAgent { agent_id: agent.id.as_str().into() };
                self.ask(Operator::ReactivateAgent, |call| call.reactivate_agent = Some(reactivate));
            }
            Step::Pass(seconds) => self.world.pass_secs(seconds.into()),
        }
        self.deliver();
        self.check();
    }

    fn ask(&mut self, kind: Operator, fill: impl FnOnce(&mut v1::master::Call)) {
        let mut call = v1::master::Call::default();
        fill(&mut call);
        // What can't be done now is refused, which is fine.
        self.world.operator(kind, call);
    }

    fn guarantee(&mut self, cpus: u8) {
        let amounts = (cpus > 0).then(|| ("cpus".to_owned(), v1::value::Scalar { value: cpus.into() }));
        let guarantees = amounts.into_iter().collect();
        let config = v1::quota::QuotaConfig { role: "kept".to_owned(), guarantees, limits: BTreeMap::new() };
        let update = v1::master::call::UpdateQuota { force: Some(true), quota_configs: vec![config] };
        self.ask(Operator::UpdateQuota, |call| call.update_quota = Some(update));
    }

    fn accept(&mut self, scheduler: &Scheduler, offer_ids: Vec<v1::OfferId>, operations: Vec<v1::offer::Operation>) {
        let accept = Some(v1::scheduler::call::Accept { offer_ids, operations, filters: None });
        self.send(scheduler, Type::Accept, v1::scheduler::Call { accept, ..Default::default() });
    }

    fn return_agent(&mut self, index: usize, remembers: bool) {
        let Some(old) = Self::pick(&self.agents, index) else { return };
        let place = index % self.agents.len();
        if !remembers {
            self.tasks.retain(|(on, _)| *on != place);
        }
        let tasks: Vec<v1::Task> =
            self.tasks.iter().filter(|(on, _)| *on == place).map(|(_, task)| task.clone()).collect();
        let frameworks: Vec<v1::FrameworkInfo> =
            self.schedulers.iter().map(|(scheduler, info)| again(info.clone(), scheduler)).collect();
        self.agents[place] = self.world.register(old.info, frameworks, Vec::new(), tasks);
    }

    /// What the master sent to agents arrives there.
    fn deliver(&mut self) {
        for (place, agent) in self.agents.clone().iter().enumerate() {
            for message in self.world.read_agent(agent) {
                match message {
                    MasterMessage::RunTasks { framework, tasks } => {
                        for info in tasks {
                            let task = v1::Task {
                                name: info.name,
                                task_id: info.task_id,
                                framework_id: framework.id.clone().expect("set"),
                                agent_id: info.agent_id,
                                state: TaskState::TaskStaging as i32,
                                resources: info.resources,
                                ..Default::default()
                            };
                            self.tasks.push((place, task));
                        }
                    }
                    MasterMessage::Acknowledge { framework_id, task_id, uuid } => {
                        self.tasks.retain(|(_, task)| {
                            let this = task.framework_id == framework_id && task.task_id == task_id;
                            !(this && terminal(task.state()) && task.status_update_uuid.as_ref() == Some(&uuid))
                        });
                    }
                    MasterMessage::ShutdownFramework { framework_id } => {
                        self.tasks.retain(|(on, task)| *on != place || task.framework_id != framework_id);
                    }
                    MasterMessage::Ping => self.world.agent_says(agent, AgentMessage::Pong),
                    _ => {}
                }
            }
        }
    }

    fn check(&mut self) {
        let agents = self.world.response(v1::master::call::Type::GetAgents).get_agents.expect("set").agents;
        for agent in agents {
            let read = |all: &[v1::Resource]| Resources::from_protos(all).expect("well-formed").unallocated();
            let total = read(&agent.total_resources);
            let given = read(&agent.allocated_resources) + read(&agent.offered_resources);
            assert!(total.contains(&given), "{given} of {total} given out");
        }
        for (offer, count) in &self.world.offered {
            assert_eq!(*count, 1, "{offer} was made twice");
        }
        for (offer, count) in &self.world.rescinded {
            assert_eq!(*count, 1, "{offer} was rescinded twice");
        }
        let live: std::collections::BTreeSet<String> =
            self.live_offers().into_iter().map(|offer| offer.id.value).collect();
        assert!(live.iter().all(|offer| !self.world.rescinded.contains_key(offer)), "a rescinded offer lives on");
        let tasks = self.world.response(v1::master::call::Type::GetTasks).get_tasks.expect("set");
        for task in tasks.completed_tasks {
            let key = (task.framework_id.value.clone(), task.task_id.value.clone());
            // LOST and KILLED by removal of the framework are verdicts on tasks out of sight.
            let first = *self.ends.entry(key.clone()).or_insert(task.state());
            assert_eq!(first, task.state(), "{key:?} ended twice");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_given_out_twice_and_everything_ends_once(steps in prop::collection::vec(step(), 1..80)) {
        let mut play = Play {
            world: World::new(),
            schedulers: Vec::new(),
            agents: Vec::new(),
            tasks: Vec::new(),
            next_task: 0,
            next_uuid: 0,
            ends: BTreeMap::new(),
        };
        play.play(Step::NewFramework(true));
        play.play(Step::NewAgent(4));
        for step in steps {
            play.play(step);
        }
    }
}
