//! Waiting on a condition: the only way in which a test may wait.

use std::time::{Duration, Instant};

/// How long a condition may take on a slow machine before the test gives it up.
const PATIENCE: Duration = Duration::from_secs(90);

/// Asks until the condition holds and answers its value; panics with the last reason when it never does.
#[track_caller]
pub fn eventually<T>(what: &str, condition: impl FnMut() -> Result<T, String>) -> T {
    eventually_within(PATIENCE, what, condition)
}

/// As [`eventually`], with another patience.
#[track_caller]
pub fn eventually_within<T>(patience: Duration, what: &str, mut condition: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        match condition() {
            Ok(value) => return value,
            Err(reason) if Instant::now() >= deadline => {
                panic!("{what}: not within {} s: {reason}", patience.as_secs())
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}
