//! Some dozens of clusters, each from its seed. A seed that failed once stays here by its name.

use std::time::Duration;

/// Seeds of every test run.
const SEEDS: u64 = 36;

#[test]
fn invariants_and_liveness_hold_from_every_seed() {
    let mut runs = 0;
    for seed in 0..SEEDS {
        match km_sim::run(seed, Duration::from_secs(180)) {
            Ok(report) => runs += report.runs,
            Err(violation) => panic!("{violation}"),
        }
    }
    assert!(runs > SEEDS * 20, "too little happened: {runs} runs");
}

/// A task's end was told by the master and then by its agent, and the second word was acknowledged before the first one
/// had its effect.
#[test]
fn seed_1020_two_words_about_one_end() {
    if let Err(violation) = km_sim::run(1020, Duration::from_secs(180)) {
        panic!("{violation}");
    }
}

#[test]
fn the_same_seed_does_the_same() {
    let once = km_sim::run(7, Duration::from_secs(60));
    assert_eq!(once, km_sim::run(7, Duration::from_secs(60)));
    assert!(once.is_ok_and(|report| report.faults > 0 && report.pods_created > 0));
}
