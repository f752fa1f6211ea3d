//! The minion's core: what happened to the children in, what to do with them out.

use std::time::Duration;

/// Between a proxy's end and its next start. It does not grow: a node without services is of little use.
pub const RESTART_DELAY: Duration = Duration::from_secs(5);
/// Between SIGTERM and SIGKILL.
pub const KILL_DELAY: Duration = Duration::from_secs(5);
/// The exit code when the executor could not be started.
const CANNOT_START: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Executor,
    Proxy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A child that was to be started could not be.
    NotStarted(Role),
    /// A child ended; by a signal counts as 128 + its number.
    Exited(Role, u8),
    /// The minion shall end.
    Stop,
    /// Time passed.
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Start(Role),
    Terminate(Role),
    Kill(Role),
    /// Nothing runs any more: end with this code.
    End(u8),
}

#[derive(Debug)]
pub struct Supervisor {
    executor: Child,
    proxy: Child,
    /// Set once the minion is ending: when to kill what still runs, and the code to end with.
    ending: Option<Ending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Child {
    Running,
    /// To be started again then.
    Waiting(Duration),
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    kill_at: Option<Duration>,
    code: u8,
}

impl Supervisor {
    /// A supervisor whose children are to be started by the actions that come with it.
    pub fn start(run_proxy: bool) -> (Self, Vec<Action>) {
        let proxy = if run_proxy { Child::Running } else { Child::Gone };
        let supervisor = Self { executor: Child::Running, proxy, ending: None };
        let mut actions = vec![Action::Start(Role::Executor)];
        if run_proxy {
            actions.push(Action::Start(Role::Proxy));
        }
        (supervisor, actions)
    }

    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        match event {
            Event::NotStarted(Role::Executor) => self.executor_gone(now, CANNOT_START),
            Event::Exited(Role::Executor, code) => self.executor_gone(now, code),
            Event::NotStarted(Role::Proxy) | Event::Exited(Role::Proxy, _) => self.proxy_gone(now),
            Event::Stop => self.end(now, 0),
            Event::Tick => self.tick(now),
        }
    }

    /// When a tick is wanted.
    pub fn next_deadline(&self) -> Option<Duration> {
        match (self.ending, self.proxy) {
            (Some(ending), _) => ending.kill_at,
            (None, Child::Waiting(at)) => Some(at),
            (None, _) => None,
        }
    }

    fn executor_gone(&mut self, now: Duration, code: u8) -> Vec<Action> {
        self.executor = Child::Gone;
        if let Some(ending) = &mut self.ending {
            ending.code = code;
        }
        self.end(now, code)
    }

    fn proxy_gone(&mut self, now: Duration) -> Vec<Action> {
        if self.ending.is_some() {
            self.proxy = Child::Gone;
            return self.end_when_alone();
        }
        self.proxy = Child::Waiting(now + RESTART_DELAY);
        Vec::new()
    }

    fn end(&mut self, now: Duration, code: u8) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.ending.is_none() {
            self.ending = Some(Ending { kill_at: Some(now + KILL_DELAY), code });
            if self.proxy != Child::Running {
                self.proxy = Child::Gone;
            }
            actions.extend(self.running().map(Action::Terminate));
        }
        actions.extend(self.end_when_alone());
        actions
    }

    fn tick(&mut self, now: Duration) -> Vec<Action> {
        if let Some(ending) = &mut self.ending {
            if ending.kill_at.is_none_or(|at| at > now) {
                return Vec::new();
            }
            ending.kill_at = None;
            return self.running().map(Action::Kill).collect();
        }
        match self.proxy {
            Child::Waiting(at) if at <= now => {
                self.proxy = Child::Running;
                vec![Action::Start(Role::Proxy)]
            }
            _ => Vec::new(),
        }
    }

    fn running(&self) -> impl Iterator<Item = Role> {
        let children = [(Role::Executor, self.executor), (Role::Proxy, self.proxy)];
        children.into_iter().filter(|(_, child)| *child == Child::Running).map(|(role, _)| role)
    }

    fn end_when_alone(&self) -> Vec<Action> {
        match self.ending {
            Some(ending) if self.running().next().is_none() => vec![Action::End(ending.code)],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Action::*, Event::*, Role::*, *};

    type Step = (u64, Event, &'static [Action]);

    /// Each case: with a proxy or not, and what happens when (in ms), with the actions due.
    fn play(name: &str, run_proxy: bool, steps: &[Step]) {
        let (mut supervisor, _) = Supervisor::start(run_proxy);
        for (at, event, actions) in steps {
            assert_eq!(supervisor.handle(Duration::from_millis(*at), *event), *actions, "{name}: {event:?} at {at}");
        }
    }

    #[test]
    fn both_are_started_or_the_executor_alone() {
        assert_eq!(Supervisor::start(true).1, [Start(Executor), Start(Proxy)]);
        assert_eq!(Supervisor::start(false).1, [Start(Executor)]);
    }

    #[test]
    fn rules() {
        let cases: [(&str, bool, &[Step]); 9] = [
            (
                "a crashed proxy is started again after 5 s, as often as it crashes",
                true,
                &[
                    (0, Exited(Proxy, 1), &[]),
                    (4999, Tick, &[]),
                    (5000, Tick, &[Start(Proxy)]),
                    (6000, NotStarted(Proxy), &[]),
                    (11_000, Tick, &[Start(Proxy)]),
                    (12_000, Tick, &[]),
                ],
            ),
            ("the executor's end is the end, with its code", false, &[(0, Exited(Executor, 7), &[End(7)])]),
            ("an executor that can't start is an end", false, &[(0, NotStarted(Executor), &[End(1)])]),
            (
                "the proxy is ended before",
                true,
                &[(0, Exited(Executor, 3), &[Terminate(Proxy)]), (9, Exited(Proxy, 143), &[End(3)])],
            ),
            (
                "a proxy waiting for its start is not started any more",
                true,
                &[(0, Exited(Proxy, 1), &[]), (9, Exited(Executor, 0), &[End(0)])],
            ),
            (
                "stop ends both; the code is the executor's",
                true,
                &[
                    (0, Stop, &[Terminate(Executor), Terminate(Proxy)]),
                    (1, Stop, &[]),
                    (2, Exited(Proxy, 0), &[]),
                    (3, Exited(Executor, 0), &[End(0)]),
                ],
            ),
            (
                "who doesn't listen is killed once",
                true,
                &[
                    (0, Stop, &[Terminate(Executor), Terminate(Proxy)]),
                    (4999, Tick, &[]),
                    (5000, Tick, &[Kill(Executor), Kill(Proxy)]),
                    (9000, Tick, &[]),
                    (9001, Exited(Executor, 137), &[]),
                    (9002, Exited(Proxy, 137), &[End(137)]),
                ],
            ),
            (
                "only those that run are killed",
                true,
                &[(0, Exited(Executor, 2), &[Terminate(Proxy)]), (5000, Tick, &[Kill(Proxy)])],
            ),
            ("no end without a reason", true, &[(60_000, Tick, &[])]),
        ];
        for (name, run_proxy, steps) in cases {
            play(name, run_proxy, steps);
        }
    }

    #[test]
    fn deadlines_are_those_of_restart_and_kill() {
        let (mut supervisor, _) = Supervisor::start(true);
        assert_eq!(supervisor.next_deadline(), None);
        supervisor.handle(Duration::ZERO, Exited(Proxy, 1));
        assert_eq!(supervisor.next_deadline(), Some(RESTART_DELAY));
        supervisor.handle(Duration::from_secs(1), Stop);
        assert_eq!(supervisor.next_deadline(), Some(Duration::from_secs(1) + KILL_DELAY));
        supervisor.handle(Duration::from_secs(6), Tick);
        assert_eq!(supervisor.next_deadline(), None);
    }
}
