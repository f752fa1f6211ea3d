//! Probes and hooks over HTTP and TCP.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::{
    api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Pod, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};
use tokio::net::TcpStream;

use super::exit::container;

/// Hooks have no deadline of their own in the API.
const HOOK_DEADLINE: Duration = Duration::from_secs(30);

/// Where a container is reached.
pub struct Target {
    ip: Option<IpAddr>,
    container: Container,
}

impl Target {
    pub fn new(pod: &Pod, name: &str, ip: Option<IpAddr>) -> Self {
        Self { ip, container: container(pod, name).cloned().unwrap_or_default() }
    }

    fn port(&self, port: &IntOrString) -> Result<u16, String> {
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let ports = self.container.ports.iter().flatten();
                let mut named = ports.filter(|port| port.name.as_ref() == Some(name)).map(|port| port.container_port);
                named.next_back().or_else(|| name.parse().ok())
            }
        };
        let number = number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0);
        number.ok_or_else(|| format!("container {} has no port {port:?}", self.container.name))
    }

    fn host(&self, given: Option<&str>) -> Result<String, String> {
        match (given, self.ip) {
            (Some(host), _) if !host.is_empty() => Ok(host.to_owned()),
            (_, Some(IpAddr::V6(ip))) => Ok(format!("[{ip}]")),
            (_, Some(ip)) => Ok(ip.to_string()),
            (_, None) => Err("the pod has no address yet".into()),
        }
    }
}

/// Sends one probe; the error says what was wrong.
pub async fn probe(http: &reqwest::Client, target: &Target, probe: &Probe) -> Result<(), String> {
    let seconds = probe.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(1).max(1);
    let deadline = Duration::from_secs(seconds);
    let work = async {
        if let Some(get) = &probe.http_get {
            return http_get(http, target, get).await;
        }
        match &probe.tcp_socket {
            Some(socket) => tcp(target, socket.host.as_deref(), &socket.port).await,
            None => Err("this kind of probe is not supported".into()),
        }
    };
    tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| Err(format!("no answer within {seconds} s")))
}

/// Runs a hook to its end.
pub async fn hook(http: &reqwest::Client, target: &Target, handler: &LifecycleHandler) -> Result<(), String> {
    if let Some(sleep) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or_default())).await;
        return Ok(());
    }
    let work = async {
        if let Some(get) = &handler.http_get {
            return http_get(http, target, get).await;
        }
        match &handler.tcp_socket {
            Some(socket) => tcp(target, socket.host.as_deref(), &socket.port).await,
            None => Err("this kind of hook is not supported".into()),
        }
    };
    let late = || Err(format!("no answer within {} s", HOOK_DEADLINE.as_secs()));
    tokio::time::timeout(HOOK_DEADLINE, work).await.unwrap_or_else(|_| late())
}

async fn http_get(http: &reqwest::Client, target: &Target, get: &HTTPGetAction) -> Result<(), String> {
    let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let (host, port) = (target.host(get.host.as_deref())?, target.port(&get.port)?);
    let path = get.path.as_deref().unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut request =
        http.get(format!("{scheme}://{host}:{port}{slash}{path}")).header("user-agent", "kube-probe/1.37");
    for header in get.http_headers.iter().flatten() {
        request = request.header(&header.name, &header.value);
    }
    let answer = request.send().await.map_err(|error| format!("Get failed: {}", chain(&error)))?;
    let status = answer.status();
    if status.is_success() || status.is_redirection() {
        Ok(())
    } else {
        Err(format!("HTTP probe failed with statuscode: {}", status.as_u16()))
    }
}

async fn tcp(target: &Target, host: Option<&str>, port: &IntOrString) -> Result<(), String> {
    let (host, port) = (target.host(host)?, target.port(port)?);
    let address = format!("{host}:{port}");
    TcpStream::connect(&address).await.map(drop).map_err(|error| format!("dial tcp {address}: {error}"))
}

/// An error with its causes: the outer one seldom says enough.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
