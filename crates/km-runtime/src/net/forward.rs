//! Host ports served by this process. It takes each port on the host, so that nobody else gets it, and forwards what
//! the packet filter does not: connections to 127.0.0.1, connections that were redirected once already, and all of
//! them where there is no packet filter.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use crate::{
    PortMapping, Result, RuntimeError,
    relay::{self, Relay},
};

/// Serves one port until dropped.
#[derive(Debug)]
pub(super) struct Forwarder {
    _relay: Relay,
}

impl Forwarder {
    /// # Errors
    /// Somebody else has the port.
    pub async fn start(port: &PortMapping, pod: Ipv4Addr) -> Result<Self> {
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.host_port));
        let target = SocketAddr::from((pod, port.container_port));
        let relay = relay::start(listen, port.protocol, Arc::new(move |_| Some(target))).await.map_err(|error| {
            RuntimeError::Other(format!("host port {}/{:?} cannot be taken: {error}", port.host_port, port.protocol))
        })?;
        Ok(Self { _relay: relay })
    }
}
