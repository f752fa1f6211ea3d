//! Which endpoint a client gets: the next in turn, or the one it had (`sessionAffinity: ClientIP`).

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Clients that are remembered per port; the longest silent are forgotten first.
const MAX_CLIENTS: usize = 10_000;

pub struct Balancer(Mutex<State>);

struct State {
    endpoints: Vec<(Ipv4Addr, u16)>,
    affinity: Option<Duration>,
    next: usize,
    clients: HashMap<IpAddr, (SocketAddr, Instant)>,
}

impl Balancer {
    pub fn new(endpoints: Vec<(Ipv4Addr, u16)>, affinity: Option<Duration>) -> Self {
        Self(Mutex::new(State { endpoints, affinity, next: 0, clients: HashMap::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change leaves the state whole, also when a thread panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, endpoints: Vec<(Ipv4Addr, u16)>, affinity: Option<Duration>) {
        let mut state = self.state();
        state.endpoints = endpoints;
        state.affinity = affinity;
    }

    /// `None`: the service has no endpoint.
    pub fn pick(&self, client: IpAddr, now: Instant) -> Option<SocketAddr> {
        let state = &mut *self.state();
        if let Some(affinity) = state.affinity
            && let Some((endpoint, seen)) = state.clients.get_mut(&client)
            && now.saturating_duration_since(*seen) < affinity
            && state.endpoints.iter().any(|known| SocketAddr::from(*known) == *endpoint)
        {
            *seen = now;
            return Some(*endpoint);
        }
        let endpoint = SocketAddr::from(*state.endpoints.get(state.next % state.endpoints.len().max(1))?);
        state.next = state.next.wrapping_add(1);
        if state.affinity.is_some() {
            if state.clients.len() >= MAX_CLIENTS
                && let Some(oldest) = state.clients.iter().min_by_key(|(_, (_, seen))| *seen).map(|(ip, _)| *ip)
            {
                state.clients.remove(&oldest);
            }
            state.clients.insert(client, (endpoint, now));
        }
        Some(endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints() -> Vec<(Ipv4Addr, u16)> {
        vec![(Ipv4Addr::new(10, 0, 0, 1), 80), (Ipv4Addr::new(10, 0, 0, 2), 80)]
    }

    #[test]
    fn endpoints_take_turns() {
        let balancer = Balancer::new(endpoints(), None);
        let now = Instant::now();
        let picked: Vec<_> = (0..4).map(|_| balancer.pick([127, 0, 0, 1].into(), now).unwrap()).collect();
        assert!(picked[0] != picked[1] && picked[0] == picked[2] && picked[1] == picked[3]);
        balancer.set(Vec::new(), None);
        assert_eq!(balancer.pick([127, 0, 0, 1].into(), now), None);
    }

    #[test]
    fn a_client_stays_until_it_was_silent_or_its_endpoint_is_gone() {
        let minute = Duration::from_secs(60);
        let balancer = Balancer::new(endpoints(), Some(minute));
        let now = Instant::now();
        let client = [10, 1, 1, 1].into();
        let first = balancer.pick(client, now).unwrap();
        assert_eq!(balancer.pick(client, now + minute / 2), Some(first));
        assert_ne!(balancer.pick([10, 1, 1, 2].into(), now), Some(first));
        assert_eq!(balancer.pick(client, now + minute), Some(first), "it was seen meanwhile");
        let left = endpoints().into_iter().filter(|endpoint| SocketAddr::from(*endpoint) != first).collect();
        balancer.set(left, Some(minute));
        assert_ne!(balancer.pick(client, now + minute), Some(first));
    }
}
