//! The rules as an nftables table, replaced as a whole in one transaction.

use std::{fmt::Write, process::Stdio, time::Duration};

use anyhow::{Context, bail};
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

use crate::rules::{Ruleset, ServicePort};

const TABLE: &str = "km-services";
const DEADLINE: Duration = Duration::from_secs(60);
/// Packets whose source must become ours: of clients outside, and of endpoints that reach themselves.
const MASQUERADE: &str = "0x4000";

/// The text for `nft -f -`. Pure.
pub fn render(rules: &Ruleset) -> String {
    let mut table = Table(format!("add table ip {TABLE}\ndelete table ip {TABLE}\ntable ip {TABLE} {{\n"));
    table.map("service-ips", "ipv4_addr . inet_proto . inet_service : verdict", &addresses(rules, true));
    table.map("node-ports", "inet_proto . inet_service : verdict", &node_ports(rules, true));
    table.map("no-endpoints", "ipv4_addr . inet_proto . inet_service : verdict", &addresses(rules, false));
    table.map("no-endpoint-ports", "inet_proto . inet_service : verdict", &node_ports(rules, false));
    for (number, port) in rules.ports.iter().enumerate().filter(|(_, port)| !port.endpoints.is_empty()) {
        service(&mut table, number, port);
    }
    table.chain("refuse", &["meta l4proto tcp reject with tcp reset".into(), "reject".into()]);
    table.chain(
        "services",
        &[
            "ip daddr . meta l4proto . th dport vmap @service-ips".into(),
            "ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @node-ports".into(),
        ],
    );
    table.chain(
        "refusals",
        &[
            "ip daddr . meta l4proto . th dport vmap @no-endpoints".into(),
            "ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @no-endpoint-ports".into(),
        ],
    );
    for (hook, priority) in [("prerouting", -100), ("output", -100)] {
        table.hook(&format!("nat-{hook}"), "nat", hook, priority, "jump services");
    }
    for hook in ["input", "forward", "output"] {
        table.hook(&format!("filter-{hook}"), "filter", hook, 0, "ct state new jump refusals");
    }
    let masquerade = format!("meta mark and {MASQUERADE} == {MASQUERADE} masquerade");
    table.hook("nat-postrouting", "nat", "postrouting", 100, &masquerade);
    table.0.push_str("}\n");
    table.0
}

/// Text that takes back all rules.
fn removal() -> String {
    format!("add table ip {TABLE}\ndelete table ip {TABLE}\n")
}

fn addresses(rules: &Ruleset, with_endpoints: bool) -> Vec<String> {
    let ports = rules.ports.iter().enumerate().filter(|(_, port)| port.endpoints.is_empty() != with_endpoints);
    ports
        .flat_map(|(number, port)| {
            let target = if with_endpoints { format!("goto service-{number}") } else { "goto refuse".to_owned() };
            port.addresses
                .iter()
                .map(move |address| format!("{address} . {} . {} : {target}", port.protocol.name(), port.port))
        })
        .collect()
}

fn node_ports(rules: &Ruleset, with_endpoints: bool) -> Vec<String> {
    let ports = rules.ports.iter().enumerate().filter(|(_, port)| port.endpoints.is_empty() != with_endpoints);
    ports
        .filter_map(|(number, port)| {
            let target = if with_endpoints { format!("goto node-port-{number}") } else { "goto refuse".to_owned() };
            Some(format!("{} . {} : {target}", port.protocol.name(), port.node_port?))
        })
        .collect()
}

/// The chains of one port: by affinity first, then at random.
fn service(table: &mut Table, number: usize, port: &ServicePort) {
    let count = port.endpoints.len();
    if let Some(affinity) = port.affinity {
        for index in 0..count {
            table.line(&format!(
                "\tset clients-{number}-{index} {{ type ipv4_addr; flags dynamic,timeout; timeout {}s; }}",
                affinity.as_secs()
            ));
        }
    }
    for (index, (ip, target)) in port.endpoints.iter().enumerate() {
        let mut rules = vec![format!("ip saddr {ip} meta mark set meta mark or {MASQUERADE}")];
        if port.affinity.is_some() {
            rules.push(format!("update @clients-{number}-{index} {{ ip saddr }}"));
        }
        rules.push(format!("meta l4proto {} dnat to {ip}:{target}", port.protocol.name()));
        table.chain(&format!("endpoint-{number}-{index}"), &rules);
    }
    let mut rules = Vec::new();
    if port.affinity.is_some() {
        rules.extend((0..count).map(|i| format!("ip saddr @clients-{number}-{i} goto endpoint-{number}-{i}")));
    }
    let choices: Vec<String> = (0..count).map(|index| format!("{index} : goto endpoint-{number}-{index}")).collect();
    rules.push(format!("numgen random mod {count} vmap {{ {} }}", choices.join(", ")));
    table.line(&format!("\t# {}", port.name));
    table.chain(&format!("service-{number}"), &rules);
    if port.node_port.is_some() {
        let masquerade = format!("meta mark set meta mark or {MASQUERADE}");
        table.chain(&format!("node-port-{number}"), &[masquerade, format!("goto service-{number}")]);
    }
}

struct Table(String);

impl Table {
    fn line(&mut self, line: &str) {
        // Writing into a string cannot fail.
        let _infallible = writeln!(self.0, "{line}");
    }

    fn map(&mut self, name: &str, kind: &str, elements: &[String]) {
        self.line(&format!("\tmap {name} {{\n\t\ttype {kind}"));
        if !elements.is_empty() {
            self.line(&format!("\t\telements = {{\n\t\t\t{}\n\t\t}}", elements.join(",\n\t\t\t")));
        }
        self.line("\t}");
    }

    fn chain(&mut self, name: &str, rules: &[String]) {
        self.line(&format!("\tchain {name} {{"));
        for rule in rules {
            self.line(&format!("\t\t{rule}"));
        }
        self.line("\t}");
    }

    fn hook(&mut self, name: &str, kind: &str, hook: &str, priority: i32, rule: &str) {
        self.chain(name, &[format!("type {kind} hook {hook} priority {priority}; policy accept;"), rule.to_owned()]);
    }
}

/// Replaces all rules, or none of them.
pub async fn apply(rules: &Ruleset) -> anyhow::Result<()> {
    run(&render(rules)).await
}

/// Takes back all rules.
pub async fn remove() -> anyhow::Result<()> {
    run(&removal()).await
}

/// Whether nft is there and the kernel has what the rules use.
pub async fn check() -> anyhow::Result<()> {
    let table = format!("{TABLE}-check-{}", std::process::id());
    let port = ServicePort {
        name: "check".to_owned(),
        protocol: crate::rules::Protocol::Tcp,
        addresses: vec![std::net::Ipv4Addr::new(192, 0, 2, 1)],
        port: 1,
        node_port: None,
        endpoints: vec![(std::net::Ipv4Addr::new(192, 0, 2, 2), 1)],
        affinity: None,
    };
    let text = render(&Ruleset { ports: vec![port] }).replace(TABLE, &table);
    run(&format!("{text}delete table ip {table}\n")).await
}

async fn run(text: &str) -> anyhow::Result<()> {
    let run = async {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut nft = Command::new("nft")
            .args(["-f", "-"])
            // Where it usually is, but not every service's search path leads there.
            .env("PATH", format!("{path}:/usr/sbin:/sbin:/usr/local/sbin"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting nft (package nftables)")?;
        if let Some(mut input) = nft.stdin.take() {
            input.write_all(text.as_bytes()).await.context("writing to nft")?;
        }
        let output = nft.wait_with_output().await.context("waiting for nft")?;
        if !output.status.success() {
            bail!("nft refused the rules: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    };
    timeout(DEADLINE, run).await.context("nft does not answer")?
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::rules::Protocol;

    fn port(endpoints: &[(&str, u16)]) -> ServicePort {
        ServicePort {
            name: "default/web:http".into(),
            protocol: Protocol::Tcp,
            addresses: vec![Ipv4Addr::new(10, 96, 0, 7)],
            port: 80,
            node_port: Some(30080),
            endpoints: endpoints.iter().map(|(ip, port)| (ip.parse().unwrap(), *port)).collect(),
            affinity: Some(Duration::from_secs(60)),
        }
    }

    #[test]
    fn rules_lead_from_address_to_endpoints() {
        let text = render(&Ruleset { ports: vec![port(&[("10.88.0.2", 8080), ("10.88.0.3", 8080)])] });
        for line in [
            "10.96.0.7 . tcp . 80 : goto service-0",
            "tcp . 30080 : goto node-port-0",
            "numgen random mod 2 vmap { 0 : goto endpoint-0-0, 1 : goto endpoint-0-1 }",
            "meta l4proto tcp dnat to 10.88.0.3:8080",
            "ip saddr @clients-0-1 goto endpoint-0-1",
            "timeout 60s",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains(": goto refuse"));
    }

    #[test]
    fn without_endpoints_connections_are_refused() {
        let text = render(&Ruleset { ports: vec![port(&[])] });
        assert!(text.contains("10.96.0.7 . tcp . 80 : goto refuse") && text.contains("tcp . 30080 : goto refuse"));
        assert!(!text.contains("goto service-0"));
    }

    #[tokio::test]
    async fn this_machines_nft_takes_the_rules() {
        check().await.unwrap();
        let mut rules = Ruleset { ports: vec![port(&[("10.88.0.2", 8080)]), port(&[])] };
        rules.ports[1].addresses = vec![Ipv4Addr::new(10, 96, 0, 8)];
        rules.ports[1].node_port = None;
        let table = format!("{TABLE}-test-{}", std::process::id());
        let text = render(&rules).replace(TABLE, &table);
        run(&format!("{text}delete table ip {table}\n")).await.unwrap();
    }
}
