//! Some dozens of clusters, each from its seed; `cargo xtask sim` runs as many as one likes.

use std::time::Duration;

use km_sim::{Report, Settings};

const TIME: Duration = Duration::from_secs(180);

/// Runs clusters of so many agents, and says what happened in all of them.
fn run_all(seeds: std::ops::Range<u64>, agents: usize, time: Duration) -> Report {
    let mut all = Report::default();
    for seed in seeds {
        match km_sim::run(seed, &Settings::new(agents, time)) {
            Ok(report) => {
                all.faults += report.faults;
                all.operations += report.operations;
                all.reconfigurations += report.reconfigurations;
                all.claims += report.claims;
                all.runs += report.runs;
                all.leaders += report.leaders;
                all.rival_tasks += report.rival_tasks;
            }
            Err(violation) => panic!("{violation}"),
        }
    }
    all
}

/// Small clusters, in which everything meets everything. In four parts, to use all processors.
fn small_clusters(part: u64) {
    const SEEDS: u64 = 12;
    let all = run_all(part * SEEDS..(part + 1) * SEEDS, 4, TIME);
    // That nothing broke says little if nothing happened.
    assert!(all.runs > SEEDS * 20, "{all:?}");
    assert!(all.faults > SEEDS * 10, "{all:?}");
    assert!(all.operations > SEEDS * 3, "{all:?}");
    assert!(all.reconfigurations > SEEDS * 2, "{all:?}");
    assert!(all.claims > SEEDS * 2, "{all:?}");
    assert!(all.leaders > SEEDS, "{all:?}");
    assert!(all.rival_tasks > SEEDS * 10, "{all:?}");
}

#[test]
fn small_clusters_keep_all_invariants_and_come_to_rest_1() {
    small_clusters(0);
}

#[test]
fn small_clusters_keep_all_invariants_and_come_to_rest_2() {
    small_clusters(1);
}

#[test]
fn small_clusters_keep_all_invariants_and_come_to_rest_3() {
    small_clusters(2);
}

#[test]
fn small_clusters_keep_all_invariants_and_come_to_rest_4() {
    small_clusters(3);
}

#[test]
fn a_large_cluster_keeps_all_invariants_and_comes_to_rest() {
    let all = run_all(0..1, 100, Duration::from_secs(60));
    assert!(all.runs > 200 && all.faults > 50, "{all:?}");
}

#[test]
fn the_same_seed_does_the_same() {
    let settings = Settings::new(4, Duration::from_secs(60));
    let once = km_sim::run(7, &settings);
    assert_eq!(once, km_sim::run(7, &settings));
    assert!(once.is_ok_and(|report| report.faults > 0 && report.pods_created > 0));
}
