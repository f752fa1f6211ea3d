//! The environment of an executor: what its command sets, and over that what it needs to find its agent.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_proto::v1;

use super::{Agent, executor::Executor, framework::Framework};

/// The most an executor should wait between two attempts to subscribe again.
const SUBSCRIPTION_BACKOFF_MAX: Duration = Duration::from_secs(2);

impl Agent {
    pub(super) fn executor_environment(
        &self,
        framework: &Framework,
        executor: &Executor,
        command: &v1::CommandInfo,
        sandbox: &str,
    ) -> Vec<(String, String)> {
        let mut environment = BTreeMap::new();
        for variable in command.environment.iter().flat_map(|environment| &environment.variables) {
            environment.insert(variable.name.clone(), variable.value.clone().unwrap_or_default());
        }
        let mut set = |name: &str, value: String| environment.insert(name.to_owned(), value);
        let endpoint = format!("{}:{}", self.config.ip, self.info.port());
        set("MESOS_FRAMEWORK_ID", framework.id().value);
        set("MESOS_EXECUTOR_ID", executor.info.executor_id.value.clone());
        set("MESOS_DIRECTORY", sandbox.to_owned());
        set("MESOS_SANDBOX", sandbox.to_owned());
        set("MESOS_SLAVE_ID", self.agent_id().value);
        set("MESOS_SLAVE_PID", format!("slave(1)@{endpoint}"));
        set("MESOS_AGENT_ENDPOINT", endpoint);
        set("MESOS_CHECKPOINT", if framework.checkpoint() { "1" } else { "0" }.to_owned());
        if framework.checkpoint() {
            set("MESOS_RECOVERY_TIMEOUT", duration_text(self.config.recovery_timeout));
            set("MESOS_SUBSCRIPTION_BACKOFF_MAX", duration_text(SUBSCRIPTION_BACKOFF_MAX));
        }
        let grace = executor.shutdown_grace(self.config.executor_shutdown_grace_period);
        set("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", duration_text(grace));
        set("MESOS_HTTP_COMMAND_EXECUTOR", "0".to_owned());
        set("MESOS_CONTAINER_IP", self.config.ip.clone());
        set("LIBPROCESS_IP", self.config.ip.clone());
        set("LIBPROCESS_PORT", "0".to_owned());
        environment.into_iter().collect()
    }
}

/// A duration as Mesos writes it: a whole number of the largest unit that allows it, e.g. `15mins`, `90secs`.
pub fn duration_text(duration: Duration) -> String {
    const UNITS: [(&str, u128); 8] = [
        ("weeks", 604_800_000_000_000),
        ("days", 86_400_000_000_000),
        ("hrs", 3_600_000_000_000),
        ("mins", 60_000_000_000),
        ("secs", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let nanoseconds = duration.as_nanos();
    if nanoseconds == 0 {
        return "0ns".to_owned();
    }
    let fitting = UNITS.into_iter().find(|(_, length)| nanoseconds.is_multiple_of(*length));
    let (unit, length) = fitting.unwrap_or(("ns", 1));
    format!("{}{unit}", nanoseconds / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_of_the_largest_unit() {
        for (seconds, text) in [(5, "5secs"), (90, "90secs"), (900, "15mins"), (3600, "1hrs"), (86_400, "1days")] {
            assert_eq!(duration_text(Duration::from_secs(seconds)), text);
        }
        assert_eq!(duration_text(Duration::from_millis(1500)), "1500ms");
        assert_eq!(duration_text(Duration::ZERO), "0ns");
    }
}
