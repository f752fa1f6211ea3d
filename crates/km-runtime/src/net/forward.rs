//! Host ports served by this process. It takes each port on the host, so that nobody else gets it, and forwards what
//! the packet filter does not: connections to 127.0.0.1, connections that were redirected once already, and all of
//! them where there is no packet filter.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    PortMapping, Protocol, Result, RuntimeError,
    relay::{self, Relay},
};

/// A port that another pod or a connection has just left may need a moment to be free.
const PATIENCE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(50);

/// Serves one port until dropped.
#[derive(Debug)]
pub(super) struct Forwarder {
    _relay: Relay,
}

impl Forwarder {
    /// # Errors
    /// Somebody else has the port, and keeps it.
    pub async fn start(port: &PortMapping, pod: Ipv4Addr) -> Result<Self> {
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.host_port));
        let target = SocketAddr::from((pod, port.container_port));
        let protocol = match port.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        let deadline = Instant::now() + PATIENCE;
        let relay = loop {
            match relay::start(listen, port.protocol, Arc::new(move |_| Some(target))).await {
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                    tokio::time::sleep(AGAIN).await;
                }
                result => break result,
            }
        };
        let relay = relay.map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => RuntimeError::HostPortTaken { port: port.host_port, protocol },
            _ => RuntimeError::Other(format!("host port {}/{protocol} cannot be taken: {error}", port.host_port)),
        })?;
        Ok(Self { _relay: relay })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_another_process_has_is_named() {
        let other = tokio::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("there are free ports");
        let host_port = other.local_addr().expect("it is bound").port();
        let port = PortMapping { container_port: 80, host_port, protocol: Protocol::Tcp };
        let error = Forwarder::start(&port, Ipv4Addr::LOCALHOST).await.expect_err("it is taken");
        assert!(matches!(error, RuntimeError::HostPortTaken { port, protocol: "TCP" } if port == host_port), "{error}");
    }
}
