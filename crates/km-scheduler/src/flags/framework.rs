//! How the framework presents itself, by the flags, and by those settings of the configuration file that say the same:
//! they may change while the scheduler runs.

use std::str::FromStr;

use clap::{ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};
use km_mesos_proto::v1::{self, framework_info::capability::Type as Capability};
use km_podtask::roles;

use super::{Flags, FlagsError, Tuning};
use crate::core::Framework;

/// Flags that the configuration file may set, too. Where both do, the flag wins.
pub(crate) const CHANGEABLE: [&str; 8] = [
    "framework-weburi",
    "failover-timeout",
    "hostname-override",
    "mesos-default-pod-roles",
    "mesos-framework-roles",
    "mesos-gpus",
    "mesos-min-allocatable-resources",
    "mesos-offer-constraints",
];

/// Which of [`CHANGEABLE`] stand on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenFlags(Vec<&'static str>);

impl GivenFlags {
    pub(crate) fn contains(&self, flag: &str) -> bool {
        self.0.contains(&flag)
    }
}

impl Args for GivenFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for GivenFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |flag: &&str| matches.value_source(&flag.replace('-', "_")) == Some(ValueSource::CommandLine);
        Ok(Self(CHANGEABLE.into_iter().filter(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Flags {
    /// Sets what the configuration file says and the command line doesn't.
    ///
    /// # Errors
    /// Names the line.
    pub(super) fn overlay(&mut self, tuning: &Tuning) -> Result<(), String> {
        for (flag, line) in &tuning.framework {
            if !self.given.contains(flag) {
                let wrong = |reason: String| format!("line {}: {flag}: {reason}", line.number);
                self.set(flag, &line.value).map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// Sets one of [`CHANGEABLE`].
    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let list = || roles::distinct(value.split(','), |_| true);
        match flag {
            "framework-weburi" => self.framework_weburi = value.to_owned(),
            "failover-timeout" => self.failover_timeout = parsed(value, "a number of seconds")?,
            "hostname-override" => self.hostname_override = value.to_owned(),
            "mesos-default-pod-roles" => self.mesos_default_pod_roles = list(),
            "mesos-framework-roles" => self.mesos_framework_roles = list(),
            "mesos-gpus" => self.mesos_gpus = parsed(value, "true or false")?,
            "mesos-min-allocatable-resources" => self.mesos_min_allocatable_resources = value.to_owned(),
            "mesos-offer-constraints" => self.mesos_offer_constraints = value.to_owned(),
            _ => return Err("the framework has no such flag".to_owned()),
        }
        Ok(())
    }

    /// The roles to subscribe in.
    pub(super) fn subscribed_roles(&self) -> Vec<String> {
        crate::core::subscribed_roles(&self.mesos_framework_roles)
    }

    /// How the framework presents itself, without its id.
    ///
    /// # Errors
    /// What offers must hold or come from is malformed.
    pub fn framework(&self) -> Result<Framework, FlagsError> {
        let mut capabilities = vec![
            Capability::MultiRole,
            Capability::PartitionAware,
            Capability::TaskKillingState,
            Capability::ReservationRefinement,
        ];
        // Without it no offers come from agents with GPUs.
        capabilities.extend(self.mesos_gpus.then_some(Capability::GpuResources));
        let text = |text: &String| (!text.is_empty()).then(|| text.clone());
        let info = v1::FrameworkInfo {
            user: self.user(),
            hostname: text(&self.hostname_override),
            name: self.framework_name.clone(),
            failover_timeout: Some(self.failover_timeout),
            checkpoint: Some(self.checkpoint),
            principal: text(&self.mesos_authentication_principal),
            webui_url: text(&self.framework_weburi),
            capabilities: capabilities
                .into_iter()
                .map(|capability| v1::framework_info::Capability { r#type: Some(capability as i32) })
                .collect(),
            roles: self.subscribed_roles(),
            offer_filters: self.offer_filters()?,
            ..v1::FrameworkInfo::default()
        };
        Ok(Framework {
            info,
            constraints: self.offer_constraints()?,
            roles: self.mesos_framework_roles.clone(),
            default_pod_roles: self.mesos_default_pod_roles.clone(),
        })
    }

    /// The user that executors run as.
    pub(crate) fn user(&self) -> String {
        if !self.mesos_user.is_empty() {
            return self.mesos_user.clone();
        }
        let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
        own.map_or_else(|| "root".to_owned(), |user| user.name)
    }
}

fn parsed<T: FromStr>(value: &str, wanted: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("expected {wanted}, got {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> Flags {
        let command = Flags::augment_args(Command::new("scheduler"));
        let matches = command.try_get_matches_from([&["scheduler"], words].concat()).expect("they are known");
        Flags::from_arg_matches(&matches).expect("they are lawful")
    }

    fn overlaid(words: &[&str], file: &str) -> Result<Flags, String> {
        let mut flags = flags(words);
        let tuning = Tuning::parse(&format!("[scheduler]\n{file}")).map_err(|error| error.to_string())?;
        flags.overlay(&tuning)?;
        Ok(flags)
    }

    #[test]
    fn every_changeable_flag_may_be_set_by_the_file_and_wins_on_the_command_line() {
        let table = [
            ("framework-weburi", "http://a", "http://b"),
            ("failover-timeout", "60", "61"),
            ("hostname-override", "a", "b"),
            ("mesos-default-pod-roles", "a,b", "b"),
            ("mesos-framework-roles", "a,*", "b"),
            ("mesos-gpus", "true", "false"),
            ("mesos-min-allocatable-resources", "cpus:1;mem:64|cpus:2", "mem:1"),
            ("mesos-offer-constraints", r##"[["rack;#","LIKE","r;1"]]"##, r#"[["rack","IS","a"]]"#),
        ];
        assert_eq!(table.map(|row| row.0), CHANGEABLE);
        for (flag, in_file, on_line) in table {
            let file = format!("{flag} = {in_file} ; as of today");
            let given = |value: &str| format!("--{flag}={value}");
            let seen = |flags: Flags| format!("{:?}", Flags { given: GivenFlags::default(), ..flags });
            let from_file = seen(overlaid(&[], &file).expect(flag));
            assert_eq!(from_file, seen(flags(&[&given(in_file)])), "{flag} is set by the file");
            let both = seen(overlaid(&[&given(on_line)], &file).expect(flag));
            assert_eq!(both, seen(flags(&[&given(on_line)])), "--{flag} wins");
        }
    }

    #[test]
    fn a_value_that_cannot_be_is_told_with_its_line() {
        for (file, reason) in [
            ("\nfailover-timeout = soon", "line 3: failover-timeout: expected a number of seconds, got \"soon\""),
            ("mesos-gpus = some", "line 2: mesos-gpus: expected true or false, got \"some\""),
        ] {
            assert_eq!(overlaid(&[], file).map(drop), Err(reason.to_owned()));
        }
    }

    #[test]
    fn the_framework_keeps_its_tasks_for_a_very_long_time() {
        let framework = Flags::default().framework().expect("defaults are lawful").info;
        assert!(framework.failover_timeout > Some(4.6e9) && framework.checkpoint == Some(true));
        assert_eq!(framework.roles, ["*"]);
    }

    #[test]
    fn agents_with_gpus_are_asked_for_by_flag() {
        for mesos_gpus in [true, false] {
            let framework = Flags { mesos_gpus, ..Flags::default() }.framework().expect("it is lawful").info;
            let gpus = Some(Capability::GpuResources as i32);
            assert_eq!(framework.capabilities.iter().any(|one| one.r#type == gpus), mesos_gpus);
            assert_eq!(framework.capabilities.len(), 4 + usize::from(mesos_gpus));
        }
    }

    #[test]
    fn unreserved_resources_are_taken_in_the_name_of_a_role_if_there_is_one() {
        let cases: [(&[&str], &[&str]); 3] =
            [(&["*"], &["*"]), (&["*", "prod"], &["prod"]), (&["prod", "*", "test"], &["prod", "test"])];
        for (given, subscribed) in cases {
            let roles = given.iter().map(|role| (*role).to_owned()).collect();
            let flags = Flags { mesos_framework_roles: roles, ..Flags::default() };
            assert_eq!(
                flags.framework().map(|framework| framework.info.roles),
                Ok(subscribed.iter().map(|role| (*role).to_owned()).collect())
            );
        }
    }
}
