//! What is going to happen, in the order of its time.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::delivery::Delivery;

/// A way that keeps the order of what is sent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// From the master, on a connection of a scheduler, rival or agent.
    FromMaster(u64),
    ToMaster(u64),
    /// From an agent to an executor, and back.
    FromAgent(u64),
    ToAgent(u64),
    /// A scheduler's watch, by process and number.
    Watch(usize, u64),
    /// An executor's watch, by agent and number.
    PodWatch(usize, u64),
}

/// Who is woken at a time of its own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sleeper {
    Master,
    Agent(usize),
    Scheduler(usize),
}

/// Channels are looked through for forgotten ones when there are more than this.
const MANY_CHANNELS: usize = 4096;

/// The future.
#[derive(Default)]
pub(crate) struct Queue {
    coming: BTreeMap<(Duration, u64), Delivery>,
    sequence: u64,
    /// When the last message of each channel arrives.
    channels: HashMap<Channel, Duration>,
    alarms: HashMap<Sleeper, Duration>,
    limit: usize,
}

impl Queue {
    pub fn next_time(&self) -> Option<Duration> {
        self.coming.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn pop(&mut self) -> Option<Delivery> {
        self.coming.pop_first().map(|(_, delivery)| delivery)
    }

    pub fn push(&mut self, at: Duration, delivery: Delivery) {
        self.sequence += 1;
        self.coming.insert((at, self.sequence), delivery);
    }

    /// Puts something on a channel: it arrives at that time, or with what is in front of it.
    pub fn send(&mut self, now: Duration, at: Duration, channel: Channel, delivery: Delivery) {
        if self.channels.len() > MANY_CHANNELS.max(self.limit) {
            self.channels.retain(|_, last| *last >= now);
            self.limit = 2 * self.channels.len();
        }
        let last = self.channels.entry(channel).or_insert(at);
        *last = at.max(*last);
        let at = *last;
        self.push(at, delivery);
    }

    /// Sets an alarm, unless an earlier one is set. An alarm too many is harmless.
    pub fn wake(&mut self, now: Duration, at: Duration, who: Sleeper, tick: Delivery) {
        let at = at.max(now + Duration::from_millis(1));
        let planned = self.alarms.get(&who).copied().unwrap_or_default();
        if planned <= now || at < planned {
            self.alarms.insert(who, at);
            self.push(at, tick);
        }
    }
}
