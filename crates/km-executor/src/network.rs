//! Addresses of this machine.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use tokio::net::TcpListener;

/// An address that no host has (RFC 5737): routing to it follows the default route.
const NOWHERE: &str = "192.0.2.1:9";

/// The source address of the default route. Nothing is sent to find it.
pub fn default_source() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect(NOWHERE).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified()).then_some(ip)
}

/// Listens on the port, or on a free one when that is taken.
pub async fn listen(address: IpAddr, port: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::new(address, port)).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let listener = TcpListener::bind(SocketAddr::new(address, 0)).await?;
            tracing::info!(taken = port, port = listener.local_addr()?.port(), "the kubelet's port is taken");
            Ok(listener)
        }
        other => other,
    }
}
