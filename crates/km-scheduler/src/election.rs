//! Which of several schedulers leads: an election over one Lease. No IO: events in, actions out, time as a number.
//!
//! The rules are those of Kubernetes' own leader election (client-go, `tools/leaderelection`). Candidates compare no
//! clocks: each measures with its own how long the Lease stayed unchanged. A leader counts from when it *sent* its last
//! renewal that succeeded, a candidate from when it *saw* the Lease change; so as long as the renew deadline is shorter
//! than the lease's duration (and no clock runs faster than that quotient), the leader has stopped before another one
//! starts. Every write carries the version that it is based on, so that a write that comes late comes to nothing.
//!
//! Cost: a leader makes one write a retry period, a candidate one read.

mod actions;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use actions::{Action, Draft, Event, Record, Why, Written};

/// Times of an election. All candidates of a Lease should have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a Lease that nobody renews keeps others off.
    pub lease: Duration,
    /// How long a leader goes on without a renewal. Shorter than `lease`.
    pub renew: Duration,
    /// Pause between two requests. Shorter than `renew`.
    pub retry: Duration,
}

impl Default for Timing {
    /// The defaults of Kubernetes' components.
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

/// What this candidate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Standby,
    /// Its belief ends then, unless it is renewed.
    Leader {
        until: Duration,
    },
    /// It leads no more, but its work hasn't stopped yet. It doesn't campaign in this time.
    Stopping,
}

/// A request under way: there is one at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Read,
    /// Takes or renews the Lease; the time is when it was sent.
    Claim(Duration),
    Release,
}

/// One candidate.
#[derive(Debug)]
pub struct Election {
    me: String,
    timing: Timing,
    role: Role,
    request: Option<Request>,
    /// The Lease as last seen, and since when it is so.
    seen: Option<(Record, Duration)>,
    /// Whether a write may have changed the Lease since.
    in_doubt: bool,
    /// When to ask next.
    next: Duration,
    /// The Lease is to be given back by then, once our work has stopped.
    release_by: Option<Duration>,
    /// After a hand-over another one is to have the first try.
    modest_until: Duration,
}

impl Election {
    /// A candidate. `me` must differ from all others, also from those of earlier processes on this machine.
    pub fn new(me: String, timing: Timing) -> Self {
        Self {
            me,
            timing,
            role: Role::Standby,
            request: None,
            seen: None,
            in_doubt: false,
            next: Duration::ZERO,
            release_by: None,
            modest_until: Duration::ZERO,
        }
    }

    /// Whether this candidate may act as the leader at that time.
    pub fn leads(&self, now: Duration) -> bool {
        matches!(self.role, Role::Leader { until } if now < until)
    }

    /// Who holds the Lease, as far as known.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().map(|(record, _)| record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Whether nothing is left to be stopped or given back.
    pub fn is_at_rest(&self) -> bool {
        self.role == Role::Standby && self.release_by.is_none()
    }

    /// When the next [`Event::Tick`] is needed at the latest.
    pub fn next_wakeup(&self) -> Duration {
        let request = if self.request.is_some() { Duration::MAX } else { self.next };
        match self.role {
            Role::Leader { until } => request.min(until),
            _ => request,
        }
    }

    /// Takes one event in and says what is to be done. `now` never goes back.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Tick => {}
            // A leader's own renewals are changes too.
            Event::Changed if self.role == Role::Standby => self.next = self.next.min(now),
            Event::Changed => {}
            Event::Read(Ok(found)) => self.on_read(now, found, &mut out),
            Event::Read(Err(())) => self.pause(now),
            Event::Written(written) => self.on_written(now, written, &mut out),
            Event::HandOver => {
                if matches!(self.role, Role::Leader { .. }) {
                    self.release_by = Some(now + self.timing.lease);
                    self.modest_until = now + self.timing.lease;
                    self.step_down(Why::HandedOver, &mut out);
                }
            }
            Event::Stopped => {
                if self.role == Role::Stopping {
                    self.role = Role::Standby;
                    self.next = now;
                }
            }
        }
        if matches!(self.role, Role::Leader { until } if until <= now) {
            self.step_down(Why::NotRenewed, &mut out);
        }
        self.ask(now, &mut out);
        out
    }

    fn step_down(&mut self, why: Why, out: &mut Vec<Action>) {
        self.role = Role::Stopping;
        out.push(Action::StandBy(why));
    }

    fn pause(&mut self, now: Duration) {
        self.request = None;
        self.next = now + self.timing.retry;
    }

    /// Sends the next request, if it is time.
    fn ask(&mut self, now: Duration, out: &mut Vec<Action>) {
        if self.request.is_some() || self.next > now {
            return;
        }
        let known = self.seen.as_ref().map(|(record, _)| record).filter(|_| !self.in_doubt);
        let mine = known.filter(|record| record.holder == self.me);
        match self.role {
            // Nothing is written while our work may still go on without our being the leader.
            Role::Stopping => self.next = Duration::MAX,
            Role::Leader { .. } if mine.is_some() => self.claim(now, out),
            Role::Standby if self.release_by.is_some_and(|by| by <= now) => {
                self.release_by = None;
                self.read(out);
            }
            Role::Standby if self.release_by.is_some() && !self.in_doubt => match mine {
                Some(mine) => {
                    let draft = Draft::release(mine);
                    self.request = Some(Request::Release);
                    out.push(Action::Write(draft));
                }
                None => {
                    self.release_by = None;
                    self.read(out);
                }
            },
            _ => self.read(out),
        }
    }

    fn read(&mut self, out: &mut Vec<Action>) {
        self.request = Some(Request::Read);
        out.push(Action::Read);
    }

    fn claim(&mut self, now: Duration, out: &mut Vec<Action>) {
        let seen = self.seen.as_ref().map(|(record, _)| record);
        let draft = Draft::claim(&self.me, self.timing.lease, seen);
        self.request = Some(Request::Claim(now));
        out.push(Action::Write(draft));
    }

    fn on_read(&mut self, now: Duration, found: Option<Record>, out: &mut Vec<Action>) {
        self.request = None;
        self.in_doubt = false;
        self.next = now + self.timing.retry;
        match (&found, &mut self.seen) {
            (Some(found), Some((known, _))) if found.version == known.version => {}
            (Some(found), _) => self.seen = Some((found.clone(), now)),
            // Somebody deleted the Lease: its holder may go on until its time is over.
            (None, Some((known, _))) => known.version.clear(),
            (None, None) => {}
        }
        match self.role {
            Role::Stopping => {}
            Role::Leader { .. } => match found {
                Some(record) if record.holder == self.me => self.next = now,
                Some(record) => self.step_down(Why::TakenOver(record.holder), out),
                None => self.step_down(Why::NotRenewed, out),
            },
            Role::Standby if self.release_by.is_some() => self.next = now,
            Role::Standby => {
                let free = self.free_from();
                if free <= now {
                    self.claim(now, out);
                } else {
                    self.next = self.next.min(free);
                }
            }
        }
    }

    /// From when on the Lease may be taken.
    fn free_from(&self) -> Duration {
        let modest = self.modest_until;
        match &self.seen {
            // Nobody can lead by it, as our work has stopped.
            Some((record, _)) if record.holder == self.me => modest,
            Some((record, _)) if record.holder.is_empty() => modest,
            Some((record, since)) => *since + record.duration,
            None => Duration::ZERO,
        }
    }

    fn on_written(&mut self, now: Duration, written: Written, out: &mut Vec<Action>) {
        let request = self.request.take();
        match (request, written) {
            (Some(Request::Claim(sent)), Written::Done(record)) => {
                self.seen = Some((record, now));
                self.next = now + self.timing.retry;
                self.claimed(now, sent + self.timing.renew, out);
            }
            (Some(Request::Release), Written::Done(record)) => {
                self.seen = Some((record, now));
                self.release_by = None;
                self.next = now + self.timing.retry;
            }
            (_, Written::Done(_)) => self.in_doubt = true,
            // Somebody else wrote: who?
            (_, Written::Conflict) => {
                self.in_doubt = true;
                self.next = now;
            }
            (_, Written::Failed) => {
                self.in_doubt = true;
                self.next = now + self.timing.retry;
            }
        }
    }

    fn claimed(&mut self, now: Duration, until: Duration, out: &mut Vec<Action>) {
        match &mut self.role {
            Role::Leader { until: known } => *known = until,
            // The answer came too late to act on it, or the hand-over came first.
            Role::Standby if until > now && self.release_by.is_none() => {
                self.role = Role::Leader { until };
                self.modest_until = Duration::ZERO;
                out.push(Action::Lead);
            }
            Role::Standby | Role::Stopping => self.next = now,
        }
    }
}
