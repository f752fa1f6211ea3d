//! Trying again: exponential delays with jitter, so that a hundred executors don't come back in step.

use std::{future::Future, time::Duration};

use rand::Rng;

use crate::api::ApiError;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(15);

/// Delays from 0.2 s to 15 s, each between half and all of its nominal length.
#[derive(Debug)]
pub struct Delays {
    next: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Delays {
    pub async fn wait(&mut self) {
        let jitter = rand::rng().random_range(0.5..1.0);
        tokio::time::sleep(self.next.mul_f64(jitter)).await;
        self.next = (self.next * 2).min(LONGEST);
    }
}

/// Repeats an API call for as long as the server is unavailable.
pub async fn while_unavailable<T, F>(what: &str, mut call: impl FnMut() -> F) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, ApiError>>,
{
    let mut delays = Delays::default();
    loop {
        match call().await {
            Err(ApiError::Unavailable(reason)) => {
                tracing::warn!(%reason, "{what}: trying again");
                delays.wait().await;
            }
            other => return other,
        }
    }
}
