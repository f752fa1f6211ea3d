//! Candidates with clocks of their own and requests that get lost or come late: never two leaders at a time.

use std::time::Duration;

use km_scheduler::election::{Action, Draft, Election, Event, Record, Timing, Written};
use proptest::prelude::*;

/// The stored Lease, with the checks of an API server.
#[derive(Default)]
struct Store {
    lease: Option<Record>,
    writes: u64,
}

impl Store {
    fn write(&mut self, draft: &Draft) -> Written {
        if self.lease.as_ref().map(|lease| lease.version.clone()) != draft.base {
            return Written::Conflict;
        }
        self.writes += 1;
        let record = Record {
            holder: draft.holder.clone(),
            duration: draft.duration,
            transitions: draft.transitions,
            version: self.writes.to_string(),
        };
        self.lease = Some(record.clone());
        Written::Done(record)
    }
}

/// One candidate, what it waits for, and its clock.
struct Candidate {
    election: Election,
    /// Its clock: how far it is ahead, and its speed in thousandths.
    ahead: Duration,
    speed: u32,
    /// Requests on their way: when they reach the store, and when the answer comes (in true time).
    requests: Vec<(Action, u64, u64)>,
    answers: Vec<(Event, u64)>,
    /// The process stands still until then.
    paused_until: u64,
    acts: bool,
    stops_at: Option<u64>,
}

impl Candidate {
    fn new(name: &str, ahead: u64, speed: u32) -> Self {
        Self {
            election: Election::new(name.to_owned(), Timing::default()),
            ahead: Duration::from_millis(ahead),
            speed,
            requests: Vec::new(),
            answers: Vec::new(),
            paused_until: 0,
            acts: false,
            stops_at: None,
        }
    }

    fn clock(&self, now: u64) -> Duration {
        self.ahead + Duration::from_millis(now) * self.speed / 1000
    }

    /// Whether it believes to be the leader, as everything that a leader does checks it.
    fn leads(&self, now: u64) -> bool {
        self.acts && self.election.leads(self.clock(now))
    }
}

/// A fault of a request: time to the store, whether it gets lost on the way, time back, whether the answer gets lost.
#[derive(Clone, Debug)]
struct Fault {
    there: u16,
    lost: bool,
    back: u16,
    silent: bool,
}

#[derive(Clone, Debug)]
enum Trouble {
    HandOver(bool),
    Pause(bool, u16),
    Nothing,
}

fn fault() -> impl Strategy<Value = Fault> {
    let time = prop_oneof![4 => 1..50u16, 1 => 50..30_000u16];
    (time.clone(), prop::bool::weighted(0.15), time, prop::bool::weighted(0.15))
        .prop_map(|(there, lost, back, silent)| Fault { there, lost, back, silent })
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        6 => Just(Trouble::Nothing),
        1 => any::<bool>().prop_map(Trouble::HandOver),
        1 => (any::<bool>(), 1..40_000u16).prop_map(|(which, time)| Trouble::Pause(which, time)),
    ]
}

/// A request without answer is given up after so long.
const DEADLINE: u64 = 5000;

struct Play {
    store: Store,
    candidates: Vec<Candidate>,
    faults: Vec<Fault>,
    sent: usize,
    /// When the first request without a fault was sent.
    calm_since: Option<u64>,
    terms: u32,
}

impl Play {
    fn send(&mut self, which: usize, now: u64, event: Event) {
        let clock = self.candidates[which].clock(now);
        let actions = self.candidates[which].election.handle(clock, event);
        for action in actions {
            self.perform(which, now, action);
        }
    }

    fn perform(&mut self, which: usize, now: u64, action: Action) {
        let candidate = &mut self.candidates[which];
        match action {
            Action::Lead => {
                candidate.acts = true;
                self.terms += 1;
            }
            Action::StandBy(_) => {
                candidate.acts = false;
                candidate.stops_at = Some(now + 30);
            }
            request => {
                let good = Fault { there: 5, lost: false, back: 5, silent: false };
                let fault = self.faults.get(self.sent).cloned().unwrap_or(good);
                self.sent += 1;
                if self.sent > self.faults.len() {
                    self.calm_since.get_or_insert(now);
                }
                let arrives = if fault.lost { u64::MAX } else { now + u64::from(fault.there) };
                let back = if fault.silent { u64::MAX } else { u64::from(fault.back) };
                let given_up = now + DEADLINE;
                let answered = arrives.saturating_add(back);
                if answered > given_up {
                    let event = match request {
                        Action::Read => Event::Read(Err(())),
                        _ => Event::Written(Written::Failed),
                    };
                    candidate.answers.push((event, given_up));
                }
                candidate.requests.push((request, arrives, if answered > given_up { u64::MAX } else { answered }));
            }
        }
    }

    fn step(&mut self, now: u64) {
        for which in 0..self.candidates.len() {
            let arrived: Vec<(Action, u64, u64)> =
                self.candidates[which].requests.extract_if(.., |(_, at, _)| *at <= now).collect();
            for (request, _, answered) in arrived {
                let event = match request {
                    Action::Write(draft) => Event::Written(self.store.write(&draft)),
                    _ => Event::Read(Ok(self.store.lease.clone())),
                };
                if answered < u64::MAX {
                    self.candidates[which].answers.push((event, answered));
                }
            }
            if self.candidates[which].paused_until > now {
                continue;
            }
            let answers: Vec<(Event, u64)> =
                self.candidates[which].answers.extract_if(.., |(_, at)| *at <= now).collect();
            for (event, _) in answers {
                self.send(which, now, event);
            }
            if self.candidates[which].stops_at.is_some_and(|at| at <= now) {
                self.candidates[which].stops_at = None;
                self.send(which, now, Event::Stopped);
            }
            self.send(which, now, Event::Tick);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// A deadline of 10 s within a lease of 15 s bears clocks whose speeds differ by half: here by a fifth at most.
    #[test]
    fn two_candidates_never_lead_at_once_and_one_leads_in_the_end(
        ahead in (0..1_000_000u64, 0..1_000_000u64),
        speeds in (900..1100u32, 900..1100u32),
        faults in prop::collection::vec(fault(), 0..60),
        troubles in prop::collection::vec(trouble(), 0..120),
    ) {
        let candidates = vec![Candidate::new("a", ahead.0, speeds.0), Candidate::new("b", ahead.1, speeds.1)];
        let mut play = Play { store: Store::default(), candidates, faults, sent: 0, calm_since: None, terms: 0 };
        let troubled = troubles.len() as u64 * 1000;
        for now in (0..troubled + 90_000).step_by(50) {
            if now % 1000 == 0 {
                match troubles.get((now / 1000) as usize) {
                    Some(Trouble::HandOver(which)) => play.send(usize::from(*which), now, Event::HandOver),
                    Some(Trouble::Pause(which, time)) => {
                        play.candidates[usize::from(*which)].paused_until = now + u64::from(*time);
                    }
                    _ => {}
                }
            }
            play.step(now);
            let leaders = play.candidates.iter().filter(|candidate| candidate.leads(now)).count();
            prop_assert!(leaders <= 1, "two leaders at {now} ms");
        }
        let end = troubled + 90_000;
        // A request with a fault may arrive half a minute late; some time after the last of them somebody leads.
        let quiet = |since: u64| since + 60_000 < end;
        if play.calm_since.is_some_and(quiet) && play.candidates.iter().all(|candidate| quiet(candidate.paused_until)) {
            prop_assert!(play.candidates.iter().any(|candidate| candidate.leads(end - 50)), "nobody leads");
            prop_assert!(play.terms >= 1);
        }
    }
}
