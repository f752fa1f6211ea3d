//! `/etc/resolv.conf` of pods, by `dnsPolicy` and `dnsConfig`.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

/// Most entries that resolvers heed (Kubernetes' limits).
const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;

/// Where the cluster's names are served.
#[derive(Clone, Debug, Default)]
pub struct ClusterDns {
    pub servers: Vec<IpAddr>,
    pub domain: String,
    /// Lines of the host's own resolv.conf.
    pub host: Vec<String>,
}

impl ClusterDns {
    /// The lines of a pod's resolv.conf; empty: a copy of the host's.
    pub fn resolv_conf(&self, pod: &Pod) -> Vec<String> {
        let Some(spec) = &pod.spec else { return Vec::new() };
        let host_network = spec.host_network == Some(true);
        let cluster = match spec.dns_policy.as_deref() {
            Some("None") => Some(false),
            Some("Default") => None,
            Some("ClusterFirstWithHostNet") => Some(true),
            _ if host_network => None,
            _ => Some(true),
        };
        let (mut servers, mut searches, mut options) = (Vec::new(), Vec::new(), Vec::new());
        match cluster {
            Some(true) if !self.servers.is_empty() => {
                servers.extend(self.servers.iter().map(ToString::to_string));
                let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
                let domain = &self.domain;
                searches.extend([format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()]);
                searches.extend(self.host_words("search"));
                options.push("ndots:5".to_owned());
            }
            Some(false) => {}
            _ if spec.dns_config.is_none() => return Vec::new(),
            _ => {
                servers.extend(self.host_words("nameserver"));
                searches.extend(self.host_words("search"));
                options.extend(self.host_words("options"));
            }
        }
        if let Some(config) = &spec.dns_config {
            servers.extend(config.nameservers.iter().flatten().cloned());
            searches.extend(config.searches.iter().flatten().cloned());
            for option in config.options.iter().flatten() {
                let name = option.name.clone().unwrap_or_default();
                options.retain(|known| known.split(':').next() != Some(&name));
                options.push(option.value.as_ref().map_or(name.clone(), |value| format!("{name}:{value}")));
            }
        }
        lines(servers, searches, &options)
    }

    fn host_words(&self, keyword: &str) -> Vec<String> {
        let lines = self.host.iter().filter_map(|line| line.trim().strip_prefix(keyword));
        lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
    }
}

fn lines(servers: Vec<String>, searches: Vec<String>, options: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = once(servers, MAX_SERVERS).iter().map(|ip| format!("nameserver {ip}")).collect();
    let searches = once(searches, MAX_SEARCHES);
    if !searches.is_empty() {
        lines.push(format!("search {}", searches.join(" ")));
    }
    if !options.is_empty() {
        lines.push(format!("options {}", options.join(" ")));
    }
    lines
}

/// The first `limit` different ones.
fn once(list: Vec<String>, limit: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for word in list {
        if !seen.contains(&word) && seen.len() < limit {
            seen.push(word);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn conf(spec: Value) -> Vec<String> {
        let dns = ClusterDns {
            servers: vec!["10.96.0.10".parse().unwrap()],
            domain: "cluster.local".into(),
            host: vec!["nameserver 1.1.1.1".into(), "search corp".into(), "options edns0".into()],
        };
        let mut spec = spec;
        spec["containers"] = json!([]);
        dns.resolv_conf(&from_value(json!({"metadata": {"namespace": "n"}, "spec": spec})).unwrap())
    }

    #[test]
    fn policies() {
        let search = "search n.svc.cluster.local svc.cluster.local cluster.local corp";
        let cluster = ["nameserver 10.96.0.10", search, "options ndots:5"];
        assert_eq!(conf(json!({"dnsPolicy": "ClusterFirst"})), cluster);
        assert!(conf(json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true})).is_empty());
        assert_eq!(conf(json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true})), cluster);
        assert!(conf(json!({"dnsPolicy": "Default"})).is_empty());
        let own = json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["9.9.9.9"], "searches": ["a"],
            "options": [{"name": "ndots", "value": "2"}]}});
        assert_eq!(conf(own), ["nameserver 9.9.9.9", "search a", "options ndots:2"]);
        let more = json!({"dnsPolicy": "Default", "dnsConfig": {"options": [{"name": "rotate"}]}});
        assert_eq!(conf(more), ["nameserver 1.1.1.1", "search corp", "options edns0 rotate"]);
    }
}
