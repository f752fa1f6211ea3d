//! Flags of the leader election, named as those of Kubernetes' own scheduler.

use std::time::Duration;

use clap::{ArgAction, Args};

use super::{duration::parse_duration, settings::FlagsError};
use crate::election::Timing;

/// Whether and how several schedulers choose one of them.
#[derive(Args, Clone, Debug)]
pub struct ElectionFlags {
    /// Lead only while holding a Lease, so that further schedulers can stand by.
    #[arg(
        long, alias = "ha", default_value_t = false, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub leader_elect: bool,
    /// How long a Lease that is not renewed keeps other schedulers off, in whole seconds.
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    pub leader_elect_lease_duration: Duration,
    /// How long a leader goes on without renewing its Lease. Less than the lease duration.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub leader_elect_renew_deadline: Duration,
    /// Pause between two looks at the Lease. Less than the renew deadline.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    pub leader_elect_retry_period: Duration,
    /// Name of the Lease.
    #[arg(long, default_value = "k8sm-scheduler")]
    pub leader_elect_resource_name: String,
    /// Namespace of the Lease.
    #[arg(long, default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
}

impl ElectionFlags {
    pub(super) fn check(&self) -> Result<(), FlagsError> {
        let bad = |flag, reason: &str| Err(FlagsError { flag, reason: reason.to_owned() });
        let Timing { lease, renew, retry } = self.timing();
        if lease.subsec_nanos() != 0 || lease.is_zero() {
            return bad("leader-elect-lease-duration", "must be a whole number of seconds, at least 1s");
        }
        if renew >= lease {
            return bad("leader-elect-renew-deadline", "must be less than --leader-elect-lease-duration");
        }
        if retry.is_zero() || retry >= renew {
            return bad(
                "leader-elect-retry-period",
                "must be more than 0s and less than --leader-elect-renew-deadline",
            );
        }
        for (flag, value) in [
            ("leader-elect-resource-name", &self.leader_elect_resource_name),
            ("leader-elect-resource-namespace", &self.leader_elect_resource_namespace),
        ] {
            if km_kube::names::dns1123_subdomain(value).is_err() {
                return bad(flag, "must be a DNS name in lower case, like k8sm-scheduler");
            }
        }
        Ok(())
    }

    /// The times of the election.
    pub(crate) fn timing(&self) -> Timing {
        Timing {
            lease: self.leader_elect_lease_duration,
            renew: self.leader_elect_renew_deadline,
            retry: self.leader_elect_retry_period,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ElectionFlags,
    }

    fn parse(words: &[&str]) -> ElectionFlags {
        Line::parse_from(std::iter::once(&"scheduler").chain(words)).flags
    }

    #[test]
    fn the_defaults_are_those_of_kubernetes_but_nobody_is_elected_unless_asked_for() {
        let flags = parse(&[]);
        assert!(!flags.leader_elect);
        assert_eq!(flags.timing(), Timing::default());
        assert_eq!(flags.check(), Ok(()));
        for words in [["--leader-elect"], ["--leader-elect=true"], ["--ha"]] {
            assert!(parse(&words).leader_elect, "{words:?}");
        }
    }

    #[test]
    fn times_and_names_that_cannot_work_are_named() {
        let table = [
            (vec!["--leader-elect-lease-duration=1500ms"], "leader-elect-lease-duration"),
            (vec!["--leader-elect-lease-duration=0s"], "leader-elect-lease-duration"),
            (vec!["--leader-elect-renew-deadline=15s"], "leader-elect-renew-deadline"),
            (vec!["--leader-elect-retry-period=10s"], "leader-elect-retry-period"),
            (vec!["--leader-elect-retry-period=0s"], "leader-elect-retry-period"),
            (vec!["--leader-elect-resource-name=No"], "leader-elect-resource-name"),
            (vec!["--leader-elect-resource-namespace="], "leader-elect-resource-namespace"),
        ];
        for (words, flag) in table {
            assert_eq!(parse(&words).check().map_err(|error| error.flag), Err(flag), "{words:?}");
        }
    }
}
