//! Reconciliation: asking Mesos for the state of tasks.

use std::{collections::BTreeMap, time::Duration};

use km_podtask::State;

use super::{Action, Config, Core, Timing, timetable::Timetable};

/// A launch of which nothing is heard for so long is asked for.
const SILENCE: Duration = Duration::from_secs(30);
/// A launch must be so old before Mesos' not knowing it means anything: its ACCEPT may still be on the way.
const SETTLED: Duration = Duration::from_secs(10);

/// How often something was asked for, done, or needless because another request was still to be served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requested: u64,
    pub executed: u64,
    pub cancelled: u64,
}

/// Reconciliations since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    pub explicit: Tally,
    pub implicit: Tally,
}

/// What is asked for, and when next.
#[derive(Default)]
pub(super) struct Reconciler {
    /// Of the implicit ones: between all, and between the first and the second of a subscription.
    interval: Duration,
    second: Duration,
    cooldown: Duration,
    longest_pause: Duration,
    /// Whether the next implicit one is the first of its subscription.
    first: bool,
    /// Tasks whose state is wanted, with the pause after the next question. Each question doubles it.
    open: BTreeMap<String, Duration>,
    /// When they are asked for.
    questions: Timetable<String>,
    /// Asked without a time: at once.
    fresh: Vec<String>,
    implicit: Option<Duration>,
    explicit_all: Option<Duration>,
    /// When all was last asked for in either way.
    last_explicit: Option<Duration>,
    last_implicit: Option<Duration>,
    /// Whether the next implicit one was asked for, as opposed to being due by its interval.
    implicit_asked: bool,
    /// Since when an explicit one waits for Mesos' words.
    unanswered: Option<Duration>,
    pub tallies: Tallies,
}

impl Reconciler {
    pub fn new(config: &Config) -> Self {
        Self {
            interval: config.reconcile_interval,
            second: config.second_implicit,
            cooldown: config.reconcile_cooldown,
            longest_pause: config.explicit_backoff,
            ..Self::default()
        }
    }

    /// First all known tasks, then everything that the master knows. At once: what was said while nobody listened is
    /// said again only when asked for.
    pub fn subscribed(&mut self, now: Duration) {
        self.open.clear();
        self.questions.clear();
        self.first = true;
        self.want_explicit(now);
        self.want_implicit(now);
    }

    /// Soon, but not within the cool-down of the last one.
    pub fn request_explicit(&mut self, now: Duration) {
        let at = self.last_explicit.map_or(now, |last| now.max(last + self.cooldown));
        self.want_explicit(at);
    }

    fn want_explicit(&mut self, at: Duration) {
        self.tallies.explicit.requested += 1;
        self.tallies.explicit.cancelled += u64::from(self.explicit_all.is_some());
        self.explicit_all = Some(self.explicit_all.map_or(at, |before| before.min(at)));
    }

    /// As [`Reconciler::request_explicit`].
    pub fn request_implicit(&mut self, now: Duration) {
        let at = self.last_implicit.map_or(now, |last| now.max(last + self.cooldown));
        self.want_implicit(at);
    }

    fn want_implicit(&mut self, at: Duration) {
        self.tallies.implicit.requested += 1;
        self.tallies.implicit.cancelled += u64::from(std::mem::replace(&mut self.implicit_asked, true));
        self.implicit = Some(self.implicit.map_or(at, |before| before.min(at)));
    }

    /// Wants the state of one task.
    pub fn ask(&mut self, id: &str) {
        self.fresh.push(id.to_owned());
    }

    /// Mesos said something about the task.
    pub fn heard(&mut self, id: &str) {
        if let Some((id, _)) = self.open.remove_entry(id) {
            self.questions.set(&id, None);
        }
    }

    pub fn next_wakeup(&self) -> Option<Duration> {
        [self.questions.first(), self.implicit, self.explicit_all].into_iter().flatten().min()
    }
}

impl Core {
    pub(super) fn reconcile_due(&mut self, now: Duration, out: &mut Vec<Action>) {
        if !self.synced {
            return;
        }
        let all = self.reconciler.explicit_all.is_some_and(|at| at <= now);
        if all {
            self.reconciler.explicit_all = None;
            self.reconciler.last_explicit = Some(now);
            self.reconciler.tallies.explicit.executed += 1;
            self.reconciler.unanswered.get_or_insert(now);
            let live: Vec<String> = self.tasks.live().map(|task| task.id.clone()).collect();
            self.reconciler.fresh.extend(live);
        }
        for id in std::mem::take(&mut self.reconciler.fresh) {
            if !self.reconciler.open.contains_key(&id) {
                self.reconciler.questions.set(&id, Some(now));
                self.reconciler.open.insert(id, Duration::from_secs(1));
            }
        }
        let longest = self.reconciler.longest_pause;
        let mut asked = Vec::new();
        let mut over = Vec::new();
        for id in self.reconciler.questions.due(now) {
            let Some(task) = self.tasks.get(&id).filter(|task| task.state != State::Finished) else {
                over.push(id);
                continue;
            };
            let settled = task.launched.map_or(now, |launched| launched + SETTLED);
            if task.updated.is_none() && settled > now {
                self.reconciler.questions.set(&id, Some(settled));
                continue;
            }
            asked.push((id.clone(), task.agent_id.clone()));
            if let Some(pause) = self.reconciler.open.get_mut(&id) {
                self.reconciler.questions.set(&id, Some(now + *pause));
                *pause = (*pause * 2).min(longest);
            }
        }
        over.iter().for_each(|id| self.reconciler.heard(id));
        if !asked.is_empty() {
            out.push(Action::Reconcile(asked));
        }
        if self.reconciler.open.is_empty()
            && let Some(since) = self.reconciler.unanswered.take()
        {
            out.push(Action::Observe(Timing::Reconciliation(now.saturating_sub(since))));
        }
        if self.reconciler.implicit.is_some_and(|at| at <= now) {
            out.push(Action::Reconcile(Vec::new()));
            let reconciler = &mut self.reconciler;
            reconciler.last_implicit = Some(now);
            reconciler.tallies.implicit.executed += 1;
            let asked = std::mem::take(&mut reconciler.implicit_asked);
            reconciler.tallies.implicit.requested += u64::from(!asked);
            let pause = if std::mem::take(&mut reconciler.first) { reconciler.second } else { reconciler.interval };
            reconciler.implicit = (!reconciler.interval.is_zero()).then(|| now + pause.max(reconciler.cooldown));
            self.ask_for_the_silent(now);
        }
    }

    /// Launches that nothing was heard of, and tasks on agents that may have gone for good.
    fn ask_for_the_silent(&mut self, now: Duration) {
        let silent = self.tasks.live().filter(|task| {
            let old = task.launched.is_some_and(|launched| launched + SILENCE <= now);
            (task.updated.is_none() && old) || task.flags.unreachable
        });
        let silent: Vec<String> = silent.map(|task| task.id.clone()).collect();
        silent.iter().for_each(|id| self.reconciler.ask(id));
    }
}
