//! Listens at one address and forwards each connection or datagram to the endpoint that the balancer picks.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::balance::Balancer;
use crate::rules::Protocol;

/// An endpoint that does not answer in this time is skipped, once for each endpoint there may be.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_ATTEMPTS: usize = 4;
/// A UDP exchange that is silent for so long has ended.
const UDP_IDLE: Duration = Duration::from_secs(60);
const MAX_UDP_CLIENTS: usize = 4096;
const MAX_DATAGRAM: usize = 65_536;

pub async fn start(
    address: SocketAddr,
    protocol: Protocol,
    balancer: Arc<Balancer>,
) -> io::Result<AbortOnDropHandle<()>> {
    let task = match protocol {
        Protocol::Tcp => tokio::spawn(serve_tcp(TcpListener::bind(address).await?, balancer)),
        Protocol::Udp => tokio::spawn(serve_udp(UdpSocket::bind(address).await?, balancer)),
    };
    Ok(AbortOnDropHandle::new(task))
}

async fn serve_tcp(listener: TcpListener, balancer: Arc<Balancer>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    connections.spawn(forward(stream, client, balancer.clone()));
                }
                Err(error) => {
                    // Out of descriptors, usually: others close theirs meanwhile.
                    tracing::warn!(%error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}

async fn forward(mut stream: TcpStream, client: SocketAddr, balancer: Arc<Balancer>) {
    for _attempt in 0..MAX_ATTEMPTS {
        let Some(endpoint) = balancer.pick(client.ip(), Instant::now()) else { return };
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(endpoint)).await {
            Ok(Ok(mut server)) => {
                // Either side's reset ends both; there is nobody to tell.
                let _ended = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                return;
            }
            Ok(Err(error)) => tracing::debug!(%endpoint, %error, "connecting to an endpoint"),
            Err(_) => tracing::debug!(%endpoint, "connecting to an endpoint takes too long"),
        }
    }
}

async fn serve_udp(socket: UdpSocket, balancer: Arc<Balancer>) {
    let socket = Arc::new(socket);
    let mut clients: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut exchanges = JoinSet::new();
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                let Ok((length, client)) = received else { continue };
                if !clients.contains_key(&client) {
                    let Some(endpoint) = balancer.pick(client.ip(), Instant::now()) else { continue };
                    if clients.len() >= MAX_UDP_CLIENTS {
                        continue;
                    }
                    let Ok(upstream) = connect(endpoint).await else { continue };
                    let upstream = Arc::new(upstream);
                    clients.insert(client, upstream.clone());
                    exchanges.spawn(answer(socket.clone(), upstream, client));
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

async fn connect(endpoint: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    socket.connect(endpoint).await?;
    Ok(socket)
}

async fn answer(socket: Arc<UdpSocket>, upstream: Arc<UdpSocket>, client: SocketAddr) -> SocketAddr {
    let mut buffer = vec![0; MAX_DATAGRAM];
    while let Ok(Ok(length)) = timeout(UDP_IDLE, upstream.recv(&mut buffer)).await {
        let _lost = socket.send_to(&buffer[..length], client).await;
    }
    client
}
