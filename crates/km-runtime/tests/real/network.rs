//! Pods reach each other, the host reaches pods, and host ports reach them from everywhere.

use std::{net::Ipv4Addr, time::Duration};

use km_runtime::{ContainerSpec, Runtime, builtin};
use km_testkit::free_port;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Host, port, run, sandbox, shell, until};

/// The body of a plain HTTP answer.
pub async fn get(url: &str) -> std::io::Result<String> {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(5), async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    });
    let answer = answer.await.map_err(|_| std::io::Error::other("no answer in time"))??;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// The address from which this machine would reach others; a bridge's own where it has no network.
fn own_address() -> Ipv4Addr {
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).unwrap();
    match socket.connect(("192.0.2.1", 9)).and_then(|()| socket.local_addr()) {
        Ok(std::net::SocketAddr::V4(address)) => *address.ip(),
        _ => panic!("this machine has no IPv4 route, so host ports cannot be tested"),
    }
}

#[tokio::test]
async fn host_ports_are_reached_from_everywhere() {
    let host = Host::new();
    let runtime = host.open().await;
    let host_port = free_port();
    let mut pod = sandbox("p1");
    pod.ports = vec![port(8080, host_port)];
    let served = runtime.run_sandbox(&pod).await.unwrap();
    let spec = ContainerSpec {
        id: "c1".into(),
        sandbox_id: "p1".into(),
        name: "hello".into(),
        image: builtin::HELLO.into(),
        env: vec![("POD_NAME".into(), "the-one".into())],
        ..ContainerSpec::default()
    };
    runtime.start_container(&spec).await.unwrap();
    for address in [Ipv4Addr::LOCALHOST, own_address(), runtime.pod_cidr().nth(1)] {
        let url = format!("http://{address}:{host_port}/");
        until(&url, async || get(&url).await.is_ok_and(|text| text.contains("the-one"))).await;
    }
    runtime.run_sandbox(&sandbox("p2")).await.unwrap();
    let targets = [format!("{}:8080", served.ip.unwrap()), format!("{}:{host_port}", own_address())];
    for (number, target) in targets.iter().enumerate() {
        let script = format!("wget -q -O - http://{target}/ | grep the-one");
        let (status, text) = run(&runtime, shell(&format!("from-other-{number}"), "p2", &script)).await;
        assert_eq!(status.exit_code, Some(0), "{target}: {text}");
        let (status, text) = run(&runtime, shell(&format!("from-itself-{number}"), "p1", &script)).await;
        assert_eq!(status.exit_code, Some(0), "{target}: {text}");
    }
    // Two pods cannot have the same host port, and the second leaves nothing behind.
    let mut second = sandbox("p3");
    second.ports = vec![port(80, host_port)];
    let error = runtime.run_sandbox(&second).await.unwrap_err().to_string();
    assert!(error.contains(&format!("host port {host_port}")), "{error}");
    assert_eq!(runtime.list_sandboxes().await.unwrap().len(), 2);
    // A removed pod frees it.
    runtime.remove_sandbox("p1").await.unwrap();
    runtime.run_sandbox(&second).await.unwrap();
}

/// Answers datagrams at port 9000 of a pod. A socket stays in the namespace in which it was opened.
fn echo_in_pod(namespace: &std::path::Path) {
    let namespace = std::fs::File::open(namespace).unwrap();
    let open = std::thread::spawn(move || {
        nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        std::net::UdpSocket::bind(("0.0.0.0", 9000)).unwrap()
    });
    let socket = open.join().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 16];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..length], from).unwrap();
        }
    });
}

#[tokio::test]
async fn udp_ports_are_forwarded() {
    let host = Host::new();
    let runtime = host.open().await;
    let mut pod = sandbox("p1");
    let mut mapping = port(9000, free_port());
    mapping.protocol = km_runtime::Protocol::Udp;
    pod.ports = vec![mapping.clone()];
    runtime.run_sandbox(&pod).await.unwrap();
    echo_in_pod(&host.config.root.join("sandboxes/p1/netns"));
    for address in [Ipv4Addr::LOCALHOST, own_address()] {
        until(&format!("an echo from {address}"), async || {
            let socket = tokio::net::UdpSocket::bind(("0.0.0.0", 0)).await.unwrap();
            socket.connect((address, mapping.host_port)).await.unwrap();
            let mut buffer = [0; 16];
            let _refused_until_it_listens = socket.send(b"ping").await;
            let received = tokio::time::timeout(Duration::from_millis(500), socket.recv(&mut buffer)).await;
            matches!(received, Ok(Ok(4)))
        })
        .await;
    }
}

#[tokio::test]
async fn agents_on_one_host_have_networks_of_their_own_and_reach_each_other() {
    let (one, two) = (Host::new(), Host::new());
    let (first, second) = (one.open().await, two.open().await);
    assert!(!first.pod_cidr().overlaps(second.pod_cidr()));
    let served = first.run_sandbox(&sandbox("p1")).await.unwrap();
    let mut spec = shell("c1", "p1", "");
    spec.image = builtin::HELLO.into();
    spec.command.clear();
    first.start_container(&spec).await.unwrap();
    second.run_sandbox(&sandbox("p2")).await.unwrap();
    let address = served.ip.unwrap();
    let script = format!("until wget -q -O - http://{address}:8080/healthz; do usleep 50000; done");
    let (status, text) = run(&second, shell("c2", "p2", &script)).await;
    assert_eq!((status.exit_code, text.lines().last()), (Some(0), Some("ok")), "{text}");
}

/// As after an agent whose state was removed while its bridge stayed.
#[tokio::test]
async fn a_network_that_some_interface_is_in_is_given_to_nobody() {
    let (one, two) = (Host::new(), Host::new());
    let first = one.open().await;
    first.run_sandbox(&sandbox("p1")).await.unwrap();
    let claim = format!("/run/km/subnets/{}", first.pod_cidr().to_string().replace('/', "-"));
    std::fs::remove_file(&claim).unwrap();
    let second = two.open().await;
    assert!(!first.pod_cidr().overlaps(second.pod_cidr()), "{} is still on a bridge", first.pod_cidr());
}

/// The same once more on a machine without nft: in a mount namespace where its folder is empty.
#[test]
fn host_ports_are_reached_where_there_is_no_nft() {
    let empty = tempfile::tempdir().unwrap();
    let script = "mount --bind \"$1\" /usr/sbin; PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin\n\
                  if command -v nft; then echo nft is still there; exit 1; fi\n\
                  exec \"$2\" --exact network::host_ports_are_reached_from_everywhere network::udp_ports_are_forwarded";
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-ec", script, "sh"])
        .arg(empty.path())
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("2 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
