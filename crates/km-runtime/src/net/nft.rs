//! The packet filter of one agent: host ports of its pods and the masquerading of what they send outside. The table
//! is replaced as a whole in one transaction.

use std::{fmt::Write, net::Ipv4Addr, process::Stdio, time::Duration};

use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

use super::{AgentNet, CLUSTER_NET, other};
use crate::{PortMapping, Protocol, Result, RuntimeError};

const DEADLINE: Duration = Duration::from_secs(30);

/// The rules for all pods of an agent. Pure.
pub(super) fn render(agent: &AgentNet, pods: &[(Ipv4Addr, &[PortMapping])]) -> String {
    let (table, subnet) = (&agent.table, agent.subnet);
    let mut text = format!("add table ip {table}\ndelete table ip {table}\ntable ip {table} {{\n");
    // Writing into a string cannot fail.
    let mut line = |line: &str| {
        let _infallible = writeln!(text, "{line}");
    };
    line("\tchain ports {");
    for (ip, ports) in pods {
        for port in *ports {
            let protocol = match port.protocol {
                Protocol::Tcp => "tcp",
                Protocol::Udp => "udp",
            };
            line(&format!("\t\t{protocol} dport {} dnat to {ip}:{}", port.host_port, port.container_port));
        }
    }
    line("\t}");
    // The loopback addresses are served by a listening process: packets from them must not leave the machine.
    let chain = |name: &str, hook: &str| {
        format!(
            "\tchain {name} {{\n\t\ttype nat hook {hook} priority -100; policy accept;\n\
             \t\tip daddr != 127.0.0.0/8 fib daddr type local jump ports\n\t}}"
        )
    };
    line(&chain("prerouting", "prerouting"));
    line(&chain("output", "output"));
    line("\tchain postrouting {\n\t\ttype nat hook postrouting priority 100; policy accept;");
    if !pods.is_empty() {
        // A pod that reaches itself through a host port or service would get answers from an address it did not ask.
        let selves: Vec<String> = pods.iter().map(|(ip, _)| format!("{ip} . {ip}")).collect();
        line(&format!("\t\tip saddr . ip daddr {{ {} }} masquerade", selves.join(", ")));
    }
    // A set must not hold overlapping networks.
    let inside =
        if CLUSTER_NET.overlaps(subnet) { format!("{CLUSTER_NET}") } else { format!("{CLUSTER_NET}, {subnet}") };
    line(&format!("\t\tip saddr {subnet} ip daddr != {{ {inside} }} masquerade"));
    line("\t}\n}");
    text
}

/// Whether `nft` is there and the kernel takes tables from us.
pub(super) async fn available() -> bool {
    check().await.is_ok()
}

pub(crate) async fn check() -> Result<()> {
    let table = format!("km-check-{}", std::process::id());
    apply(&format!(
        "add table ip {table}\nadd chain ip {table} probe {{ type nat hook prerouting priority -100; }}\n\
         delete table ip {table}\n"
    ))
    .await
}

pub(super) async fn delete_table(table: &str) -> Result<()> {
    match apply(&format!("add table ip {table}\ndelete table ip {table}\n")).await {
        // Where there is no nft there is no table of ours.
        Err(RuntimeError::Unsupported(_)) => Ok(()),
        result => result,
    }
}

/// Hands the text to `nft -f -`, which takes all of it or nothing.
pub(super) async fn apply(rules: &str) -> Result<()> {
    let run = async {
        let mut nft = Command::new("nft")
            .args(["-f", "-"])
            .env("PATH", search_path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => {
                    RuntimeError::Unsupported("the program nft is not installed (package nftables)".to_owned())
                }
                _ => other("starting nft", error),
            })?;
        if let Some(mut input) = nft.stdin.take() {
            input.write_all(rules.as_bytes()).await.map_err(|error| other("writing to nft", error))?;
        }
        let output = nft.wait_with_output().await.map_err(|error| other("waiting for nft", error))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(other("nft refused the rules", String::from_utf8_lossy(&output.stderr).trim()))
        }
    };
    timeout(DEADLINE, run).await.map_err(|_| other("nft", "no answer within 30 s"))?
}

/// `nft` lives in a folder that the search path of a service may lack.
fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin:/usr/local/sbin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_each_port_and_each_pod_once() {
        let agent =
            AgentNet { bridge: "km-a".into(), table: "km-rt-a".into(), subnet: "10.88.3.0/24".parse().unwrap() };
        let ports = [
            PortMapping { container_port: 80, host_port: 31000, protocol: Protocol::Tcp },
            PortMapping { container_port: 53, host_port: 31001, protocol: Protocol::Udp },
        ];
        let text = render(&agent, &[("10.88.3.2".parse().unwrap(), &ports), ("10.88.3.3".parse().unwrap(), &[])]);
        for line in [
            "tcp dport 31000 dnat to 10.88.3.2:80",
            "udp dport 31001 dnat to 10.88.3.2:53",
            "ip saddr . ip daddr { 10.88.3.2 . 10.88.3.2, 10.88.3.3 . 10.88.3.3 } masquerade",
            "ip saddr 10.88.3.0/24 ip daddr != { 10.88.0.0/13 } masquerade",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line} in {text}");
        }
        assert!(!render(&agent, &[]).contains("ip saddr . ip daddr"));
    }
}
