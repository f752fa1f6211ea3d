//! What follows from the flags.

use std::{sync::Arc, time::Duration};

use km_kube::pod::DefaultLimits;
use km_mesos_proto::v1;
use km_placement::{Policy, Strategy};
use km_podtask::{
    NamesError, PortStrategy, ResourceNames, limits::Accounting, memory_from_mesos, static_pods, thousandths,
};
use thiserror::Error;

use super::{Flags, Tuning};
use crate::core::{Config, DefaultSpread};

/// A flag whose value can't be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("--{flag}: {reason}")]
pub struct FlagsError {
    pub flag: &'static str,
    pub reason: String,
}

/// Reconciliations come no closer than this, whatever the flag says.
const LEAST_COOLDOWN: Duration = Duration::from_secs(15);

impl Flags {
    /// Reads the configuration file, checks everything, and warns of what has no effect.
    ///
    /// # Errors
    /// Names the flag, or the file and its line. Then nothing of the file is taken over.
    pub fn resolve(self) -> Result<Self, FlagsError> {
        for (flag, reason) in self.retired.given() {
            tracing::warn!(flag, reason, "this flag has no effect");
        }
        self.read()
    }

    /// The same without the warnings that were given before.
    pub(crate) fn read(mut self) -> Result<Self, FlagsError> {
        self.check_alone()?;
        if let Some(path) = self.scheduler_config.clone() {
            let in_file = |reason| FlagsError { flag: "scheduler-config", reason };
            let tuning = Tuning::load(&path).map_err(in_file)?;
            let shown = path.display();
            self.overlay(&tuning).map_err(|reason| in_file(format!("{shown}, {reason}")))?;
            self.check_framework().map_err(|error| match tuning.framework.get(error.flag) {
                Some(line) => in_file(format!("{shown}, line {}: {}: {}", line.number, error.flag, error.reason)),
                None => error,
            })?;
            self.tuning = tuning;
        }
        self.check_framework()?;
        if self.reconcile_cooldown < LEAST_COOLDOWN {
            tracing::warn!("--reconcile-cooldown is less than 15s: 15s is taken");
            self.reconcile_cooldown = LEAST_COOLDOWN;
        }
        Ok(self)
    }

    /// Checks what the command line's grammar can't.
    pub fn check(&self) -> Result<(), FlagsError> {
        self.check_alone()?;
        self.check_framework()
    }

    /// Checks what the configuration file has no say in.
    fn check_alone(&self) -> Result<(), FlagsError> {
        let bad = |flag, reason: String| Err(FlagsError { flag, reason });
        if self.kubeconfig.is_none() && self.api_servers.is_empty() {
            return bad("kubeconfig", "must name the API server's kubeconfig file (or give --api-servers)".to_owned());
        }
        for (flag, urls) in [("api-servers", &self.api_servers), ("kubelet-api-servers", &self.kubelet_api_servers)] {
            if let Some(url) = urls.iter().find(|url| !url.starts_with("http://") && !url.starts_with("https://")) {
                return bad(flag, format!("must be a URL like https://10.0.0.1:6443, not {url:?}"));
            }
        }
        if self.framework_name.trim().is_empty() {
            return bad("framework-name", "must not be blank".to_owned());
        }
        self.check_master()?;
        if let Err(error) = self.resource_names() {
            return bad("mesos-resource-names", error.to_string());
        }
        if let Err(error) = DefaultSpread::parse(&self.default_topology_spread) {
            return bad("default-topology-spread", error.to_string());
        }
        for (flag, amount) in [
            ("mesos-executor-cpus", self.mesos_executor_cpus),
            ("mesos-executor-mem", self.mesos_executor_mem),
            ("default-container-cpu-limit", self.default_container_cpu_limit),
            ("default-container-mem-limit", self.default_container_mem_limit),
        ] {
            if !amount.is_finite() || amount < 0.0 {
                return bad(flag, format!("must be a number of at least 0, not {amount}"));
            }
        }
        if !self.advertised_address.is_empty() && !self.advertised_address.contains(':') {
            return bad("advertised-address", "must be host:port".to_owned());
        }
        let absolute = |path: &Option<std::path::PathBuf>| path.as_ref().is_none_or(|path| path.is_absolute());
        if !absolute(&self.agent_km_path) {
            return bad("agent-km-path", "must be an absolute path on the agents".to_owned());
        }
        if !absolute(&self.agent_kubeconfig) {
            return bad("agent-kubeconfig", "must be an absolute path on the agents".to_owned());
        }
        self.election.check()
    }

    /// Checks what the framework is to be.
    fn check_framework(&self) -> Result<(), FlagsError> {
        let bad = |flag, reason: String| Err(FlagsError { flag, reason });
        if self.mesos_framework_roles.is_empty() || self.mesos_framework_roles.iter().any(|role| role.trim().is_empty())
        {
            return bad("mesos-framework-roles", "must not hold an empty role".to_owned());
        }
        let unknown = |role: &&String| !self.mesos_framework_roles.contains(role);
        if let Some(role) = self.mesos_default_pod_roles.iter().find(unknown) {
            let known = self.mesos_framework_roles.join(", ");
            return bad("mesos-default-pod-roles", format!("{role} is none of --mesos-framework-roles ({known})"));
        }
        if !self.failover_timeout.is_finite() || self.failover_timeout < 0.0 {
            return bad("failover-timeout", format!("must be a number of at least 0, not {}", self.failover_timeout));
        }
        self.framework().map(drop)
    }

    fn resource_names(&self) -> Result<ResourceNames, NamesError> {
        ResourceNames::parse(self.mesos_resource_names.iter().map(String::as_str))
    }

    /// The core's settings. `executor` is the prototype with its id.
    pub fn config(&self, executor: v1::ExecutorInfo) -> Config {
        let (accounting, default_limits) = self.counting();
        // Its static pods were counted when they were read: what they hold is known then.
        let mut static_pods = static_pods::unpack(executor.data()).unwrap_or_default();
        let extra = static_pods::settle(&mut static_pods, accounting, &default_limits);
        // The command line takes known names only.
        let strategy = Strategy::parse(&self.placement).unwrap_or_default();
        Config {
            // So were frameworks that can't be.
            framework: self.framework().map(Arc::new).unwrap_or_default(),
            executor,
            // Wrong pairs were refused by the check, too.
            resource_names: self.resource_names().unwrap_or_default(),
            executor_milli_cpu: thousandths(self.mesos_executor_cpus) + extra.milli_cpu,
            executor_memory_bytes: memory_from_mesos(thousandths(self.mesos_executor_mem)) + extra.memory_bytes,
            accounting,
            default_limits,
            default_spread: DefaultSpread::parse(&self.default_topology_spread).unwrap_or(DefaultSpread::Auto),
            port_strategy: if self.host_port_endpoints { PortStrategy::Wildcard } else { PortStrategy::Fixed },
            discovery: self.mesos_generate_task_discovery,
            policy: Policy { strategy, ..Policy::default() },
            offer_ttl: self.offer_ttl.unwrap_or(self.tuning.offer_ttl),
            offer_linger: self.tuning.offer_linger_ttl,
            backoff: (self.tuning.initial_pod_backoff, self.tuning.max_pod_backoff),
            refuse: self.offer_refuse_duration,
            node_grace: self.node_grace_period,
            unknown_grace: self.agent_reregister_grace,
            reconcile_interval: Duration::from_secs(self.reconcile_interval),
            reconcile_cooldown: self.reconcile_cooldown,
            second_implicit: self.tuning.initial_implicit_reconciliation_delay,
            explicit_backoff: self.tuning.explicit_reconciliation_max_backoff,
            maintenance_lead: self.maintenance_lead,
            taint_gpu_agents: self.taint_gpu_agents,
            ..Config::default()
        }
    }

    /// Which numbers of pods count, and what those do that name none.
    pub(crate) fn counting(&self) -> (Accounting, DefaultLimits) {
        let limits = self.pod_accounting == "limits";
        let accounting = if limits { Accounting::Limits } else { Accounting::Requests };
        let default_limits = DefaultLimits {
            milli_cpu: thousandths(self.default_container_cpu_limit),
            memory_bytes: memory_from_mesos(thousandths(self.default_container_mem_limit)),
            ..DefaultLimits::default()
        };
        (accounting, default_limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_flags_are_named() {
        let good = Flags { kubeconfig: Some("/k".into()), ..Flags::default() };
        assert_eq!(good.check(), Ok(()));
        let table: [(&str, Flags); 11] = [
            ("kubeconfig", Flags::default()),
            ("api-servers", Flags { api_servers: vec!["10.0.0.1:6443".into()], ..good.clone() }),
            ("kubelet-api-servers", Flags { kubelet_api_servers: vec!["x".into()], ..good.clone() }),
            ("scheduler-config", Flags { scheduler_config: Some("/does/not/exist".into()), ..good.clone() }),
            ("framework-name", Flags { framework_name: " ".into(), ..good.clone() }),
            ("mesos-default-pod-roles", Flags { mesos_default_pod_roles: vec!["x".into()], ..good.clone() }),
            ("mesos-resource-names", Flags { mesos_resource_names: vec!["mem=a.b/c".into()], ..good.clone() }),
            ("default-topology-spread", Flags { default_topology_spread: "zone".into(), ..good.clone() }),
            ("mesos-executor-mem", Flags { mesos_executor_mem: -1.0, ..good.clone() }),
            ("advertised-address", Flags { advertised_address: "host".into(), ..good.clone() }),
            ("agent-km-path", Flags { agent_km_path: Some("km".into()), ..good.clone() }),
        ];
        for (flag, flags) in table {
            assert_eq!(flags.resolve().map(drop).map_err(|error| error.flag), Err(flag));
        }
    }

    /// In binary, 1.001 · 1000 and the like are a little less than whole.
    #[test]
    fn amounts_keep_their_thousandths() {
        for thousandth in 1..5000_i64 {
            let amount = thousandth as f64 / 1000.0;
            let flags =
                Flags { default_container_cpu_limit: amount, default_container_mem_limit: amount, ..Flags::default() };
            let limits = flags.counting().1;
            assert_eq!(limits.milli_cpu, thousandth);
            assert_eq!(limits.memory_bytes, thousandth * 1024 * 1024 / 1000, "{amount} MB");
        }
    }

    #[test]
    fn every_setting_of_the_file_is_used_and_flags_win() {
        let seconds = Duration::from_secs;
        let tuning = Tuning {
            offer_ttl: seconds(1),
            offer_linger_ttl: seconds(2),
            initial_pod_backoff: seconds(3),
            max_pod_backoff: seconds(4),
            initial_implicit_reconciliation_delay: seconds(5),
            explicit_reconciliation_max_backoff: seconds(6),
            ..Tuning::default()
        };
        let flags = Flags { tuning, ..Flags::default() };
        let config = flags.config(v1::ExecutorInfo::default());
        assert_eq!((config.offer_ttl, config.offer_linger), (seconds(1), seconds(2)));
        assert_eq!(config.backoff, (seconds(3), seconds(4)));
        assert_eq!((config.second_implicit, config.explicit_backoff), (seconds(5), seconds(6)));
        let flags = Flags { offer_ttl: Some(seconds(9)), ..flags };
        assert_eq!(flags.config(v1::ExecutorInfo::default()).offer_ttl, seconds(9));
    }

    #[test]
    fn reconciliations_are_kept_apart() {
        for (given, taken) in [(1, 15), (15, 15), (60, 60)] {
            let cooldown = Duration::from_secs(given);
            let flags = Flags { kubeconfig: Some("/k".into()), reconcile_cooldown: cooldown, ..Flags::default() };
            let taken = Ok(Duration::from_secs(taken));
            assert_eq!(flags.resolve().map(|flags| flags.reconcile_cooldown), taken);
        }
    }
}
