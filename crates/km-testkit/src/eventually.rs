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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_when_the_condition_holds() {
        let mut looks = 0;
        let found = eventually("it flips", || {
            looks += 1;
            if looks == 3 { Ok("flipped") } else { Err("not yet".to_owned()) }
        });
        assert_eq!((found, looks), ("flipped", 3));
    }

    #[test]
    #[should_panic(expected = "it never comes: not within 0 s: the reason")]
    fn a_condition_that_never_holds_fails_the_test_with_its_reason() {
        eventually_within(Duration::ZERO, "it never comes", || Err::<(), _>("the reason".to_owned()));
    }
}
