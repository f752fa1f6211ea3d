//! Tasks that are to be killed: the master is told again and again, until it says that they have ended.

use std::{collections::BTreeMap, time::Duration};

use super::{Action, Core, timetable::Timetable};

/// Pause after the first KILL of a task, and the longest one.
const FIRST: Duration = Duration::from_millis(2500);
const LONGEST: Duration = Duration::from_secs(60);

/// The kills under way by task id.
#[derive(Default)]
pub(super) struct Kills {
    open: BTreeMap<String, Kill>,
    next: Timetable<String>,
}

struct Kill {
    agent_id: Option<String>,
    pause: Duration,
}

impl Kills {
    pub fn next_wakeup(&self) -> Option<Duration> {
        self.next.first()
    }

    /// The task has ended.
    pub fn remove(&mut self, task: &str) {
        if let Some((id, _)) = self.open.remove_entry(task) {
            self.next.set(&id, None);
        }
    }

    /// A new master has heard of none of them.
    pub fn repeat_all(&mut self, now: Duration) {
        self.open.keys().for_each(|id| self.next.set(id, Some(now)));
    }

    /// The task shows that it lives, so the last KILL got lost: the next one needn't wait for longer than that. Says
    /// whether the task is to be killed at all.
    pub fn hasten(&mut self, task: &str, at: Duration) -> bool {
        let Some((id, _)) = self.open.get_key_value(task) else { return false };
        let at = self.next.get(id).map_or(at, |next| next.min(at));
        self.next.set(id, Some(at));
        true
    }
}

impl Core {
    pub(super) fn repeat_kills(&mut self, now: Duration, out: &mut Vec<Action>) {
        for task_id in self.kills.next.due(now) {
            let Some(kill) = self.kills.open.get_mut(&task_id) else { continue };
            kill.pause = (kill.pause * 2).min(LONGEST);
            self.kills.next.set(&task_id, Some(now + kill.pause));
            out.push(Action::Kill { agent_id: kill.agent_id.clone(), task_id });
        }
    }

    /// Kills a task until it is known to have ended.
    pub(super) fn kill(&mut self, now: Duration, task_id: &str, agent_id: &str) {
        if !self.kills.open.contains_key(task_id) {
            let agent_id = (!agent_id.is_empty()).then(|| agent_id.to_owned());
            self.kills.open.insert(task_id.to_owned(), Kill { agent_id, pause: FIRST });
            self.kills.next.set(&task_id.to_owned(), Some(now));
        }
        self.tasks.amend(task_id, |task| task.flags.deleted = true);
    }
}
