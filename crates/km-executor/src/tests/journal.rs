//! What happened, in order, across all fakes.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

/// A condition that isn't met by then has failed.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Default)]
pub struct Journal {
    lines: Arc<watch::Sender<Vec<String>>>,
}

impl Journal {
    pub fn note(&self, line: impl Into<String>) {
        self.lines.send_modify(|lines| lines.push(line.into()));
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Waits until a line starts with the text; its place.
    pub async fn wait(&self, text: &str) -> usize {
        let mut lines = self.lines.subscribe();
        let find = |lines: &Vec<String>| lines.iter().any(|line| line.starts_with(text));
        let found = tokio::time::timeout(PATIENCE, lines.wait_for(find)).await;
        assert!(found.is_ok(), "no {text:?} in {:#?}", self.lines());
        self.place(text).unwrap()
    }

    /// Waits until all lines together satisfy a condition.
    pub async fn wait_for(&self, what: &str, condition: impl Fn(&[String]) -> bool) {
        let mut lines = self.lines.subscribe();
        let found = tokio::time::timeout(PATIENCE, lines.wait_for(|lines| condition(lines))).await;
        assert!(found.is_ok(), "not {what} in {:#?}", self.lines());
    }

    pub fn place(&self, text: &str) -> Option<usize> {
        self.lines().iter().position(|line| line.starts_with(text))
    }
}
