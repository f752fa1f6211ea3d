//! Serves a port of this host and passes on what comes: each connection, and each exchange of datagrams, to where a
//! function says.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use crate::Protocol;

/// A target that does not answer in this time is given up, and the function asked again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_ATTEMPTS: usize = 4;
/// A UDP exchange that is silent for so long has ended.
const UDP_IDLE: Duration = Duration::from_secs(60);
/// UDP exchanges of one port at once; more are dropped, as a full connection table does.
const MAX_UDP_CLIENTS: usize = 4096;
const MAX_DATAGRAM: usize = 65_536;

/// Where to pass on what comes from a client; none: nowhere.
pub type Pick = Arc<dyn Fn(IpAddr) -> Option<SocketAddr> + Send + Sync>;

/// A port that is served until this is dropped.
pub type Relay = AbortOnDropHandle<()>;

/// Takes the port and serves it.
///
/// # Errors
/// Somebody else has the port.
pub async fn start(address: SocketAddr, protocol: Protocol, pick: Pick) -> io::Result<Relay> {
    let task = match protocol {
        Protocol::Tcp => tokio::spawn(serve_tcp(TcpListener::bind(address).await?, pick)),
        Protocol::Udp => tokio::spawn(serve_udp(UdpSocket::bind(address).await?, pick)),
    };
    Ok(AbortOnDropHandle::new(task))
}

async fn serve_tcp(listener: TcpListener, pick: Pick) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    connections.spawn(forward(stream, client, pick.clone()));
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

async fn forward(mut stream: TcpStream, client: SocketAddr, pick: Pick) {
    for _attempt in 0..MAX_ATTEMPTS {
        let Some(target) = pick(client.ip()) else { return };
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(target)).await {
            Ok(Ok(mut server)) => {
                // Either side's reset ends both; there is nobody to tell.
                let _ended = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                return;
            }
            Ok(Err(error)) => tracing::debug!(%target, %error, "connecting"),
            Err(_) => tracing::debug!(%target, "connecting takes too long"),
        }
    }
}

async fn serve_udp(socket: UdpSocket, pick: Pick) {
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
                    let Some(target) = pick(client.ip()) else { continue };
                    let Ok(upstream) = connect(target).await else { continue };
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

async fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    socket.connect(target).await?;
    Ok(socket)
}

async fn answer(socket: Arc<UdpSocket>, upstream: Arc<UdpSocket>, client: SocketAddr) -> SocketAddr {
    let mut buffer = vec![0; MAX_DATAGRAM];
    while let Ok(Ok(length)) = timeout(UDP_IDLE, upstream.recv(&mut buffer)).await {
        let _lost = socket.send_to(&buffer[..length], client).await;
    }
    client
}
