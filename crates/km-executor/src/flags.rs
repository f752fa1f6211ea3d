//! Command line of `km executor`.

use std::{net::IpAddr, path::PathBuf, time::Duration};

/// What kind of runtime runs the containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RuntimeKind {
    /// The embedded one.
    #[default]
    Auto,
    /// The embedded one.
    Oci,
    /// A CRI socket. Not yet.
    Cri,
}

/// Flags of the executor; names as in the kubelet and the original executor.
#[derive(clap::Args, Clone, Debug)]
pub struct Flags {
    /// Kubeconfig of the API server; its certificate authority also vouches for callers of the kubelet API.
    #[arg(long)]
    pub kubeconfig: PathBuf,
    /// Name of the Node, and of the host in it. The scheduler sets the agent's hostname.
    #[arg(long)]
    pub hostname_override: String,
    /// Where the kubelet API listens.
    #[arg(long, default_value = "0.0.0.0")]
    pub address: IpAddr,
    /// Port of the kubelet API. When it is taken (or 0) a free one is used; the Node's daemonEndpoints say which.
    #[arg(long, default_value_t = 10250)]
    pub port: u16,
    /// The node's address; default: the source address of the default route.
    #[arg(long)]
    pub node_ip: Option<IpAddr>,
    /// Container runtime.
    #[arg(long, value_enum, default_value_t)]
    pub runtime: RuntimeKind,
    /// State of the executors of this host, one folder per Mesos agent id.
    #[arg(long, default_value = "/var/lib/km/kubelet")]
    pub root_dir: PathBuf,
    /// Images, shared by all executors of this host.
    #[arg(long, default_value = "/var/lib/km/images")]
    pub image_root: PathBuf,
    /// Registry credentials, as Docker writes them; by default in the sandbox, where the scheduler's --dockercfg-path puts
    /// them.
    #[arg(long, default_value = ".dockercfg")]
    pub dockercfg: PathBuf,
    /// Folder with one folder a registry, named HOST or HOST:PORT, with its authorities in files *.crt, as Docker has it.
    #[arg(long, default_value = "/etc/docker/certs.d")]
    pub registry_certs: PathBuf,
    /// Addresses of the cluster's DNS servers, comma-separated.
    #[arg(long, value_delimiter = ',')]
    pub cluster_dns: Vec<IpAddr>,
    /// Domain of the cluster's names.
    #[arg(long, default_value = "cluster.local")]
    pub cluster_domain: String,
    /// Most pods that the Node says it takes.
    #[arg(long, default_value_t = 110)]
    pub max_pods: u32,
    /// Ends an executor that had no pod for this long, e.g. 20m; 0: never.
    #[arg(long, default_value = "20m", value_parser = duration)]
    pub suicide_timeout: Duration,
    /// How long an unreachable API server may hold up the binding of a launched pod, e.g. 5m; 0: for ever.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub launch_grace_period: Duration,
    /// Answer callers of the kubelet API that show no certificate.
    #[arg(long, default_value_t = false)]
    pub anonymous_auth: bool,
}

/// A duration as Go writes it: `1h2m3s`, `300ms`, `0` (without fractions).
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; write e.g. 90s, 5m or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).filter(|end| *end > 0).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|letter: char| letter.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let milliseconds = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        total += Duration::from_millis(number.checked_mul(milliseconds).ok_or_else(wrong)?);
        rest = tail;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [("20m", 1200), ("0", 0), ("0s", 0), ("1h30m", 5400), ("90s", 90), ("1500ms", 1)] {
            assert_eq!(duration(text).map(|duration| duration.as_secs()), Ok(seconds), "{text}");
        }
        for text in ["", "5", "m", "5x", "-5m", "1.5h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
