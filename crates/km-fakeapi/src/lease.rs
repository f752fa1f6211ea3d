//! Who leads, and what schedulers hand on to each other: a Lease and a ConfigMap in the real cluster.

use std::time::Duration;

use super::Api;

/// The Lease of the scheduler: the holder is replaced when it wasn't renewed for [`Lease::DURATION`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    pub holder: Option<usize>,
    pub renewed: Duration,
}

impl Lease {
    /// As kube-scheduler's defaults: `leaseDurationSeconds` 15, renewed within 10 s, tried every 2 s.
    pub const DURATION: Duration = Duration::from_secs(15);
    pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
    pub const RETRY: Duration = Duration::from_secs(2);
}

/// The framework's durable identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub framework_id: Option<String>,
    /// Counts the starts.
    pub generation: u32,
}

impl Api {
    /// Takes or renews the Lease; says whether `who` holds it now.
    pub fn take_lease(&mut self, now: Duration, who: usize) -> bool {
        let free = self.lease.holder.is_none_or(|holder| holder == who);
        if !free && now < self.lease.renewed + Lease::DURATION {
            return false;
        }
        self.history.next();
        self.lease = Lease { holder: Some(who), renewed: now };
        true
    }

    /// Counts a start of the scheduler.
    pub fn count_start(&mut self) -> Identity {
        self.history.next();
        self.identity.generation += 1;
        self.identity.clone()
    }

    /// Stores the framework's id, or forgets it.
    pub fn keep_framework(&mut self, id: Option<String>) {
        self.history.next();
        self.identity.framework_id = id;
    }
}
