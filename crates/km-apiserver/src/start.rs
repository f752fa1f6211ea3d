//! Brings the role up.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context as _;
use km_observe::Started;
use km_store::{Options, RedbStore};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    Flags,
    allocate::{Addresses, Ports},
    bootstrap,
    client_auth::Verifier,
    expiry,
    kubelet_client::KubeletClient,
    listener,
    metrics::Metrics,
    openapi,
    pki::{self, MASTERS, Pki},
    registry,
    server::Server,
};

/// Opens the store, makes what is missing of certificates and bootstrap objects, and serves until `stop`.
pub async fn start(flags: Flags, stop: CancellationToken) -> anyhow::Result<Started> {
    let service_addresses = Addresses::parse(&flags.service_cluster_ip_range).map_err(anyhow::Error::msg)?;
    let node_ports = Ports::parse(&flags.service_node_port_range).map_err(anyhow::Error::msg)?;
    // Two servers on one directory are told apart by the directory, before the port gets in the way.
    let options = Options::new(&flags.data_dir, registry::facets);
    let store = tokio::task::spawn_blocking(move || RedbStore::open(options)).await??;
    let pki = Pki::ensure(&flags.data_dir.join("pki"))?;
    let asked = SocketAddr::new(flags.bind_address, flags.secure_port);
    let listener = TcpListener::bind(asked)
        .await
        .with_context(|| format!("cannot listen on {asked} (--bind-address, --secure-port)"))?;
    let address = listener.local_addr()?;
    let advertised = SocketAddr::new(advertise_address(&flags), address.port());

    let (tls, verifier) = tls(&pki, &serving_names(&flags, &service_addresses, advertised.ip()))?;
    let kubelets = KubeletClient::new(&pki.client("kube-apiserver-kubelet-client", &[MASTERS])?)?;
    let local = if flags.bind_address.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { flags.bind_address };
    let url = format!("https://{}", SocketAddr::new(local, address.port()));
    let kubeconfig = pki.kubeconfig("kubernetes-admin", &[MASTERS], &url)?;
    pki::write_private(&flags.data_dir.join("admin.kubeconfig"), &kubeconfig)?;

    let server = Arc::new(Server {
        store: Arc::new(store),
        service_addresses,
        node_ports,
        allocation: tokio::sync::Mutex::new(()),
        kubelets,
        metrics: Metrics::new(),
        openapi: openapi::Documents::default(),
        stop: stop.clone(),
        write_trouble: Mutex::new(None),
    });
    bootstrap::run(&server, advertised).await?;
    let expiry = tokio::spawn(expiry::run(server.clone(), Duration::from_secs(flags.event_ttl)));
    tracing::info!(%address, %advertised, data_dir = %flags.data_dir.display(), "serving");
    let task = tokio::spawn(async move {
        let served = listener::run(listener, tls, verifier, server, stop).await;
        expiry.abort();
        served
    });
    Ok(Started { name: "apiserver", address, task })
}

fn tls(pki: &Pki, names: &[String]) -> anyhow::Result<(TlsAcceptor, Arc<Verifier>)> {
    let verifier = Verifier::new(pki.authority_der()?)?;
    let (certificates, key) = pki.server("kube-apiserver", names)?.for_rustls()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier.clone())
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), verifier))
}

fn serving_names(flags: &Flags, services: &Addresses, advertised: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push(services.first());
    names.push(advertised.to_string());
    if !flags.bind_address.is_unspecified() {
        names.push(flags.bind_address.to_string());
    }
    names.extend(flags.tls_san.iter().cloned());
    names.sort();
    names.dedup();
    names
}

/// Where others reach this server.
fn advertise_address(flags: &Flags) -> IpAddr {
    if let Some(address) = flags.advertise_address {
        return address;
    }
    if !flags.bind_address.is_unspecified() {
        return flags.bind_address;
    }
    default_route_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// The own address on the way to the outside. A UDP socket is connected for that, which sends nothing.
fn default_route_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then_some(address)
}
