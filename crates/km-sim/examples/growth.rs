//! What the scheduler's core costs as agents and pods grow, in simulated clusters without faults: all pods come at once,
//! and when all run the scheduler is started again with one more pod to place.
//!
//! Costs are processor time of this thread, so a busy machine matters little. What grows with every pod shows in the
//! ratios to the first line.

use std::time::Duration;

use clap::Parser;
use km_sim::{Report, Settings};

#[derive(Parser)]
struct Flags {
    /// How many pods, one cluster after the other.
    #[arg(long, value_delimiter = ',', default_value = "1000,4000,16000")]
    pods: Vec<usize>,
    /// How many of them each agent gets.
    #[arg(long, default_value_t = 20)]
    pods_per_agent: usize,
    /// Show the kinds of events that cost the most.
    #[arg(long)]
    kinds: bool,
}

fn main() {
    let flags = Flags::parse();
    println!(
        "{:>8} {:>7} {:>10} {:>6} {:>9} {:>10} {:>6} {:>11} {:>6} {:>12}",
        "pods", "agents", "us a pod", "ratio", "events", "us a event", "ratio", "restart, ms", "ratio", "to placement"
    );
    let mut first = None;
    for pods in flags.pods {
        let agents = pods.div_ceil(flags.pods_per_agent.max(1));
        let report = match km_sim::run(1, &Settings::growth(agents, pods, processor_time)) {
            Ok(report) => report,
            Err(violation) => {
                eprintln!("{violation}");
                std::process::exit(1);
            }
        };
        let row = Row::new(&report, pods);
        let base = first.get_or_insert(row);
        println!(
            "{pods:>8} {agents:>7} {:>10.1} {:>6.2} {:>9} {:>10.2} {:>6.2} {:>11.1} {:>6.1} {:>10.2} s",
            row.pod,
            row.pod / base.pod,
            row.events,
            row.event,
            row.event / base.event,
            row.restart,
            row.restart / base.restart,
            row.to_placement,
        );
        if flags.kinds {
            show_kinds(&report);
        }
    }
    println!("(to placement: virtual time from the election to the first ACCEPT)");
}

/// What is printed of one cluster.
#[derive(Clone, Copy)]
struct Row {
    events: u64,
    /// Microseconds.
    pod: f64,
    event: f64,
    /// Milliseconds of the core until the second process placed its pod.
    restart: f64,
    to_placement: f64,
}

impl Row {
    fn new(report: &Report, pods: usize) -> Self {
        let total: Duration = report.costs.values().map(|(_, time)| *time).sum();
        let events = report.costs.iter().filter(|(kind, _)| **kind != "next_wakeup").map(|(_, (count, _))| count).sum();
        let microseconds = total.as_secs_f64() * 1e6;
        let (to_placement, spent) = report.first_placements.get(1).copied().unwrap_or_default();
        Self {
            events,
            pod: microseconds / pods as f64,
            event: microseconds / events as f64,
            restart: spent.as_secs_f64() * 1e3,
            to_placement: to_placement.as_secs_f64(),
        }
    }
}

fn show_kinds(report: &Report) {
    let mut kinds: Vec<_> = report.costs.iter().collect();
    kinds.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
    for (kind, (count, time)) in kinds.into_iter().take(6) {
        let each = time.as_secs_f64() * 1e6 / *count as f64;
        println!(
            "{:>16} {kind:<20} {count:>9} times, {:>8.1} ms in all, {each:>8.2} us each",
            "",
            time.as_secs_f64() * 1e3
        );
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
