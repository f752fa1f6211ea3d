//! The pool itself.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use km_mesos_proto::v1;

use crate::{
    event::{Action, DeclineReason, End, Event},
    listener::{Filter, Listeners},
};

/// How long things are kept.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A live offer that nobody took for so long is declined (original: 5 s). [`Duration::MAX`] keeps it for ever.
    pub ttl: Duration,
    /// An ended offer is remembered for so long (original: 2 min).
    pub linger: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(5), linger: Duration::from_secs(120) }
    }
}

/// A live offer.
#[derive(Clone, Debug)]
pub struct Held {
    pub offer: v1::Offer,
    /// When it came.
    pub since: Duration,
    /// Whether placement has taken it.
    pub acquired: bool,
}

/// Offers by id. Time is the duration since an arbitrary start, never going back.
#[derive(Default)]
pub struct Pool {
    settings: Settings,
    live: BTreeMap<String, Held>,
    by_agent: BTreeMap<String, BTreeSet<String>>,
    /// The live ones by arrival.
    by_age: BTreeSet<(Duration, String)>,
    lingering: BTreeSet<String>,
    linger_until: VecDeque<(Duration, String)>,
    listeners: Listeners,
}

impl Pool {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Takes one event in and says what follows.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Received(offers) => self.receive(now, offers, &mut actions),
            Event::Rescinded(id) => self.end(now, &id.value, End::Rescinded, &mut actions),
            Event::Acquired(ids) => self.set_acquired(&ids, true),
            Event::Released(ids) => self.set_acquired(&ids, false),
            Event::Accepted(ids) => {
                for id in ids {
                    self.end(now, &id.value, End::Accepted, &mut actions);
                }
            }
            Event::Refused(ids, reason) => self.decline(now, ids, reason, &mut actions),
            Event::AgentLost(agent) => {
                for id in self.by_agent.remove(&agent.value).unwrap_or_default() {
                    self.end(now, &id, End::Lost, &mut actions);
                }
            }
            Event::Disconnected => {
                for id in self.live.keys().cloned().collect::<Vec<_>>() {
                    self.end(now, &id, End::Lost, &mut actions);
                }
            }
            Event::Tick => self.tick(now, &mut actions),
        }
        actions
    }

    /// Registers a one-shot listener. An offer that is already here and free wakes it at once.
    pub fn listen(&mut self, key: &str, filter: Filter) -> Vec<Action> {
        self.listeners.register(key.to_owned(), filter);
        self.wake()
    }

    /// Ends a listener that is no longer interested.
    pub fn forget_listener(&mut self, key: &str) {
        self.listeners.forget(key);
    }

    /// The live offer of that id.
    pub fn get(&self, id: &str) -> Option<&Held> {
        self.live.get(id)
    }

    /// Whether an offer of that id was here and ended within the linger time.
    pub fn lingers(&self, id: &str) -> bool {
        self.lingering.contains(id)
    }

    /// All live offers, ordered by id.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.live.values()
    }

    /// All live offers, the oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = &Held> {
        self.by_age.iter().filter_map(|(_, id)| self.live.get(id))
    }

    /// The live offers of one agent, ordered by id.
    pub fn of_agent(&self, agent: &str) -> impl Iterator<Item = &Held> {
        self.by_agent.get(agent).into_iter().flatten().filter_map(|id| self.live.get(id))
    }

    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// When the pool next needs a `Tick`.
    pub fn next_deadline(&self) -> Option<Duration> {
        let oldest = self.by_age().find(|held| !held.acquired);
        let expiry = oldest.map(|held| held.since.saturating_add(self.settings.ttl));
        let linger = self.linger_until.front().map(|(until, _)| *until);
        expiry.into_iter().chain(linger).min()
    }

    fn receive(&mut self, now: Duration, offers: Vec<v1::Offer>, actions: &mut Vec<Action>) {
        for offer in offers {
            let id = offer.id.value.clone();
            if self.live.contains_key(&id) || self.lingering.contains(&id) {
                continue;
            }
            self.by_agent.entry(offer.agent_id.value.clone()).or_default().insert(id.clone());
            self.by_age.insert((now, id.clone()));
            self.live.insert(id, Held { offer, since: now, acquired: false });
        }
        actions.extend(self.wake());
    }

    fn wake(&mut self) -> Vec<Action> {
        if self.listeners.is_empty() {
            return Vec::new();
        }
        let free: Vec<&v1::Offer> = self.live.values().filter(|held| !held.acquired).map(|held| &held.offer).collect();
        self.listeners.woken_by(&free).into_iter().map(Action::Wake).collect()
    }

    fn set_acquired(&mut self, ids: &[v1::OfferId], acquired: bool) {
        for id in ids {
            if let Some(held) = self.live.get_mut(&id.value) {
                held.acquired = acquired;
            }
        }
    }

    fn decline(&mut self, now: Duration, ids: Vec<v1::OfferId>, reason: DeclineReason, actions: &mut Vec<Action>) {
        let known: Vec<v1::OfferId> = ids.into_iter().filter(|id| self.live.contains_key(&id.value)).collect();
        if known.is_empty() {
            return;
        }
        for id in &known {
            self.end(now, &id.value, End::Declined(reason), actions);
        }
        actions.push(Action::Decline { offers: known, reason });
    }

    /// Ends a live offer; any other id is none of our business any more.
    fn end(&mut self, now: Duration, id: &str, end: End, actions: &mut Vec<Action>) {
        let Some(held) = self.live.remove(id) else { return };
        self.by_age.remove(&(held.since, id.to_owned()));
        let agent = &held.offer.agent_id.value;
        if let Some(ids) = self.by_agent.get_mut(agent) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_agent.remove(agent);
            }
        }
        self.lingering.insert(id.to_owned());
        self.linger_until.push_back((now.saturating_add(self.settings.linger), id.to_owned()));
        actions.push(Action::Ended { offer: held.offer.id, hostname: held.offer.hostname, end });
    }

    fn tick(&mut self, now: Duration, actions: &mut Vec<Action>) {
        while let Some((_, id)) = self.linger_until.pop_front_if(|(until, _)| *until <= now) {
            self.lingering.remove(&id);
        }
        let old = self.by_age().take_while(|held| held.since.saturating_add(self.settings.ttl) <= now);
        let mut expired: Vec<v1::OfferId> =
            old.filter(|held| !held.acquired).map(|held| held.offer.id.clone()).collect();
        expired.sort_unstable_by(|one, other| one.value.cmp(&other.value));
        self.decline(now, expired, DeclineReason::Expired, actions);
    }
}
