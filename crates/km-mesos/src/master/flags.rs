//! The command line of `km mesos-master`.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use km_mesos_core::master::Config;
use km_mesos_proto::{resources::Quantities, v1};

/// A capability that masters have and the v1 API has no name for; in JSON it is empty.
const QUOTA_V2: i32 = 3;

/// Flags of the embedded Mesos master; names and defaults are those of Apache Mesos where it has them.
#[derive(clap::Args, Clone, Debug)]
pub struct Flags {
    /// IP address to listen on.
    #[arg(long, alias = "address", default_value = "127.0.0.1")]
    pub ip: String,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 5050)]
    pub port: u16,
    /// Host name to advertise; default is the IP address.
    #[arg(long)]
    pub hostname: Option<String>,
    /// Name of the cluster, shown by the endpoints.
    #[arg(long)]
    pub cluster: Option<String>,
    /// Comma separated roles that frameworks may have; default is any.
    #[arg(long)]
    pub roles: Option<String>,
    /// Weights of roles, like `role=weight,role=weight`.
    #[arg(long)]
    pub weights: Option<String>,
    /// Directory for the registry: agents, maintenance, weights and quota survive a restart there. Default: nothing does.
    #[arg(long)]
    pub work_dir: Option<PathBuf>,
    /// Time between batch allocations, like `500ms` or `1secs`.
    #[arg(long, default_value = "1secs", value_parser = duration)]
    pub allocation_interval: Duration,
    /// Time within which an agent has to answer a ping.
    #[arg(long, default_value = "15secs", value_parser = duration)]
    pub agent_ping_timeout: Duration,
    /// How many pings in a row an agent may miss.
    #[arg(long, default_value_t = 5)]
    pub max_agent_ping_timeouts: u32,
    /// How long an agent known before a restart of the master may take to come back.
    #[arg(long, default_value = "10mins", value_parser = duration)]
    pub agent_reregister_timeout: Duration,
    /// How long an offer may stay unanswered before it is rescinded. Default: for ever.
    #[arg(long, value_parser = duration)]
    pub offer_timeout: Option<Duration>,
    /// What an agent must have left to be offered, any one of these, like `cpus:0.01|mem:32`.
    #[arg(long)]
    pub min_allocatable_resources: Option<String>,
    /// Whether frameworks may run as root.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub root_submissions: bool,
    /// Whether schedulers must authenticate (HTTP basic).
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub authenticate_http_frameworks: bool,
    /// Whether read-only endpoints need authentication.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub authenticate_http_readonly: bool,
    /// Whether endpoints that change something need authentication.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub authenticate_http_readwrite: bool,
    /// How schedulers authenticate; `basic` is all there is.
    #[arg(long, default_value = "basic", value_parser = ["basic"])]
    pub http_framework_authenticators: String,
    /// How others authenticate; `basic` is all there is.
    #[arg(long, default_value = "basic", value_parser = ["basic"])]
    pub http_authenticators: String,
    /// File with `{"credentials": [{"principal": …, "secret": …}]}`.
    #[arg(long)]
    pub credentials: Option<PathBuf>,
    /// How many completed frameworks to remember.
    #[arg(long, default_value_t = 50)]
    pub max_completed_frameworks: usize,
    /// How many completed tasks to remember of each framework.
    #[arg(long, default_value_t = 1000)]
    pub max_completed_tasks_per_framework: usize,
    /// How often agents that are lost for long are forgotten.
    #[arg(long, default_value = "15mins", value_parser = duration)]
    pub registry_gc_interval: Duration,
    /// How many unreachable agents, and how many that are gone, to remember.
    #[arg(long, default_value_t = 102_400)]
    pub registry_max_agent_count: usize,
    /// How long to remember them.
    #[arg(long, default_value = "2weeks", value_parser = duration)]
    pub registry_max_agent_age: Duration,
    /// Time between heartbeats on event streams; for tests.
    #[arg(long, hide = true, default_value = "15secs", value_parser = duration)]
    pub heartbeat_interval: Duration,
}

impl Default for Flags {
    /// The flags of an empty command line.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct Empty {
            #[command(flatten)]
            flags: Flags,
        }
        <Empty as clap::Parser>::parse_from(["mesos-master"]).flags
    }
}

impl Flags {
    /// The core's settings for a master with this id that listens on this address.
    pub(super) fn config(&self, id: String, address: SocketAddr) -> anyhow::Result<Config> {
        let mut config = Config::new(self.master_info(id, address));
        config.heartbeat_interval = self.heartbeat_interval;
        config.agent_ping_timeout = self.agent_ping_timeout;
        config.max_agent_ping_timeouts = self.max_agent_ping_timeouts;
        config.agent_reregister_timeout = self.agent_reregister_timeout;
        config.allocation_interval = self.allocation_interval.max(Duration::from_millis(1));
        config.offer_timeout = self.offer_timeout;
        config.root_submissions = self.root_submissions;
        config.max_completed_frameworks = self.max_completed_frameworks;
        config.max_completed_tasks_per_framework = self.max_completed_tasks_per_framework;
        config.registry_gc_interval = self.registry_gc_interval.max(Duration::from_millis(1));
        config.registry_max_agent_count = self.registry_max_agent_count;
        config.registry_max_agent_age = self.registry_max_agent_age;
        config.cluster = self.cluster.clone();
        let split =
            |text: &str| text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect();
        config.roles = self.roles.as_deref().map(split);
        config.weights = weights(self.weights.as_deref().unwrap_or_default())?;
        if let Some(text) = &self.min_allocatable_resources {
            let minima: Result<_, _> = text.split('|').map(Quantities::parse).collect();
            config.min_allocatable = minima.context("--min-allocatable-resources")?;
        }
        config.flags = self.shown();
        Ok(config)
    }

    fn master_info(&self, id: String, address: SocketAddr) -> v1::MasterInfo {
        use v1::master_info::{Capability, capability::Type};
        let hostname = self.hostname.clone().unwrap_or_else(|| address.ip().to_string());
        let ip = match address.ip() {
            // MasterInfo has the address as a number in network byte order.
            std::net::IpAddr::V4(ip) => u32::from_le_bytes(ip.octets()),
            std::net::IpAddr::V6(_) => 0,
        };
        v1::MasterInfo {
            id,
            ip,
            port: u32::from(address.port()),
            pid: Some(format!("master@{address}")),
            hostname: Some(hostname.clone()),
            version: Some("1.11.0".to_owned()),
            address: Some(v1::Address {
                hostname: Some(hostname),
                ip: Some(address.ip().to_string()),
                port: i32::from(address.port()),
            }),
            domain: None,
            capabilities: [Type::AgentUpdate as i32, Type::AgentDraining as i32, QUOTA_V2]
                .into_iter()
                .map(|kind| Capability { r#type: Some(kind) })
                .collect(),
        }
    }

    /// Flags as GET_FLAGS shows them.
    fn shown(&self) -> BTreeMap<String, String> {
        let text = |time: Duration| format!("{}ms", time.as_millis());
        let mut all: BTreeMap<String, String> = [
            ("ip", self.ip.clone()),
            ("port", self.port.to_string()),
            ("allocation_interval", text(self.allocation_interval)),
            ("agent_ping_timeout", text(self.agent_ping_timeout)),
            ("max_agent_ping_timeouts", self.max_agent_ping_timeouts.to_string()),
            ("agent_reregister_timeout", text(self.agent_reregister_timeout)),
            ("root_submissions", self.root_submissions.to_string()),
            ("authenticate_http_frameworks", self.authenticate_http_frameworks.to_string()),
            ("authenticate_http_readonly", self.authenticate_http_readonly.to_string()),
            ("authenticate_http_readwrite", self.authenticate_http_readwrite.to_string()),
            ("max_completed_frameworks", self.max_completed_frameworks.to_string()),
            ("max_completed_tasks_per_framework", self.max_completed_tasks_per_framework.to_string()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        let optional = [
            ("hostname", self.hostname.clone()),
            ("cluster", self.cluster.clone()),
            ("roles", self.roles.clone()),
            ("weights", self.weights.clone()),
            ("work_dir", self.work_dir.as_ref().map(|path| path.display().to_string())),
            ("offer_timeout", self.offer_timeout.map(text)),
            ("min_allocatable_resources", self.min_allocatable_resources.clone()),
        ];
        all.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        all
    }
}

fn weights(text: &str) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut all = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (role, weight) = pair.split_once('=').with_context(|| format!("--weights: '{pair}' is not role=weight"))?;
        let weight: f64 = weight.parse().with_context(|| format!("--weights: '{weight}' is not a number"))?;
        if !(weight > 0.0 && weight.is_finite()) {
            bail!("--weights: the weight of '{role}' must be above zero");
        }
        all.insert(role.to_owned(), weight);
    }
    Ok(all)
}

/// Reads a duration in Mesos' form: a number and a unit (`ns`, `us`, `ms`, `secs`, `mins`, `hrs`, `days`, `weeks`).
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    let seconds = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "secs" | "sec" => 1.0,
        "m" | "mins" | "min" => 60.0,
        "h" | "hrs" => 3600.0,
        "days" => 86_400.0,
        "weeks" => 604_800.0,
        _ => return Err(format!("'{text}' needs a unit: ns, us, ms, secs, mins, hrs, days or weeks")),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|error| format!("'{text}': {error}"))
}
