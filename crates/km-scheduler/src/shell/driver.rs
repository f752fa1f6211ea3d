//! The loop around the core: events in order, actions to whom they concern.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    api::Api,
    master::Link,
    metrics::Metrics,
    status::{Shown, Status},
};
use crate::core::{Action, Core, Event};

/// Longest sleep when the core names no time.
const SLEEP: Duration = Duration::from_secs(60);

/// The core and where its actions go.
pub struct Driver {
    pub core: Core,
    pub status: Arc<Status>,
    pub metrics: Metrics,
    pub api: Api,
    pub link: Link,
    pub events: mpsc::Sender<Event>,
}

impl Driver {
    /// Runs until `stop`. Then no call leaves any more: a call on its way is given up.
    pub async fn run(mut self, mut inbox: mpsc::Receiver<Event>, stop: &CancellationToken) {
        let start = Instant::now();
        let calls = self.ordered_calls(stop.clone());
        let mut shown_at = Duration::ZERO;
        loop {
            let now = start.elapsed();
            let pause = self.core.next_wakeup(now).map_or(SLEEP, |at| at.saturating_sub(now)).min(SLEEP);
            let event = tokio::select! {
                event = inbox.recv() => event,
                () = tokio::time::sleep(pause) => Some(Event::Tick),
                () = stop.cancelled() => None,
            };
            let Some(event) = event else { return };
            self.metrics.count_event(&event);
            let now = start.elapsed();
            for action in self.core.handle(now, event) {
                self.metrics.count_action(&action);
                self.carry_out(action, &calls, stop);
            }
            // Lines are made for people; once in a while is enough when much happens.
            if inbox.is_empty() || now > shown_at + Duration::from_millis(200) {
                shown_at = now;
                self.show(now);
            }
        }
    }

    fn show(&self, now: Duration) {
        *self.status.lock() = Shown {
            subscribed: self.core.is_subscribed(),
            synced: self.core.is_synced(),
            tasks: self.core.task_lines(),
            queue: self.core.queue_lines(now),
            offers: self.core.offer_lines(now),
        };
    }

    fn carry_out(&self, action: Action, calls: &mpsc::UnboundedSender<Action>, stop: &CancellationToken) {
        match action {
            // Each task has one acknowledgement on the way at most, so their order doesn't matter.
            Action::Acknowledge { .. } => {
                let (link, stop) = (self.link.clone(), stop.clone());
                tokio::spawn(async move { stop.run_until_cancelled(link.send(action)).await });
            }
            Action::Accept { .. }
            | Action::Decline { .. }
            | Action::AnswerInverse { .. }
            | Action::Suppress
            | Action::Revive
            | Action::Kill { .. }
            | Action::Reconcile(_)
            | Action::Message { .. } => {
                // The receiver ends with the driver.
                let _ended = calls.send(action);
            }
            // Done by the subscription before it told us; metrics took the other.
            Action::ForgetFramework | Action::Observe(_) => {}
            operation => self.api.start(operation),
        }
    }

    /// Calls go out one after the other: a REVIVE must not overtake the DECLINE before it.
    fn ordered_calls(&self, stop: CancellationToken) -> mpsc::UnboundedSender<Action> {
        let (sender, mut receiver) = mpsc::unbounded_channel::<Action>();
        let (link, events) = (self.link.clone(), self.events.clone());
        tokio::spawn(async move {
            while let Some(action) = receiver.recv().await {
                let batch = match &action {
                    Action::Accept { batch, .. } => Some(*batch),
                    _ => None,
                };
                let Some(outcome) = stop.run_until_cancelled(link.send(action)).await else { return };
                if let Some(batch) = batch {
                    let _stopping = events.send(Event::AcceptResult { batch, outcome }).await;
                }
            }
        });
        sender
    }
}
