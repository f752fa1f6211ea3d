//! Host ports served by this process. It takes each port on the host, so that nobody else gets it, and forwards what
//! the packet filter does not: connections to 127.0.0.1, connections that were redirected once already, and all of
//! them where there is no packet filter.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{PortMapping, Protocol, Result, RuntimeError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A UDP exchange that is silent for so long has ended.
const UDP_IDLE: Duration = Duration::from_secs(60);
/// UDP exchanges of one port at once; more are dropped, as a full connection table does.
const MAX_UDP_CLIENTS: usize = 1024;
const MAX_DATAGRAM: usize = 65_536;

/// Serves one port until dropped.
#[derive(Debug)]
pub(super) struct Forwarder {
    _task: AbortOnDropHandle<()>,
}

impl Forwarder {
    /// # Errors
    /// Somebody else has the port.
    pub async fn start(port: &PortMapping, pod: Ipv4Addr) -> Result<Self> {
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.host_port));
        let target = SocketAddr::from((pod, port.container_port));
        let refused = |error: io::Error| {
            RuntimeError::Other(format!("host port {}/{:?} cannot be taken: {error}", port.host_port, port.protocol))
        };
        let task = match port.protocol {
            Protocol::Tcp => tokio::spawn(serve_tcp(TcpListener::bind(listen).await.map_err(refused)?, target)),
            Protocol::Udp => tokio::spawn(serve_udp(UdpSocket::bind(listen).await.map_err(refused)?, target)),
        };
        Ok(Self { _task: AbortOnDropHandle::new(task) })
    }
}

async fn serve_tcp(listener: TcpListener, target: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    connections.spawn(forward_tcp(client, target));
                }
                Err(error) => {
                    // Out of descriptors, usually: others close theirs meanwhile.
                    tracing::warn!(%target, %error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}

async fn forward_tcp(mut client: TcpStream, target: SocketAddr) {
    match timeout(CONNECT_TIMEOUT, TcpStream::connect(target)).await {
        Ok(Ok(mut server)) => {
            // Either side's reset ends both; there is nobody to tell.
            let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
        Ok(Err(error)) => tracing::debug!(%target, %error, "connecting to the pod"),
        Err(_) => tracing::debug!(%target, "connecting to the pod takes too long"),
    }
}

async fn serve_udp(socket: UdpSocket, target: SocketAddr) {
    let socket = Arc::new(socket);
    let mut clients: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut exchanges = JoinSet::new();
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                let Ok((length, client)) = received else { continue };
                if !clients.contains_key(&client) {
                    if clients.len() >= MAX_UDP_CLIENTS {
                        continue;
                    }
                    let Ok(upstream) = connect_udp(target).await else { continue };
                    let upstream = Arc::new(upstream);
                    clients.insert(client, upstream.clone());
                    exchanges.spawn(answer_udp(socket.clone(), upstream, client));
                }
                if let Some(upstream) = clients.get(&client) {
                    // A datagram may get lost.
                    let _lost = upstream.send(&buffer[..length]).await;
                }
            }
            Some(ended) = exchanges.join_next() => {
                if let Ok(client) = ended {
                    clients.remove(&client);
                }
            }
        }
    }
}

async fn connect_udp(target: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    socket.connect(target).await?;
    Ok(socket)
}

async fn answer_udp(socket: Arc<UdpSocket>, upstream: Arc<UdpSocket>, client: SocketAddr) -> SocketAddr {
    let mut buffer = vec![0; MAX_DATAGRAM];
    while let Ok(Ok(length)) = timeout(UDP_IDLE, upstream.recv(&mut buffer)).await {
        let _lost = socket.send_to(&buffer[..length], client).await;
    }
    client
}
