//! A proxy against a scripted API server, in a network namespace of its own: needs root and nft.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use std::{
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Query, State},
    response::{IntoResponse, Response},
    routing::get,
};
use clap::Parser;
use futures::{StreamExt, TryStreamExt};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::broadcast,
};
use tokio_util::sync::CancellationToken;

const DEADLINE: Duration = Duration::from_secs(30);
const CLUSTER_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 7);
const OWN_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

#[test]
fn nftables_leads_to_endpoints() {
    isolated(serves("nftables"));
}

#[test]
fn userspace_leads_to_endpoints() {
    isolated(serves("userspace"));
}

/// Runs in a network namespace that only this thread is in.
fn isolated(test: impl Future<Output = ()>) {
    assert!(nix::unistd::geteuid().is_root(), "tests of the proxy need root: run them as root");
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        prepare_network().await;
        test.await;
    });
}

/// `lo` with an address that is not a loopback one, and a way to the cluster's addresses.
async fn prepare_network() {
    let (connection, handle, _) = rtnetlink::new_connection().unwrap();
    tokio::spawn(connection);
    let lo = handle.link().get().match_name("lo".to_owned()).execute().try_next().await.unwrap().unwrap();
    let index = lo.header.index;
    handle.link().set(rtnetlink::LinkUnspec::new_with_index(index).up().build()).execute().await.unwrap();
    for address in [OWN_IP, OTHER_IP] {
        handle.address().add(index, address.into(), 24).execute().await.unwrap();
    }
    let route = rtnetlink::RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(Ipv4Addr::new(10, 96, 0, 0), 16)
        .output_interface(index)
        .build();
    handle.route().add(route).execute().await.unwrap();
}

async fn serves(mode: &str) {
    // The API is served without TLS here, but the client makes its settings anyway.
    let _already_set = rustls::crypto::ring::default_provider().install_default();
    let one = backend("one", SocketAddr::from((OWN_IP, 0))).await;
    let two = backend("two", SocketAddr::from((OTHER_IP, one.port()))).await;
    let (changes, _) = broadcast::channel(16);
    let api = api_server(changes.clone(), slice(&[one, two])).await;
    let folder = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let started = km_proxy::start(flags(folder.path(), api, mode), stop.clone()).await.unwrap();

    let service = SocketAddr::from((CLUSTER_IP, 80));
    let node_port = SocketAddr::from((OWN_IP, 30080));
    for address in [service, node_port] {
        let mut seen = std::collections::BTreeSet::new();
        until("both endpoints answer", async || {
            if let Ok(name) = ask(address).await {
                seen.insert(name);
            }
            seen.len() == 2
        })
        .await;
    }
    changes.send(json!({ "type": "MODIFIED", "object": slice(&[two]) })).unwrap();
    until("the first endpoint is out", async || {
        for _ in 0..16 {
            if ask(service).await.ok().as_deref() != Some("two") {
                return false;
            }
        }
        true
    })
    .await;
    changes.send(json!({ "type": "MODIFIED", "object": slice(&[]) })).unwrap();
    until("without endpoint nothing answers", async || ask(service).await.is_err()).await;
    let health = reqwest_get(&format!("http://127.0.0.1:{}/readyz", started.address.port())).await;
    assert!(health.ends_with("ok"), "{health}");
    changes.send(json!({ "type": "MODIFIED", "object": slice(&[one]) })).unwrap();
    until("the endpoint is back", async || ask(service).await.is_ok()).await;

    stop.cancel();
    tokio::time::timeout(DEADLINE, started.join()).await.unwrap().unwrap();
    assert!(ask(service).await.is_err(), "the proxy takes its rules back");
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    flags: km_proxy::Flags,
}

fn flags(folder: &std::path::Path, api: SocketAddr, mode: &str) -> km_proxy::Flags {
    let path = folder.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{ "name": "x", "cluster": { "server": format!("http://{api}") } }],
        "users": [{ "name": "x", "user": {} }],
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
    });
    std::fs::File::create(&path).unwrap().write_all(config.to_string().as_bytes()).unwrap();
    let args = ["proxy", "--kubeconfig", path.to_str().unwrap(), "--proxy-mode", mode, "--healthz-port", "0"];
    Command::parse_from(args).flags
}

/// Answers each connection with its name.
async fn backend(name: &'static str, address: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _client_gone = stream.write_all(name.as_bytes()).await;
        }
    });
    address
}

async fn ask(address: SocketAddr) -> std::io::Result<String> {
    let answer = async {
        let mut stream = TcpStream::connect(address).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        if text.is_empty() { Err(std::io::Error::other("closed")) } else { Ok(text) }
    };
    tokio::time::timeout(Duration::from_secs(2), answer).await.map_err(|_| std::io::Error::other("no answer"))?
}

async fn reqwest_get(url: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET /{path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn slice(endpoints: &[SocketAddr]) -> Value {
    let port = endpoints.first().map_or(1, SocketAddr::port);
    let endpoints: Vec<Value> = endpoints.iter().map(|endpoint| json!({ "addresses": [endpoint.ip()] })).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "web-1", "namespace": "default", "resourceVersion": "2",
                      "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "http", "port": port, "protocol": "TCP" }],
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": "default", "resourceVersion": "1" },
        "spec": { "clusterIP": CLUSTER_IP, "clusterIPs": [CLUSTER_IP], "type": "NodePort",
                  "ports": [{ "name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP" }] },
    })
}

type Changes = broadcast::Sender<Value>;

async fn api_server(changes: Changes, first: Value) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route(
            "/api/v1/services",
            get(async |Query(query): Query<Value>| answer(&query, "ServiceList", "v1", service(), None)),
        )
        .route(
            "/apis/discovery.k8s.io/v1/endpointslices",
            get(async |State((changes, first)): State<(Changes, Value)>, Query(query): Query<Value>| {
                answer(&query, "EndpointSliceList", "discovery.k8s.io/v1", first, Some(changes.subscribe()))
            }),
        )
        .with_state((changes, first));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// A list, or a watch that stays open.
fn answer(
    query: &Value,
    kind: &str,
    version: &str,
    item: Value,
    changes: Option<broadcast::Receiver<Value>>,
) -> Response {
    if query.get("watch").and_then(Value::as_str) != Some("true") {
        let list =
            json!({ "kind": kind, "apiVersion": version, "metadata": { "resourceVersion": "3" }, "items": [item] });
        return Json(list).into_response();
    }
    let events = futures::stream::unfold(changes, |changes| async move {
        match changes {
            Some(mut changes) => {
                let event = changes.recv().await.ok()?;
                Some((Ok::<_, std::io::Error>(format!("{event}\n")), Some(changes)))
            }
            None => std::future::pending().await,
        }
    });
    Body::from_stream(events.boxed()).into_response()
}
