//! The agent's flags, with the names and defaults of Apache Mesos.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use km_mesos_core::agent::Reconfiguration;

/// Flags of `km mesos-agent`.
#[derive(clap::Args, Clone, Debug)]
pub struct Flags {
    /// The master's address, host:port.
    #[arg(long, default_value = "127.0.0.1:5050")]
    pub master: String,
    /// Address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub ip: IpAddr,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 5051)]
    pub port: u16,
    /// Name the agent is known by; default: the machine's host name.
    #[arg(long)]
    pub hostname: Option<String>,
    /// What the agent offers, e.g. `cpus:4;mem:4096;ports:[31000-32000]`. What is not named is detected: cpus, mem and
    /// disk (in MB) of the machine, ports [31000-32000].
    #[arg(long)]
    pub resources: Option<String>,
    /// Attributes of the agent, e.g. `rack:r1;zone:a`.
    #[arg(long)]
    pub attributes: Option<String>,
    /// Where sandboxes and checkpoints go.
    #[arg(long)]
    pub work_dir: PathBuf,
    /// How long an executor may take to register, fetching included.
    #[arg(long, default_value = "1mins", value_parser = parse_duration)]
    pub executor_registration_timeout: Duration,
    /// How long a restarted agent waits for its executors to register again; at most 15secs.
    #[arg(long, default_value = "2secs", value_parser = parse_reregistration_timeout)]
    pub executor_reregistration_timeout: Duration,
    /// How long an executor may take to shut down before it is killed.
    #[arg(long, default_value = "5secs", value_parser = parse_duration)]
    pub executor_shutdown_grace_period: Duration,
    /// What may change between two starts on the same work directory: nothing (`equal`), resources and attributes may be
    /// added (`additive`), or everything (`any`, which Apache Mesos does not have).
    #[arg(long, default_value = "equal", value_parser = parse_policy)]
    pub reconfiguration_policy: Reconfiguration,
    /// How long executors wait for a restarted agent before they end themselves.
    #[arg(long, default_value = "15mins", value_parser = parse_duration)]
    pub recovery_timeout: Duration,
    /// Failed registrations back off by a random time up to this, doubled each time.
    #[arg(long, default_value = "1secs", value_parser = parse_duration)]
    pub registration_backoff_factor: Duration,
    /// Where fetched files with `cache: true` are kept; default: `fetch` in work_dir.
    #[arg(long)]
    pub fetcher_cache_dir: Option<PathBuf>,
}

impl Flags {
    /// The flags of a command line that names no more than the work directory.
    pub fn new(work_dir: PathBuf) -> Self {
        Self {
            master: "127.0.0.1:5050".to_owned(),
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 5051,
            hostname: None,
            resources: None,
            attributes: None,
            work_dir,
            executor_registration_timeout: Duration::from_secs(60),
            executor_reregistration_timeout: Duration::from_secs(2),
            executor_shutdown_grace_period: Duration::from_secs(5),
            reconfiguration_policy: Reconfiguration::Equal,
            recovery_timeout: Duration::from_secs(15 * 60),
            registration_backoff_factor: Duration::from_secs(1),
            fetcher_cache_dir: None,
        }
    }

    /// The address told to executors: they are on this machine, so any wildcard becomes loopback.
    pub(super) fn advertised_ip(&self) -> IpAddr {
        if self.ip.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { self.ip }
    }
}

/// Reads a Mesos duration: a number and its unit, e.g. `5secs`, `1.5mins`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("ms", 1e-3),
        ("secs", 1.0),
        ("mins", 60.0),
        ("hrs", 3600.0),
        ("days", 86_400.0),
        ("weeks", 604_800.0),
    ];
    let wrong = || format!("expected a number and one of ns, us, ms, secs, mins, hrs, days, weeks, got {text:?}");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

fn parse_policy(text: &str) -> Result<Reconfiguration, String> {
    match text {
        "equal" => Ok(Reconfiguration::Equal),
        "additive" => Ok(Reconfiguration::Additive),
        "any" => Ok(Reconfiguration::Any),
        _ => Err(format!("expected equal, additive or any, got {text:?}")),
    }
}

fn parse_reregistration_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text)?;
    if timeout > Duration::from_secs(15) { Err("must be at most 15secs".to_owned()) } else { Ok(timeout) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_is_what_an_empty_command_line_gives() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            flags: Flags,
        }
        let command = <Command as clap::Parser>::try_parse_from(["agent", "--work-dir=/w"]);
        let flags = command.unwrap_or_else(|error| panic!("{error}")).flags;
        assert_eq!(format!("{flags:?}"), format!("{:?}", Flags::new("/w".into())));
    }

    #[test]
    fn durations_are_read_as_mesos_writes_them() {
        assert_eq!(parse_duration("5secs"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration("1.5mins"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["5", "secs", "5 parsecs", "-1secs", ""] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
        assert!(parse_reregistration_timeout("16secs").is_err());
    }
}
