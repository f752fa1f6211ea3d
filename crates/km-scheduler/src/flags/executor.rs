//! Flags that are passed on to what runs on the agents: minion, executor and proxy.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{ArgAction, Args};

use super::duration::parse_duration;

/// Each becomes an argument of the executor's command, or a file that agents fetch.
#[derive(Args, Clone, Debug)]
pub struct ExecutorFlags {
    /// Ends an executor that had no pod for so long; 0s never does.
    #[arg(long, default_value = "20m", value_parser = parse_duration)]
    pub executor_suicide_timeout: Duration,
    /// How long an unreachable API server may hold up the binding of a launched pod; 0s for ever.
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub mesos_launch_grace_period: Duration,
    /// Whether kubelets listen on all addresses of their agents.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub executor_bindall: bool,
    /// Verbosity of the executor's log: debugging from 4, everything from 8.
    #[arg(long, default_value_t = 0)]
    pub executor_logv: u8,
    /// Archive that agents extract into the executor's sandbox.
    #[arg(long)]
    pub mesos_sandbox_overlay: Option<PathBuf>,
    /// File with credentials of image registries, fetched into the executor's sandbox as `.dockercfg`.
    #[arg(long)]
    pub dockercfg_path: Option<PathBuf>,

    /// Whether agents run a service proxy.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub run_proxy: bool,
    /// Whether proxies listen on all addresses of their agents.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub proxy_bindall: bool,
    /// Kubeconfig that agents fetch for proxies; by default that of the executors.
    #[arg(long)]
    pub proxy_kubeconfig: Option<PathBuf>,
    /// Verbosity of the proxy's log, as `--executor-logv`.
    #[arg(long, default_value_t = 0)]
    pub proxy_logv: u8,
    /// How proxies lead packets to endpoints; `iptables` means `nftables`. The original's default was `userspace`.
    #[arg(long, default_value = "auto", value_parser = ["auto", "nftables", "iptables", "userspace"])]
    pub proxy_mode: String,

    /// `PATH` of minion, executor and proxy, instead of the agent's.
    #[arg(long, default_value = "")]
    pub minion_path_override: String,
    /// Size at which the logs on agents are rotated: bytes, or with Ki, Mi, Gi.
    #[arg(long, default_value = "10Mi")]
    pub minion_max_log_size: String,
    /// Days after which rotated logs are removed.
    #[arg(long, default_value_t = 7)]
    pub minion_max_log_age: u32,
    /// How many rotated logs are kept.
    #[arg(long, default_value_t = 5)]
    pub minion_max_log_backups: u32,

    /// Addresses of the cluster's DNS servers, for pods.
    #[arg(long, value_delimiter = ',')]
    pub cluster_dns: Vec<IpAddr>,
    /// Domain of the cluster's names, for pods.
    #[arg(long, default_value = "")]
    pub cluster_domain: String,
    /// Folder of the kubelets' state on agents.
    #[arg(long, default_value = "")]
    pub kubelet_root_dir: String,
}

impl ExecutorFlags {
    /// The arguments of `km minion` that follow, without kubeconfigs.
    pub(crate) fn minion_arguments(&self) -> Vec<String> {
        let mut all = vec![
            format!("--run-proxy={}", self.run_proxy),
            format!("--max-log-size={}", self.minion_max_log_size),
            format!("--max-log-backups={}", self.minion_max_log_backups),
            format!("--max-log-age={}", self.minion_max_log_age),
        ];
        let mut executor = vec![
            format!("--suicide-timeout={}", written(self.executor_suicide_timeout)),
            format!("--launch-grace-period={}", written(self.mesos_launch_grace_period)),
        ];
        if self.executor_bindall {
            executor.push("--address=0.0.0.0".to_owned());
        }
        if !self.cluster_dns.is_empty() {
            let servers: Vec<String> = self.cluster_dns.iter().map(IpAddr::to_string).collect();
            executor.push(format!("--cluster-dns={}", servers.join(",")));
        }
        for (flag, value) in [("cluster-domain", &self.cluster_domain), ("root-dir", &self.kubelet_root_dir)] {
            if !value.is_empty() {
                executor.push(format!("--{flag}={value}"));
            }
        }
        let mut proxy = Vec::new();
        if self.proxy_bindall {
            proxy.push("--bind-address=0.0.0.0".to_owned());
        }
        match self.proxy_mode.as_str() {
            "auto" => {}
            "iptables" => proxy.push("--proxy-mode=nftables".to_owned()),
            mode => proxy.push(format!("--proxy-mode={mode}")),
        }
        all.extend(executor.into_iter().map(|word| format!("--executor-arg={word}")));
        all.extend(proxy.into_iter().map(|word| format!("--proxy-arg={word}")));
        all
    }

    /// The environment of the executor's command: names and values.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let level = |verbosity| match verbosity {
            0..=3 => "info",
            4..=7 => "debug",
            _ => "trace",
        };
        let mut all = Vec::new();
        if self.executor_logv > 0 || self.proxy_logv > 0 {
            let (executor, proxy) = (level(self.executor_logv), level(self.proxy_logv));
            all.push(("KM_LOG", format!("{executor},km_proxy={proxy}")));
        }
        if !self.minion_path_override.is_empty() {
            all.push(("PATH", self.minion_path_override.clone()));
        }
        all
    }
}

/// A duration as the executor reads it.
fn written(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
    }
}
