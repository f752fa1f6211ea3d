//! The proxy where there is no packet filter: service addresses become addresses of this host (on `lo`), and this
//! process listens there and forwards.

mod addresses;
mod balance;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use km_runtime::relay::{self, Relay};

use crate::rules::{Protocol, Ruleset};
use addresses::Loopback;
use balance::Balancer;

/// Where this process listens for one port of a service.
type Frontend = (SocketAddr, Protocol);

pub struct Userspace {
    loopback: Loopback,
    listeners: BTreeMap<Frontend, Listener>,
}

struct Listener {
    balancer: Arc<Balancer>,
    _relay: Relay,
}

impl Userspace {
    pub fn open() -> anyhow::Result<Self> {
        Ok(Self { loopback: Loopback::open()?, listeners: BTreeMap::new() })
    }

    /// Follows the rules. Listeners that stay keep their connections. A port that somebody else has is reported and
    /// tried again the next time.
    pub async fn apply(&mut self, rules: &Ruleset) -> anyhow::Result<()> {
        let wanted = frontends(rules);
        self.listeners.retain(|frontend, _| wanted.contains_key(frontend));
        let addresses: BTreeSet<Ipv4Addr> = rules.ports.iter().flat_map(|port| port.addresses.clone()).collect();
        self.loopback.set(&addresses).await?;
        for (frontend, index) in wanted {
            let port = &rules.ports[index];
            if let Some(listener) = self.listeners.get(&frontend) {
                listener.balancer.set(port.endpoints.clone(), port.affinity);
                continue;
            }
            let balancer = Arc::new(Balancer::new(port.endpoints.clone(), port.affinity));
            let picking = Arc::clone(&balancer);
            let pick = Arc::new(move |client| picking.pick(client, Instant::now()));
            match relay::start(frontend.0, frontend.1.into(), pick).await {
                Ok(relay) => {
                    self.listeners.insert(frontend, Listener { balancer, _relay: relay });
                }
                Err(error) => tracing::error!(service = port.name, address = %frontend.0, %error, "listening"),
            }
        }
        Ok(())
    }

    /// Takes back listeners and addresses.
    pub async fn remove(mut self) -> anyhow::Result<()> {
        self.listeners.clear();
        self.loopback.set(&BTreeSet::new()).await
    }
}

/// Each place to listen at, with the number of its port in the rules.
fn frontends(rules: &Ruleset) -> BTreeMap<Frontend, usize> {
    let mut frontends = BTreeMap::new();
    for (index, port) in rules.ports.iter().enumerate() {
        for address in &port.addresses {
            frontends.insert((SocketAddr::from((*address, port.port)), port.protocol), index);
        }
        if let Some(node_port) = port.node_port {
            frontends.insert((SocketAddr::from((Ipv4Addr::UNSPECIFIED, node_port)), port.protocol), index);
        }
    }
    frontends
}
