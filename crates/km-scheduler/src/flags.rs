//! The command line of `km scheduler`.

mod duration;
mod election;
mod executor;
mod framework;
mod master;
mod offer_constraints;
mod retired;
mod settings;
mod tuning;

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, Parser};

use duration::parse_duration;
pub use election::ElectionFlags;
pub use executor::ExecutorFlags;
pub(crate) use framework::CHANGEABLE;
pub use framework::GivenFlags;
pub use retired::{RETIRED, RetiredFlags};
pub use settings::FlagsError;
pub use tuning::Tuning;

/// Runs the scheduler: a Mesos framework that launches each pod as one task.
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// Which flags the configuration file doesn't set. It stands first as what is read is taken out of the matches.
    #[command(flatten)]
    pub given: GivenFlags,
    /// Address to serve HTTP on.
    #[arg(long, default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// Port to serve HTTP on; 0 takes any free one.
    #[arg(long, default_value_t = 10251)]
    pub port: u16,
    /// Kubeconfig file of the API server.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server, in the place of the one in the kubeconfig, or without any.
    #[arg(long, value_delimiter = ',')]
    pub api_servers: Vec<String>,
    /// Serve processor profiles under /debug/pprof/.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub profiling: bool,
    /// Ini file whose section `[scheduler]` sets what flags of the same names set, and more.
    #[arg(long)]
    pub scheduler_config: Option<PathBuf>,
    /// Cluster IP of the Service `k8sm-scheduler`; any free one when not given.
    #[arg(long)]
    pub service_address: Option<IpAddr>,

    /// Mesos masters: `host:port`, a comma-separated list, `zk://host:port,host:port/path`, or `file:///path`.
    #[arg(long, default_value = "localhost:5050")]
    pub mesos_master: String,
    /// PEM file with the authority that vouches for the masters' certificates. Masters are then spoken to by https.
    #[arg(long)]
    pub mesos_tls_ca_file: Option<PathBuf>,
    /// PEM file with the scheduler's own certificate, if masters ask for one.
    #[arg(long)]
    pub mesos_tls_cert_file: Option<PathBuf>,
    /// PEM file with the private key of that certificate.
    #[arg(long)]
    pub mesos_tls_key_file: Option<PathBuf>,
    /// Host name of the framework in Mesos; the address of its connection when empty.
    #[arg(long, default_value = "")]
    pub hostname_override: String,
    /// User that executors run as; the scheduler's own when empty.
    #[arg(long, default_value = "root")]
    pub mesos_user: String,
    /// Roles whose resources pods may use, comma-separated; `*` are unreserved ones. Offers are taken in the name of all
    /// but `*`, or of `*` if it is alone.
    #[arg(long, default_value = "*", value_delimiter = ',')]
    pub mesos_framework_roles: Vec<String>,
    /// Roles whose resources pods without annotation may use, the preferred first.
    #[arg(long, default_value = "*", value_delimiter = ',')]
    pub mesos_default_pod_roles: Vec<String>,
    /// What an offer must hold to be made at all, any one of these, such as `cpus:0.5;mem:128|cpus:4`; by role as
    /// `prod=cpus:4,test=cpus:0.5`. When empty the master decides.
    #[arg(long, default_value = "")]
    pub mesos_min_allocatable_resources: String,
    /// Which agents offers are wanted from: constraints as pods have them, for all roles as `[["rack","LIKE","r[12]"]]` or by
    /// role as `{"prod":[["@zone","IS","a"]]}`, or the JSON of Mesos' OfferConstraints. From all when empty.
    #[arg(long, default_value = "")]
    pub mesos_offer_constraints: String,
    /// What Kubernetes calls resources of Mesos, as pairs such as `gpus=nvidia.com/gpu`, comma-separated. Others are called
    /// alike; those without a domain get `k8s.mesosphere.io/`.
    #[arg(long, default_value = "gpus=nvidia.com/gpu", value_delimiter = ',')]
    pub mesos_resource_names: Vec<String>,
    /// Whether agents with GPUs may be used: the Mesos capability GPU_RESOURCES.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub mesos_gpus: bool,
    /// Principal for the master; none when empty.
    #[arg(long, default_value = "")]
    pub mesos_authentication_principal: String,
    /// File with the principal's secret.
    #[arg(long)]
    pub mesos_authentication_secret_file: Option<PathBuf>,
    /// Name of the framework in Mesos.
    #[arg(long, default_value = "Kubernetes")]
    pub framework_name: String,
    /// Link that the Mesos UI shows for the framework.
    #[arg(long, alias = "framework-webui-uri", default_value = "")]
    pub framework_weburi: String,
    /// Seconds that the master keeps tasks when no scheduler is there.
    #[arg(long, default_value_t = 4.611_686e9)]
    pub failover_timeout: f64,
    /// Whether executors survive a restart of their agent.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub checkpoint: bool,
    /// Whether tasks carry discovery information.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub mesos_generate_task_discovery: bool,

    /// CPUs of the executor itself.
    #[arg(long, alias = "executor-cpus", default_value_t = 0.25)]
    pub mesos_executor_cpus: f64,
    /// Megabytes of the executor itself.
    #[arg(long, alias = "executor-mem", default_value_t = 128.0)]
    pub mesos_executor_mem: f64,
    /// CPUs of a container that says nothing.
    #[arg(long, default_value_t = 0.25)]
    pub default_container_cpu_limit: f64,
    /// Megabytes of a container that says nothing.
    #[arg(long, default_value_t = 64.0)]
    pub default_container_mem_limit: f64,
    /// What of a pod is taken from offers: `requests`, as Kubernetes does, or `limits`, as the first k8sm did.
    #[arg(long, default_value = "requests", value_parser = ["requests", "limits"])]
    pub pod_accounting: String,
    /// Which agents are preferred: `pack` (the fullest), `spread` (the emptiest), `fcfs` (whose offer came first) or
    /// `kubernetes` (the scores of the stock scheduler).
    #[arg(long, default_value = "pack", value_parser = km_placement::Strategy::NAMES)]
    pub placement: String,
    /// Soft spread of pods that say nothing about it, among those of their services and replica set: `system` (host names with
    /// skew 3, zones with skew 5), `none`, a list such as `topology.kubernetes.io/zone:5`, or `auto`: `system` where the
    /// placement is `spread` or `kubernetes`.
    #[arg(long, default_value = "auto")]
    pub default_topology_spread: String,
    /// Whether endpoints are host ports. Then every container port gets one.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub host_port_endpoints: bool,

    /// The km binary that agents fetch, by default the running one: a file here, a URL, or `file://PATH` where agents
    /// have it already.
    #[arg(long, alias = "executor-path")]
    pub km_path: Option<String>,
    /// Where km is already installed on the agents. Then they fetch none.
    #[arg(long)]
    pub agent_km_path: Option<PathBuf>,
    /// Kubeconfig that agents fetch for executors; by default the scheduler's own.
    #[arg(long, alias = "kubelet-kubeconfig")]
    pub executor_kubeconfig: Option<PathBuf>,
    /// URL of the API server for executors and proxies, in the place of the one in their kubeconfig.
    #[arg(long, value_delimiter = ',')]
    pub kubelet_api_servers: Vec<String>,
    /// Where a kubeconfig is already on the agents. Then they fetch none.
    #[arg(long)]
    pub agent_kubeconfig: Option<PathBuf>,
    /// `host:port` under which agents reach the scheduler's HTTP port, when it isn't its own address.
    #[arg(long, default_value = "")]
    pub advertised_address: String,
    /// Folder with manifests of pods that every executor runs by itself, one a file. It is read at the start.
    #[arg(long)]
    pub static_pods_config: Option<PathBuf>,
    /// A flag for `km minion` on the agents. May be repeated.
    #[arg(long, allow_hyphen_values = true)]
    pub minion_flag: Vec<String>,

    /// How long Mesos is to keep declined resources for others.
    #[arg(long, default_value = "1h", value_parser = parse_duration)]
    pub offer_refuse_duration: Duration,
    /// How long an offer is kept that no waiting pod fits; 5s when the configuration file says nothing either.
    #[arg(long, value_parser = parse_duration)]
    pub offer_ttl: Option<Duration>,
    /// How long the Node of a lost agent stays.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    pub node_grace_period: Duration,
    /// How long after a master's fail-over its agents may take to come back.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub agent_reregister_grace: Duration,
    /// Seconds between implicit reconciliations; 0 for none.
    #[arg(long, default_value_t = 300)]
    pub reconcile_interval: u64,
    /// How long before the start of its maintenance in Mesos an agent is to be emptied.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub maintenance_lead: Duration,
    /// Whether nodes of agents with GPUs get the taint `nvidia.com/gpu=present:NoSchedule`, which
    /// pods that ask for GPUs tolerate.
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub taint_gpu_agents: bool,
    /// Least time between two reconciliations; at least 15s.
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    pub reconcile_cooldown: Duration,

    #[command(flatten)]
    pub election: ElectionFlags,
    #[command(flatten)]
    pub executor: ExecutorFlags,
    #[command(flatten)]
    pub retired: RetiredFlags,
    /// What the configuration file says: set by [`Flags::resolve`].
    #[arg(skip)]
    pub tuning: Tuning,
}

/// Only to read the defaults of [`Flags`] from where they are declared.
#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    flags: Flags,
}

impl Default for Flags {
    fn default() -> Self {
        Defaults::parse_from(["scheduler"]).flags
    }
}
