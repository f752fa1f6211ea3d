//! What the cores of scheduler and master cost as agents and pods grow, in simulated clusters without faults: all pods
//! come at once, and when all run everything is reconciled and listed anew, and the scheduler is started again with one
//! more pod to place.
//!
//! Costs are processor time of this thread, so a busy machine matters little; what the simulation itself does beside the
//! cores doesn't count. What grows with every pod or agent shows in the ratios to the first line.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use clap::Parser;
use km_sim::{Costs, Measured, Meter, Settings};

/// Most pods of an agent: what nodes take is said to be 110.
const MOST_PODS_OF_AN_AGENT: usize = 100;

#[derive(Parser)]
struct Flags {
    /// How many pods, one cluster after the other.
    #[arg(long, value_delimiter = ',', default_value = "1000,4000,16000")]
    pods: Vec<usize>,
    /// How many agents, each with all numbers of pods that fit. Without it as many as the pods need.
    #[arg(long, value_delimiter = ',')]
    agents: Vec<usize>,
    /// How many pods each agent gets, without `--agents`.
    #[arg(long, default_value_t = 20)]
    pods_per_agent: usize,
    /// Show the kinds of events that cost the most.
    #[arg(long)]
    kinds: bool,
}

fn main() {
    let flags = Flags::parse();
    let mut sizes: Vec<(usize, usize)> =
        flags.agents.iter().flat_map(|agents| flags.pods.iter().map(|pods| (*agents, *pods))).collect();
    if sizes.is_empty() {
        sizes = flags.pods.iter().map(|pods| (pods.div_ceil(flags.pods_per_agent.max(1)), *pods)).collect();
    }
    println!("{:>7} {:>7} | {}", "agents", "pods", COLUMNS.map(|name| format!("{name:>13} ratio")).join(" | "));
    let mut first = None;
    for (agents, pods) in sizes {
        if pods > agents * MOST_PODS_OF_AN_AGENT {
            println!("{agents:>7} {pods:>7} | more than {MOST_PODS_OF_AN_AGENT} pods an agent");
            continue;
        }
        let meter = Meter { time: processor_time, memory: || HELD.load(Ordering::Relaxed) };
        let report = match km_sim::run(1, &Settings::growth(agents, pods, meter)) {
            Ok(report) => report,
            Err(violation) => {
                eprintln!("{violation}");
                std::process::exit(1);
            }
        };
        let row = row(&report.measured, agents, pods);
        let base = *first.get_or_insert(row);
        let cells: Vec<String> =
            row.iter().zip(base).map(|(value, base)| format!("{value:>13.2} {:>5.2}", value / base)).collect();
        println!("{agents:>7} {pods:>7} | {}", cells.join(" | "));
        if flags.kinds {
            show_kinds("scheduler", &report.measured.scheduler);
            show_kinds("master", &report.measured.master);
        }
    }
    println!(
        "(an object: a pod or an agent; poll: the master's list of agents, every 5 s; bytes: of the scheduler's core,"
    );
    println!(" and of the pods and nodes themselves, which its process holds too; register: of the master's core)");
}

const COLUMNS: [&str; 9] = [
    "place us/pod",
    "recon us/task",
    "list us/obj",
    "restart ms",
    "restart us/ob",
    "poll us/agent",
    "core B/obj",
    "objects B/obj",
    "register us",
];

fn row(measured: &Measured, agents: usize, pods: usize) -> [f64; COLUMNS.len()] {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let objects = (agents + pods) as f64;
    let (_, restart) = measured.first_placements.get(1).copied().unwrap_or_default();
    let (polls, polling) = measured.scheduler.get("agents").copied().unwrap_or_default();
    let (registrations, registering) = measured.master.get("registration").copied().unwrap_or_default();
    [
        micros(measured.placing) / pods as f64,
        micros(measured.reconciliation) / measured.reconciled as f64,
        micros(measured.list) / objects,
        micros(restart) / 1e3,
        micros(restart) / objects,
        micros(polling) / (polls as f64 * agents as f64),
        measured.memory as f64 / objects,
        measured.objects as f64 / objects,
        micros(registering) / registrations as f64,
    ]
}

fn show_kinds(whose: &str, costs: &Costs) {
    let mut kinds: Vec<_> = costs.iter().collect();
    kinds.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
    for (kind, (count, time)) in kinds.into_iter().take(7) {
        let each = time.as_secs_f64() * 1e6 / *count as f64;
        let all = time.as_secs_f64() * 1e3;
        println!("{:>16} {whose}: {kind:<20} {count:>9} times, {all:>9.1} ms in all, {each:>9.2} us each", "");
    }
}

/// Of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "every Linux has this clock");
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// Bytes that were asked for and not given back.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted.
struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: everything is done by the system's allocator; what is counted beside it has no influence.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those that `System` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}
