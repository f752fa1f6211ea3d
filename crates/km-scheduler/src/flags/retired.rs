//! Flags of the original that have nothing to set here. They are accepted with any value, so that old command lines
//! keep working, and warned about.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// The flags, and why they do nothing.
pub const RETIRED: [(&str, &str); 21] = [
    ("allow-privileged", "the API server decides who may run privileged containers"),
    ("conntrack-max", LEFT_ALONE),
    ("conntrack-max-per-core", LEFT_ALONE),
    ("conntrack-tcp-timeout-established", LEFT_ALONE),
    ("contain-pod-resources", OWN_CGROUPS),
    ("driver-port", "Mesos answers on the scheduler's own connection: nothing listens"),
    ("etcd-servers", "all state is kept by the API server"),
    ("framework-store-uri", "the framework id is kept by the API server"),
    ("graceful", "a scheduler hands over within its process"),
    ("kube-api-burst", "at most 32 requests are under way at once"),
    ("kube-api-qps", "at most 32 requests are under way at once"),
    ("kubelet-cadvisor-port", "today's kubelet has no such port"),
    ("kubelet-docker-endpoint", "containers are run without Docker"),
    ("kubelet-enable-debugging-handlers", "they are always there"),
    ("kubelet-host-network-sources", "the API server decides who may use the host's network"),
    ("kubelet-network-plugin", "the executor sets up the pods' network itself"),
    ("kubelet-pod-infra-container-image", "pods need no such image"),
    ("kubelet-sync-frequency", "the executor acts on events"),
    ("mesos-authentication-provider", "Mesos' v1 API knows HTTP authentication only"),
    ("mesos-cgroup-prefix", OWN_CGROUPS),
    ("node-monitor-period", "nodes are watched"),
];
const LEFT_ALONE: &str = "the proxy leaves the kernel's connection tracking as it is";
const OWN_CGROUPS: &str = "every container has a cgroup of its own, within its pod's";

/// Which of [`RETIRED`] were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetiredFlags(Vec<usize>);

impl RetiredFlags {
    /// The given ones with their reasons.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.0.iter().filter_map(|index| RETIRED.get(*index).copied())
    }
}

impl Args for RetiredFlags {
    fn augment_args(command: Command) -> Command {
        RETIRED.into_iter().fold(command, |command, (flag, _)| {
            command.arg(Arg::new(flag).long(flag).num_args(0..=1).default_missing_value("true").hide(true))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RetiredFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = RETIRED.iter().enumerate().filter(|(_, (flag, _))| matches.contains_id(flag));
        Ok(Self(given.map(|(index, _)| index).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
