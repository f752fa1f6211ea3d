//! Runs clusters from a range of seeds, on all processors, and stops at the first broken invariant.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use km_sim::{Report, Settings, Violation};

#[derive(Parser)]
struct Flags {
    /// How many clusters.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Seconds of virtual time in which things fail.
    #[arg(long, default_value_t = 180)]
    time: u64,
    /// Agents of each cluster.
    #[arg(long, default_value_t = 4)]
    agents: usize,
    /// Go on after a broken invariant, and show each in one line.
    #[arg(long)]
    keep_going: bool,
    /// Show all that is known of the past of a broken invariant.
    #[arg(long)]
    trace: bool,
    /// Clusters at a time; 0: as many as there are processors.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
}

fn main() {
    let flags = Flags::parse();
    // A panic of a core is shown with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let jobs = if flags.jobs > 0 { flags.jobs } else { thread::available_parallelism().map_or(1, usize::from) };
    let (next, stop) = (AtomicU64::new(flags.from), AtomicBool::new(false));
    let (reports, violations) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= flags.from + flags.seeds {
                        return;
                    }
                    match km_sim::run(seed, &Settings::new(flags.agents, Duration::from_secs(flags.time))) {
                        Ok(report) => lock(&reports).push(report),
                        Err(violation) => {
                            stop.store(!flags.keep_going, Ordering::Relaxed);
                            show(&flags, &violation);
                            lock(&violations).push(seed);
                        }
                    }
                }
            });
        }
    });
    summarize(&lock(&reports), start.elapsed());
    let broken = lock(&violations).len();
    if broken > 0 {
        println!("{broken} clusters broke an invariant");
        std::process::exit(1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What it holds is whole at any time.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn show(flags: &Flags, violation: &Violation) {
    if flags.keep_going {
        println!("seed {} at {:.3} s: {}", violation.seed, violation.at.as_secs_f64(), violation.message);
    } else if flags.trace {
        println!("{violation:#}");
    } else {
        println!("{violation}");
    }
}

fn summarize(reports: &[Report], elapsed: Duration) {
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let steps = sum(|report| report.steps);
    let rate = steps as f64 / elapsed.as_secs_f64();
    let slowest = reports.iter().map(|report| report.rested).max().unwrap_or_default();
    println!(
        "{} clusters at rest, {} s after the faults at the latest; {steps} steps ({rate:.0} per second), {} faults, \
         {} pods created, {} runs, {} tasks of rivals, {} times a scheduler led",
        reports.len(),
        slowest.as_secs(),
        sum(|report| report.faults),
        sum(|report| report.pods_created),
        sum(|report| report.runs),
        sum(|report| report.rival_tasks),
        sum(|report| report.leaders),
    );
}
