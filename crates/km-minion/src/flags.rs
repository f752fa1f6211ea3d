//! The minion's flags.

use std::path::PathBuf;

/// Flags of `km minion`.
#[derive(clap::Args, Clone, Debug)]
pub struct Flags {
    /// Kubeconfig file by which executor and proxy reach the API server.
    #[arg(long)]
    pub kubeconfig: PathBuf,
    /// The same for the proxy alone, if it is to have another.
    #[arg(long)]
    pub proxy_kubeconfig: Option<PathBuf>,
    /// Name of the node; it is the agent's host name.
    #[arg(long)]
    pub hostname_override: String,
    /// Whether to run a proxy beside the executor.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub run_proxy: bool,
    /// A log file is rotated when it reaches this size, in bytes, or with a unit: Ki, Mi, Gi.
    #[arg(long, visible_alias = "max-log-size", default_value = "10Mi", value_parser = parse_size)]
    pub log_max_size: u64,
    /// How many rotated files of each log are kept.
    #[arg(long, visible_alias = "max-log-backups", default_value_t = 5)]
    pub log_max_backups: u32,
    /// Rotated files older than this many days are removed.
    #[arg(long, visible_alias = "max-log-age", default_value_t = 7)]
    pub log_max_age: u32,
    /// A further argument for `km executor`; may be repeated.
    #[arg(long, allow_hyphen_values = true)]
    pub executor_arg: Vec<String>,
    /// A further argument for `km proxy`; may be repeated.
    #[arg(long, allow_hyphen_values = true)]
    pub proxy_arg: Vec<String>,
}

fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 4] = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("", 1)];
    let wrong = || format!("expected bytes, or a number and Ki, Mi or Gi, e.g. 10Mi; got {text:?}");
    let trimmed = text.strip_suffix('B').unwrap_or(text);
    let (number, unit) =
        UNITS.iter().find_map(|(suffix, unit)| Some((trimmed.strip_suffix(suffix)?, *unit))).ok_or_else(wrong)?;
    let size = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)?;
    if size == 0 { Err("must be more than 0".to_owned()) } else { Ok(size) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: Flags,
    }

    #[test]
    fn arguments_for_the_children_are_collected() {
        let line = "minion --kubeconfig=k --hostname-override=h --run-proxy=false --max-log-size=1Ki \
                    --executor-arg=--a=b --executor-arg=--c --proxy-arg=--d";
        let flags = Command::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}")).flags;
        assert!(!flags.run_proxy);
        assert_eq!(flags.log_max_size, 1024);
        assert_eq!(flags.executor_arg, ["--a=b", "--c"]);
        assert_eq!(flags.proxy_arg, ["--d"]);
    }

    #[test]
    fn sizes_have_units() {
        for (text, size) in [("10Mi", 10 << 20), ("512", 512), ("1GiB", 1 << 30)] {
            assert_eq!(parse_size(text), Ok(size));
        }
        for text in ["", "0", "10M", "-1", "x"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
