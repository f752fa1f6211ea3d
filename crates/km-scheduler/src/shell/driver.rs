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
    profile::{self, Profile},
    status::{Question, Status},
};
use crate::core::{Action, Core, Event};

/// Longest sleep when the core names no time.
const SLEEP: Duration = Duration::from_secs(60);
/// How old the numbers that are found by counting through everything may be.
const SHOWN: Duration = Duration::from_secs(1);

/// The core and where its actions go.
pub struct Driver {
    pub core: Core,
    pub status: Arc<Status>,
    pub metrics: Metrics,
    pub profile: Profile,
    pub api: Api,
    pub link: Link,
    pub events: mpsc::Sender<Event>,
}

impl Driver {
    /// Runs until `stop`. Then no call leaves any more: a call on its way is given up.
    pub async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Event>,
        mut questions: mpsc::Receiver<Question>,
        stop: &CancellationToken,
    ) {
        let start = Instant::now();
        let calls = self.ordered_calls(stop.clone());
        // When the counts were last brought up to date, and whether anything happened since.
        let (mut shown_at, mut stale) = (Duration::ZERO, false);
        loop {
            let now = start.elapsed();
            if stale && now >= shown_at + SHOWN {
                (shown_at, stale) = (now, false);
                self.metrics.show(&self.core.tallies(), &self.core.waiting(now));
            }
            let longest = if stale { (shown_at + SHOWN).saturating_sub(now) } else { SLEEP };
            let pause = self.core.next_wakeup(now).map_or(longest, |at| at.saturating_sub(now)).min(longest);
            let event = tokio::select! {
                event = inbox.recv() => event,
                Some(question) = questions.recv() => {
                    question(&mut self.core, start.elapsed());
                    continue;
                }
                () = tokio::time::sleep(pause) => Some(Event::Tick),
                () = stop.cancelled() => None,
            };
            let Some(event) = event else { return };
            self.metrics.count_event(&event);
            let kind = profile::kind(&event);
            let now = start.elapsed();
            let actions = self.core.handle(now, event);
            self.link.wish(&self.core);
            let decided = start.elapsed();
            for action in actions {
                self.metrics.count_action(&action);
                self.carry_out(action, &calls, stop);
            }
            self.profile.add("decide", kind, decided.saturating_sub(now));
            self.profile.add("act", kind, start.elapsed().saturating_sub(decided));
            self.status.set(self.core.is_subscribed(), self.core.is_synced());
            stale = true;
        }
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
            | Action::UpdateFramework { .. }
            | Action::Kill { .. }
            | Action::Reconcile(_)
            | Action::Message { .. } => {
                // The receiver ends with the driver.
                let _ended = calls.send(action);
            }
            Action::Resubscribe => self.link.resubscribe(),
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
                let Some(answer) = stop.run_until_cancelled(answer_to(&link, action)).await else { return };
                if let Some(event) = answer {
                    let _stopping = events.send(event).await;
                }
            }
        });
        sender
    }
}

/// Sends a call; what the core wants to know of its outcome.
async fn answer_to(link: &Link, action: Action) -> Option<Event> {
    match &action {
        Action::Accept { batch, .. } => {
            let batch = *batch;
            Some(Event::AcceptResult { batch, outcome: link.send(action).await })
        }
        Action::UpdateFramework { number, .. } => {
            let number = *number;
            link.update(action).await.map(|answer| Event::FrameworkAnswer { number, answer })
        }
        _ => {
            link.send(action).await;
            None
        }
    }
}
