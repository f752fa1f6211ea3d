//! How many offers we want: when pods are placed, when offers are asked for, when they are given back.

use std::time::Duration;

use km_offers::{DeclineReason, Pool};

use super::{Action, Config, Core, waiting::Queue};

/// What was asked of the master, and when.
#[derive(Default)]
pub(super) struct Demand {
    /// Pods or offers came and wait since then for being placed together with what follows shortly.
    touched: Option<Duration>,
    /// A REVIVE is needed.
    stale: bool,
    pub revived: Option<Duration>,
    suppressed: bool,
    /// Since when nothing waits.
    idle_since: Option<Duration>,
    /// Whether the operator API tells of new agents, so that silence of offers hides none.
    pub agents_visible: bool,
}

impl Demand {
    /// A subscription starts, with all roles suppressed or none.
    pub fn subscribed(&mut self, now: Duration, suppressed: bool) {
        self.suppressed = suppressed;
        // Filters may have outlived the connection, so a pod that waits asks all the same.
        self.revived = None;
        self.stale = true;
        self.idle_since = None;
        self.touch(now);
    }

    pub fn is_suppressed(&self) -> bool {
        self.suppressed
    }

    /// Something came that may be placed, or a place to put it.
    pub fn touch(&mut self, now: Duration) {
        self.touched.get_or_insert(now);
    }

    pub fn next_wakeup(&self, now: Duration, config: &Config, queue: &Queue, pool: &Pool) -> Option<Duration> {
        let mut times: Vec<Duration> = Vec::new();
        if queue.is_empty() {
            if !pool.is_empty() || (self.agents_visible && !self.suppressed) {
                times.extend(self.idle_since.map(|since| since + config.idle_hold));
            }
        } else {
            times.extend(self.touched.map(|touched| touched + config.batch));
            times.extend(queue.next_wakeup(now));
            if !queue.wants_offers(now) {
                times.extend(pool.by_age().next().map(|held| held.since + config.idle_hold));
            } else {
                times.extend(self.revived.map(|revived| revived + config.offer_wait));
                if self.stale {
                    times.push(self.revived.map_or(now, |revived| revived + config.revive_pause));
                }
            }
        }
        times.into_iter().min()
    }
}

impl Core {
    /// Whether a subscription may begin without offers: nothing waits, and new agents show themselves otherwise.
    pub fn wants_no_offers(&self) -> bool {
        self.synced && self.queue.is_empty() && self.demand.agents_visible
    }

    /// Places what can be placed, asks for offers or gives them back.
    pub(super) fn pursue_demand(&mut self, now: Duration, out: &mut Vec<Action>) {
        if !self.synced || self.settled.is_some_and(|settled| now < settled) {
            return;
        }
        if self.queue.is_empty() {
            self.rest(now, out);
            return;
        }
        self.demand.idle_since = None;
        self.queue.wake_due(now);
        let batch_due = self.demand.touched.is_some_and(|touched| touched + self.config.batch <= now);
        let waited = self.demand.revived.is_some_and(|revived| revived + self.config.offer_wait <= now);
        if (batch_due && !self.pool.is_empty()) || (waited && self.queue.wants_offers(now)) {
            self.demand.touched = None;
            let launched = self.place_round(now, out);
            // What is left of an agent comes back sooner when it is asked for.
            self.demand.stale |= launched;
        }
        let empty = self.pool.is_empty() || self.demand.touched.is_none();
        if empty && self.queue.wants_since(self.demand.revived, now) {
            self.demand.stale = true;
        }
        self.revive(now, out);
        self.give_back(now, out);
    }

    /// Offers that were shown to every waiting pod in vain go to others.
    fn give_back(&mut self, now: Duration, out: &mut Vec<Action>) {
        if self.demand.touched.is_some() || self.queue.wants_offers(now) {
            return;
        }
        let hold = self.config.idle_hold;
        let old = self.pool.by_age().take_while(|held| held.since + hold <= now);
        let old: Vec<_> = old.map(|held| held.offer.id.clone()).collect();
        if !old.is_empty() {
            self.offers(now, km_offers::Event::Refused(old, DeclineReason::Expired), out);
        }
    }

    fn revive(&mut self, now: Duration, out: &mut Vec<Action>) {
        if !self.demand.stale || !self.queue.wants_offers(now) {
            return;
        }
        if self.demand.revived.is_some_and(|revived| now < revived + self.config.revive_pause) {
            return;
        }
        self.demand.stale = false;
        self.demand.suppressed = false;
        self.demand.revived = Some(now);
        out.push(Action::Revive);
    }

    /// Nothing waits: offers go back, and no more are wanted.
    fn rest(&mut self, now: Duration, out: &mut Vec<Action>) {
        self.demand.stale = false;
        self.demand.touched = None;
        let since = *self.demand.idle_since.get_or_insert(now);
        if now < since + self.config.idle_hold {
            return;
        }
        let held = self.pool.iter().map(|held| held.offer.id.clone()).collect();
        self.offers(now, km_offers::Event::Refused(held, DeclineReason::Idle), out);
        self.feed.engine.rest();
        if self.demand.agents_visible && !self.demand.suppressed {
            self.demand.suppressed = true;
            out.push(Action::Suppress);
        }
    }
}
