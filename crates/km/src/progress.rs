//! Progress on stderr: one ✓ line for each step, a spinner where a step takes long.

use std::{
    future::Future,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

const FRAMES: [&str; 4] = ["⠋", "⠙", "⠸", "⠴"];

/// Prints steps. On a terminal a running step has a spinner; elsewhere only its end is printed.
pub struct Progress {
    terminal: bool,
    started: Instant,
}

impl Progress {
    pub fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), started: Instant::now() }
    }

    /// Time since the first step.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Runs a step to its end and prints how it went. `detail` makes the line's last part out of the result.
    pub async fn step<T, E>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, E>>,
        detail: impl FnOnce(&T) -> String,
    ) -> Result<T, E> {
        let began = Instant::now();
        let mut work = std::pin::pin!(work);
        let mut tick = tokio::time::interval(Duration::from_millis(120));
        let mut frame = 0;
        let result = loop {
            tokio::select! {
                result = &mut work => break result,
                _ = tick.tick(), if self.terminal => {
                    self.spin(FRAMES[frame % FRAMES.len()], name, began.elapsed());
                    frame += 1;
                }
            }
        };
        match &result {
            Ok(value) => self.done(name, &detail(value), began.elapsed()),
            Err(_) => self.line(&format!("✗ {name}")),
        }
        result
    }

    /// Prints a finished step.
    pub fn done(&self, name: &str, detail: &str, took: Duration) {
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        self.line(&format!("✓ {name}{detail} ({:.1} s)", took.as_secs_f64()));
    }

    /// Prints something the user should know that is no failure.
    pub fn note(&self, text: &str) {
        self.line(&format!("! {text}"));
    }

    fn spin(&self, frame: &str, name: &str, elapsed: Duration) {
        let mut stderr = std::io::stderr();
        // A terminal that is gone is no reason to stop the cluster.
        let _gone = write!(stderr, "\r\x1b[2K{frame} {name} {:.0} s", elapsed.as_secs_f64());
        let _gone = stderr.flush();
    }

    fn line(&self, text: &str) {
        let clear = if self.terminal { "\r\x1b[2K" } else { "" };
        let _gone = writeln!(std::io::stderr(), "{clear}{text}");
    }
}
