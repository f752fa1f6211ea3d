//! What an agent tells an executor in its environment.

use std::{collections::HashMap, fmt, path::PathBuf, time::Duration};

use km_mesos_proto::v1;

use crate::{Authority, duration};

/// Agents listen there unless told otherwise.
const DEFAULT_AGENT_PORT: u16 = 5051;
/// Defaults of the agent's own flags.
const DEFAULT_RECOVERY_TIMEOUT: Duration = Duration::from_secs(15 * 60);
const DEFAULT_SUBSCRIPTION_BACKOFF_MAX: Duration = Duration::from_secs(2);
const DEFAULT_SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The `MESOS_…` variables.
#[derive(Clone, PartialEq)]
pub struct Environment {
    /// `MESOS_FRAMEWORK_ID`.
    pub framework_id: v1::FrameworkId,
    /// `MESOS_EXECUTOR_ID`.
    pub executor_id: v1::ExecutorId,
    /// `MESOS_AGENT_ENDPOINT`: where the agent listens.
    pub agent: Authority,
    /// `MESOS_SLAVE_ID`.
    pub agent_id: Option<v1::AgentId>,
    /// `MESOS_DIRECTORY`: the sandbox on the host.
    pub directory: Option<PathBuf>,
    /// `MESOS_SANDBOX`: the sandbox as seen in the container.
    pub sandbox: Option<PathBuf>,
    /// `MESOS_CHECKPOINT`: does the agent want executors to outlive it?
    pub checkpoint: bool,
    /// `MESOS_RECOVERY_TIMEOUT`: how long to try to come back to an agent that is away.
    pub recovery_timeout: Duration,
    /// `MESOS_SUBSCRIPTION_BACKOFF_MAX`: the longest wait between attempts.
    pub subscription_backoff_max: Duration,
    /// `MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD`: how long a shutdown may take.
    pub shutdown_grace_period: Duration,
    /// `MESOS_EXECUTOR_AUTHENTICATION_TOKEN`: who has it may speak for the executor.
    pub token: Option<String>,
}

/// Why an environment is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// A variable that must be there isn't.
    #[error("{0} is not set; an executor is started by a Mesos agent, which sets it")]
    Missing(&'static str),
    /// A variable is malformed.
    #[error("{name}: {reason}")]
    Malformed {
        /// The variable.
        name: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

/// What to do when the connection to the agent is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDisconnect {
    /// Stop all tasks and exit: the agent doesn't want us back.
    Exit,
    /// Keep the tasks running and try to subscribe again for this long, then exit.
    ResubscribeFor(Duration),
}

impl Environment {
    /// Reads the variables. Unset, and empty, ones take the agent's defaults where there are any.
    ///
    /// # Errors
    /// Names the variable that is missing or malformed.
    pub fn parse(variables: &HashMap<String, String>) -> Result<Self, EnvironmentError> {
        let get = |name: &str| variables.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let need = |name| get(name).ok_or(EnvironmentError::Missing(name));
        let malformed = |name, reason: String| EnvironmentError::Malformed { name, reason };
        let duration = |name, default| {
            get(name).map_or(Ok(default), |text| duration::parse(text).map_err(|reason| malformed(name, reason)))
        };
        let agent = Authority::parse(need("MESOS_AGENT_ENDPOINT")?, DEFAULT_AGENT_PORT)
            .map_err(|error| malformed("MESOS_AGENT_ENDPOINT", error.to_string()))?;
        Ok(Self {
            framework_id: need("MESOS_FRAMEWORK_ID")?.into(),
            executor_id: need("MESOS_EXECUTOR_ID")?.into(),
            agent,
            agent_id: get("MESOS_SLAVE_ID").map(Into::into),
            directory: get("MESOS_DIRECTORY").map(Into::into),
            sandbox: get("MESOS_SANDBOX").map(Into::into),
            checkpoint: get("MESOS_CHECKPOINT") == Some("1"),
            recovery_timeout: duration("MESOS_RECOVERY_TIMEOUT", DEFAULT_RECOVERY_TIMEOUT)?,
            subscription_backoff_max: duration("MESOS_SUBSCRIPTION_BACKOFF_MAX", DEFAULT_SUBSCRIPTION_BACKOFF_MAX)?,
            shutdown_grace_period: duration("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", DEFAULT_SHUTDOWN_GRACE_PERIOD)?,
            token: get("MESOS_EXECUTOR_AUTHENTICATION_TOKEN").map(str::to_owned),
        })
    }

    /// What an executor has to do when it loses its agent.
    pub fn on_disconnect(&self) -> OnDisconnect {
        match self.checkpoint {
            true => OnDisconnect::ResubscribeFor(self.recovery_timeout),
            false => OnDisconnect::Exit,
        }
    }
}

impl fmt::Debug for Environment {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("framework_id", &self.framework_id.value)
            .field("executor_id", &self.executor_id.value)
            .field("agent", &self.agent)
            .field("checkpoint", &self.checkpoint)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(changes: &[(&str, &str)]) -> HashMap<String, String> {
        let basic =
            [("MESOS_FRAMEWORK_ID", "f"), ("MESOS_EXECUTOR_ID", "e"), ("MESOS_AGENT_ENDPOINT", "127.0.0.1:5051")];
        let all = basic.iter().chain(changes);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn everything_is_read() {
        let environment = Environment::parse(&variables(&[
            ("MESOS_CHECKPOINT", "1"),
            ("MESOS_RECOVERY_TIMEOUT", "10mins"),
            ("MESOS_SUBSCRIPTION_BACKOFF_MAX", "3secs"),
            ("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", "7secs"),
            ("MESOS_SLAVE_ID", "s1"),
            ("MESOS_SANDBOX", "/sandbox"),
            ("MESOS_EXECUTOR_AUTHENTICATION_TOKEN", "secret"),
        ]));
        let environment = environment.unwrap();
        assert_eq!(environment.agent.to_string(), "127.0.0.1:5051");
        assert_eq!(environment.agent_id, Some("s1".into()));
        assert_eq!(environment.on_disconnect(), OnDisconnect::ResubscribeFor(Duration::from_secs(600)));
        assert_eq!(environment.subscription_backoff_max, Duration::from_secs(3));
        assert_eq!(environment.shutdown_grace_period, Duration::from_secs(7));
        assert_eq!(environment.token.as_deref(), Some("secret"));
        assert!(!format!("{environment:?}").contains("secret"));
    }

    #[test]
    fn only_a_one_is_a_checkpoint() {
        for (value, on_disconnect) in [
            ("0", OnDisconnect::Exit),
            ("", OnDisconnect::Exit),
            ("1", OnDisconnect::ResubscribeFor(DEFAULT_RECOVERY_TIMEOUT)),
        ] {
            let environment = Environment::parse(&variables(&[("MESOS_CHECKPOINT", value)])).unwrap();
            assert_eq!(environment.on_disconnect(), on_disconnect, "{value}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("MESOS_FRAMEWORK_ID", "", "MESOS_FRAMEWORK_ID is not set"),
            ("MESOS_AGENT_ENDPOINT", "", "MESOS_AGENT_ENDPOINT is not set"),
            ("MESOS_AGENT_ENDPOINT", "host:x", "MESOS_AGENT_ENDPOINT: 'host:x' has no valid port"),
            ("MESOS_RECOVERY_TIMEOUT", "soon", "MESOS_RECOVERY_TIMEOUT: 'soon' has an unknown unit"),
        ];
        for (name, value, reason) in cases {
            let error = Environment::parse(&variables(&[(name, value)])).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
