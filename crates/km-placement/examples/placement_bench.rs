//! Measures the engine on the workloads of a JSON file: `placement_bench FILE`. `cargo xtask bench placement` runs it.
//!
//! One thread; the engine is told of agents and pods as the scheduler tells it. The measured time is the CPU time of
//! `Engine::place` (with `preempt` where victims are sought), so that a busy machine doesn't falsify it, without
//! reading the pods, which is shown beside it.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::{BTreeMap, VecDeque},
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use km_placement::{
    Amounts, AssignedPod, Context, Engine, Need, NodeFacts, PendingPod, Policy, Pool, PortSet, Ports, Share, Strategy,
    Supply, compile,
};
use serde::Deserialize;
use serde_json::Value;

/// Counts what is allocated.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the rules of the trait, which are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Deserialize)]
struct Data {
    templates: BTreeMap<String, Value>,
    workloads: Vec<Workload>,
}

#[derive(Deserialize)]
struct Workload {
    name: String,
    agents: usize,
    #[serde(default = "yes")]
    owners: bool,
    strategy: Option<String>,
    steps: Vec<Step>,
}

/// One of the first four says what happens with pods of that template.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Step {
    /// They run already.
    assign: Option<String>,
    /// They are placed.
    measure: Option<String>,
    /// For each, the oldest pod goes and it is placed.
    churn: Option<String>,
    /// They are refused, others are removed for them, and they are placed.
    preempt: Option<String>,
    /// Every other pod is of this template instead.
    beside: Option<String>,
    count: usize,
    /// Over so many applications (labels and owners).
    apps: usize,
}

fn yes() -> bool {
    true
}

const ZONES: usize = 10;
const MILLI_CPU: i64 = 4000;
const MEMORY: i64 = 32 << 30;

fn tell_agents(engine: &mut Engine, count: usize) {
    for number in 0..count {
        let name = format!("agent-{number:05}");
        let capacity = Amounts { milli_cpu: MILLI_CPU, memory_bytes: MEMORY, ..Amounts::default() };
        let labels = BTreeMap::from([
            ("kubernetes.io/hostname".to_owned(), name.clone()),
            ("topology.kubernetes.io/zone".to_owned(), format!("zone-{}", number % ZONES)),
        ]);
        let ports = PortSet::new([(31_000, 32_000)]);
        let share = Share { role: "*".into(), free: capacity.clone(), ports: Ports::Only(ports.clone()) };
        let port_universe = Some(ports);
        let facts = NodeFacts { labels, capacity, port_universe, max_pods: Some(110), ..NodeFacts::default() };
        engine.set_node(&name, facts);
        let pools = vec![Pool { role: "*".into(), shares: vec![share] }];
        engine.set_supply(&name, Supply { pools, ..Supply::default() });
    }
}

/// The pod as the API server would give it.
fn pod(template: &Value, app: &str) -> Result<Pod, Box<dyn Error>> {
    let text = template.to_string().replace("$APP", app);
    let mut pod: Pod = serde_json::from_str(&text)?;
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
    Ok(pod)
}

struct Run<'a> {
    data: &'a Data,
    workload: &'a Workload,
    engine: Engine,
    running: VecDeque<(String, String, Arc<Need>)>,
    number: usize,
    placed: usize,
    refused: usize,
    reading: Duration,
    placing: Duration,
    times: Vec<Duration>,
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the given place only; this clock is always there.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "the clock of the thread can be read");
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl Run<'_> {
    fn pending(&mut self, name: &str, app: usize) -> Result<PendingPod, Box<dyn Error>> {
        let template = self.data.templates.get(name).ok_or_else(|| format!("there is no template {name}"))?;
        let app = format!("{name}-{app}");
        let pod = pod(template, &app)?;
        let started = cpu_time();
        let amounts = km_kube::pod::requests(pod.spec.as_ref().ok_or("the template has no spec")?);
        let owner = self.workload.owners.then_some(app);
        let context = Context { amounts, roles: vec!["*".into()], owner, ..Context::default() };
        let need = self.engine.share(compile(&pod, context)?);
        self.reading += cpu_time() - started;
        self.number += 1;
        Ok(PendingPod { id: format!("default/p{:06}", self.number), need, queued: self.number as u64 })
    }

    fn place(&mut self, pod: &PendingPod) -> bool {
        let started = Instant::now();
        let placed = self.engine.place(pod);
        self.times.push(started.elapsed());
        match placed {
            Ok(placement) => {
                self.placed += 1;
                self.running.push_back((pod.id.clone(), placement.node, Arc::clone(&pod.need)));
                true
            }
            Err(_) => {
                self.refused += 1;
                false
            }
        }
    }

    /// A pod ends, and its agent offers what it had.
    fn end(&mut self, id: &str) -> Result<(), Box<dyn Error>> {
        let at = self.running.iter().position(|(running, _, _)| running == id).ok_or("it doesn't run")?;
        let (id, node, need) = self.running.remove(at).ok_or("it doesn't run")?;
        self.engine.remove_pod(&id);
        let mut supply = self.engine.supply(&node).ok_or("the node is unknown")?.clone();
        supply.pools[0].shares[0].free.add(&need.amounts);
        self.engine.set_supply(&node, supply);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Box<dyn Error>> {
        let apps = step.apps.max(1);
        let kinds = [&step.assign, &step.measure, &step.churn, &step.preempt];
        let template = kinds.into_iter().flatten().next().ok_or("the step does nothing")?.clone();
        let mut pods = Vec::with_capacity(step.count);
        for number in 0..step.count {
            let beside = step.beside.as_ref().filter(|_| number % 2 == 1).cloned();
            pods.push(self.pending(&beside.unwrap_or_else(|| template.clone()), number % apps)?);
        }
        if step.assign.is_some() {
            return pods.iter().enumerate().try_for_each(|(number, pod)| self.assign(pod, number));
        }
        if step.measure.is_some() {
            let started = cpu_time();
            for pod in &pods {
                self.place(pod);
            }
            self.placing += cpu_time() - started;
            return Ok(());
        }
        for pod in &pods {
            if step.churn.is_some() {
                let oldest = self.running.front().ok_or("nothing runs")?.0.clone();
                self.end(&oldest)?;
            }
            let started = cpu_time();
            let placed = self.place(pod);
            self.placing += cpu_time() - started;
            if !placed && step.preempt.is_some() {
                self.preempt(pod)?;
            }
        }
        Ok(())
    }

    fn preempt(&mut self, pod: &PendingPod) -> Result<(), Box<dyn Error>> {
        let (started, wall) = (cpu_time(), Instant::now());
        let preemption = self.engine.preempt(pod)?;
        self.placing += cpu_time() - started;
        let mut time = wall.elapsed() + self.times.pop().unwrap_or_default();
        for victim in &preemption.victims {
            self.end(victim)?;
        }
        self.refused -= 1;
        let started = cpu_time();
        self.place(pod);
        self.placing += cpu_time() - started;
        time += self.times.pop().unwrap_or_default();
        self.times.push(time);
        Ok(())
    }

    fn assign(&mut self, pod: &PendingPod, number: usize) -> Result<(), Box<dyn Error>> {
        let node = format!("agent-{:05}", number % self.workload.agents);
        let mut supply = self.engine.supply(&node).ok_or("the node is unknown")?.clone();
        let free = &mut supply.pools[0].shares[0].free;
        free.milli_cpu -= pod.need.amounts.milli_cpu;
        free.memory_bytes -= pod.need.amounts.memory_bytes;
        self.engine.set_supply(&node, supply);
        let (id, need) = (pod.id.clone(), Arc::clone(&pod.need));
        self.running.push_back((id.clone(), node.clone(), Arc::clone(&need)));
        let started = number as i64;
        self.engine.set_pod(AssignedPod { id, need, node, terminating: false, started, preempted: false });
        Ok(())
    }
}

fn run(data: &Data, workload: &Workload) -> Result<(), Box<dyn Error>> {
    let strategy = workload.strategy.as_deref().map(|name| Strategy::parse(name).ok_or("unknown strategy"));
    let policy = Policy { strategy: strategy.transpose()?.unwrap_or_default(), ..Policy::default() };
    let before = HELD.load(Ordering::Relaxed);
    let mut engine = Engine::new(policy);
    tell_agents(&mut engine, workload.agents);
    let with_agents = HELD.load(Ordering::Relaxed);
    let mut run = Run {
        data,
        workload,
        engine,
        running: VecDeque::new(),
        number: 0,
        placed: 0,
        refused: 0,
        reading: Duration::ZERO,
        placing: Duration::ZERO,
        times: Vec::new(),
    };
    for step in &workload.steps {
        run.step(step)?;
    }
    run.times.sort_unstable();
    let at = |part: usize| run.times[(run.times.len() - 1) * part / 100].as_nanos() as f64 / 1000.0;
    let (median, slow) = (at(50), at(99));
    let count = run.times.len();
    let pods = run.number;
    // The harness' own lists are no part of the engine.
    (run.running, run.times) = (VecDeque::new(), Vec::new());
    let held = HELD.load(Ordering::Relaxed);
    println!(
        "{:<32} {:>6} {:>7} {:>7} {:>9.0} {:>8.1} {:>8.1} {:>8.1} {:>7} {:>7}",
        workload.name,
        workload.agents,
        run.placed,
        run.refused,
        count as f64 / run.placing.as_secs_f64(),
        median,
        slow,
        run.reading.as_nanos() as f64 / 1000.0 / pods as f64,
        (with_agents - before) / workload.agents,
        held.saturating_sub(with_agents) / pods,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: placement_bench WORKLOADS.json [NAME]")?;
    let only = std::env::args().nth(2);
    let data: Data = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    println!(
        "{:<32} {:>6} {:>7} {:>7} {:>9} {:>8} {:>8} {:>8} {:>7} {:>7}",
        "workload", "agents", "placed", "refused", "pods/s", "p50 us", "p99 us", "read us", "B/agent", "B/pod"
    );
    for workload in
        data.workloads.iter().filter(|workload| only.as_ref().is_none_or(|only| workload.name.contains(only)))
    {
        run(&data, workload)?;
    }
    Ok(())
}
