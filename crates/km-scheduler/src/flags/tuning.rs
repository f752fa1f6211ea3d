//! The configuration file (`--scheduler-config`): an ini file with the section `[scheduler]`.

use std::{collections::BTreeMap, path::Path, time::Duration};

use thiserror::Error;

use super::{duration::parse_duration, framework::CHANGEABLE};

/// What the file may set. Where a flag sets the same, the flag wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// How long an offer is kept that no waiting pod fits.
    pub offer_ttl: Duration,
    /// How long an ended offer is remembered.
    pub offer_linger_ttl: Duration,
    /// No effect: waiting pods are shown to every offer at once.
    pub listener_delay: Duration,
    /// So many events may wait for the scheduler before those who bring them are held up.
    pub updates_backlog: usize,
    /// No effect: the framework id is stored without expiry.
    pub framework_id_refresh_interval: Duration,
    /// The first implicit reconciliation comes with the subscription, the second so long after it.
    pub initial_implicit_reconciliation_delay: Duration,
    /// Longest pause between two questions for the same tasks.
    pub explicit_reconciliation_max_backoff: Duration,
    /// No effect: a reconciliation never waits for the one before.
    pub explicit_reconciliation_abort_timeout: Duration,
    /// First pause of a pod that can't be placed, or whose launch failed.
    pub initial_pod_backoff: Duration,
    /// The longest one.
    pub max_pod_backoff: Duration,
    /// How long a debugging action may wait for the scheduler.
    pub http_handler_timeout: Duration,
    /// No effect: a port that is taken is an error at the start.
    pub http_bind_interval: Duration,
    /// What it says of the framework, by the flag that says the same.
    pub framework: BTreeMap<&'static str, Line>,
}

/// A setting's value as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: usize,
    pub value: String,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            offer_ttl: Duration::from_secs(5),
            offer_linger_ttl: Duration::from_secs(120),
            listener_delay: Duration::from_secs(1),
            updates_backlog: 2048,
            framework_id_refresh_interval: Duration::from_secs(30),
            initial_implicit_reconciliation_delay: Duration::from_secs(15),
            explicit_reconciliation_max_backoff: Duration::from_secs(120),
            explicit_reconciliation_abort_timeout: Duration::from_secs(30),
            initial_pod_backoff: Duration::from_secs(1),
            max_pod_backoff: Duration::from_secs(60),
            http_handler_timeout: Duration::from_secs(10),
            http_bind_interval: Duration::from_secs(5),
            framework: BTreeMap::new(),
        }
    }
}

/// All settings, for the search of the nearest.
const SETTINGS: [&str; 12] = [
    "offer-ttl",
    "offer-linger-ttl",
    "listener-delay",
    "updates-backlog",
    "framework-id-refresh-interval",
    "initial-implicit-reconciliation-delay",
    "explicit-reconciliation-max-backoff",
    "explicit-reconciliation-abort-timeout",
    "initial-pod-backoff",
    "max-pod-backoff",
    "http-handler-timeout",
    "http-bind-interval",
];

/// Settings without effect.
pub(super) const IDLE: [(&str, &str); 4] = [
    ("listener-delay", "waiting pods are shown to every offer at once"),
    ("framework-id-refresh-interval", "the framework id is stored without expiry"),
    ("explicit-reconciliation-abort-timeout", "a reconciliation never waits for the one before"),
    ("http-bind-interval", "a port that is taken is an error at the start"),
];

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct TuningError {
    pub line: usize,
    pub reason: String,
}

impl Tuning {
    /// Reads the file.
    ///
    /// # Errors
    /// Names the file, the line and what would be right.
    pub fn load(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("can't read {shown}: {error}"))?;
        let tuning = Self::parse(&text).map_err(|error| format!("{shown}, {error}"))?;
        for (name, reason) in IDLE.iter().filter(|(name, _)| text.lines().any(|line| line.trim().starts_with(name))) {
            tracing::warn!(setting = name, reason, "this setting has no effect");
        }
        Ok(tuning)
    }

    /// Reads the text of a file over the defaults: all of it, or nothing when anything is wrong.
    ///
    /// # Errors
    /// Names the first line that is wrong, and for an unknown setting the known one that is spelled most like it.
    pub fn parse(text: &str) -> Result<Self, TuningError> {
        let mut tuning = Self::default();
        let mut in_section = false;
        for (index, line) in text.lines().enumerate() {
            let bad = |reason: String| TuningError { line: index + 1, reason };
            let of_framework = |name: &str| CHANGEABLE.into_iter().find(|known| *known == name);
            if let Some((name, value)) = line.split_once('=')
                && let Some(flag) = of_framework(name.trim()).filter(|_| in_section)
            {
                let value = without_comment(value).trim_matches('"').to_owned();
                tuning.framework.insert(flag, Line { number: index + 1, value });
                continue;
            }
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                let name = name.strip_suffix(']').ok_or_else(|| bad(format!("{line:?} lacks its \"]\"")))?;
                if name.trim() != "scheduler" {
                    return Err(bad(format!("unknown section [{name}]; there is only [scheduler]")));
                }
                in_section = true;
                continue;
            }
            if !in_section {
                return Err(bad(format!("{line:?} stands before the section [scheduler]")));
            }
            let (name, value) = line.split_once('=').ok_or_else(|| bad(format!("{line:?} is not NAME = VALUE")))?;
            let value = value.trim().trim_matches('"');
            tuning.set(name.trim(), value).map_err(bad)?;
        }
        Ok(tuning)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let in_setting = |reason| format!("{name}: {reason}");
        if name == "updates-backlog" {
            let number = value.parse().ok().filter(|number| *number > 0);
            self.updates_backlog =
                number.ok_or_else(|| in_setting(format!("expected a number of at least 1, got {value:?}")))?;
            return Ok(());
        }
        let Some(slot) = self.duration(name) else {
            let distance = |known: &&str| strsim::damerau_levenshtein(known, name);
            let nearest = SETTINGS.into_iter().chain(CHANGEABLE).min_by_key(distance).unwrap_or_default();
            return Err(format!("unknown setting {name:?}; did you mean {nearest:?}?"));
        };
        *slot = parse_duration(value).map_err(in_setting)?;
        Ok(())
    }

    fn duration(&mut self, name: &str) -> Option<&mut Duration> {
        Some(match name {
            "offer-ttl" => &mut self.offer_ttl,
            "offer-linger-ttl" => &mut self.offer_linger_ttl,
            "listener-delay" => &mut self.listener_delay,
            "framework-id-refresh-interval" => &mut self.framework_id_refresh_interval,
            "initial-implicit-reconciliation-delay" => &mut self.initial_implicit_reconciliation_delay,
            "explicit-reconciliation-max-backoff" => &mut self.explicit_reconciliation_max_backoff,
            "explicit-reconciliation-abort-timeout" => &mut self.explicit_reconciliation_abort_timeout,
            "initial-pod-backoff" => &mut self.initial_pod_backoff,
            "max-pod-backoff" => &mut self.max_pod_backoff,
            "http-handler-timeout" => &mut self.http_handler_timeout,
            "http-bind-interval" => &mut self.http_bind_interval,
            _ => return None,
        })
    }

    /// The settings that another file sets to something else.
    pub(crate) fn changes(&self, other: &Self) -> Vec<&'static str> {
        let (mut old, mut new) = (self.clone(), other.clone());
        let value = |tuning: &Self, name: &str| tuning.framework.get(name).map(|line| line.value.clone());
        let framework = CHANGEABLE.into_iter().filter(|name| value(self, name) != value(other, name));
        let durations = SETTINGS.into_iter().filter(|name| old.duration(name) != new.duration(name));
        let mut changed: Vec<&str> = framework.chain(durations).collect();
        changed.extend((self.updates_backlog != other.updates_backlog).then_some("updates-backlog"));
        changed
    }
}

/// In texts, a comment begins after a blank only: resources are separated by semicolons.
fn without_comment(value: &str) -> &str {
    let begins = |(at, sign): (usize, char)| {
        let after_blank = value[..at].ends_with([' ', '\t']) || value[..at].is_empty();
        (matches!(sign, ';' | '#') && after_blank).then_some(at)
    };
    let end = value.char_indices().find_map(begins).unwrap_or(value.len());
    value[..end].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_original() {
        assert_eq!(Tuning::parse(""), Ok(Tuning::default()));
        assert_eq!(Tuning::parse("; nothing\n\n[scheduler]\n"), Ok(Tuning::default()));
        let every = "[scheduler]\noffer-ttl = 5s\noffer-linger-ttl = 2m\nlistener-delay = 1s\nupdates-backlog = 2048\n\
                     framework-id-refresh-interval = 30s\ninitial-implicit-reconciliation-delay = 15s\n\
                     explicit-reconciliation-max-backoff = 2m\nexplicit-reconciliation-abort-timeout = 30s\n\
                     initial-pod-backoff = 1s\nmax-pod-backoff = 60s\nhttp-handler-timeout = 10s\nhttp-bind-interval = 5s";
        assert_eq!(Tuning::parse(every), Ok(Tuning::default()));
    }

    #[test]
    fn every_setting_is_read() {
        let mut text = "[scheduler]\n".to_owned();
        for name in SETTINGS {
            text.push_str(&format!(
                "{name} = {} ; a comment\n",
                if name == "updates-backlog" { "42" } else { "\"42s\"" }
            ));
        }
        let all = Duration::from_secs(42);
        let expected = Tuning {
            offer_ttl: all,
            offer_linger_ttl: all,
            listener_delay: all,
            updates_backlog: 42,
            framework_id_refresh_interval: all,
            initial_implicit_reconciliation_delay: all,
            explicit_reconciliation_max_backoff: all,
            explicit_reconciliation_abort_timeout: all,
            initial_pod_backoff: all,
            max_pod_backoff: all,
            http_handler_timeout: all,
            http_bind_interval: all,
            framework: BTreeMap::new(),
        };
        assert_eq!(Tuning::parse(&text), Ok(expected));
    }

    #[test]
    fn a_wrong_line_is_named_and_nothing_is_taken_over() {
        let table = [
            ("[scheduler]\noffer-ttl = 42s\ninvalid-setting = 1", 3, "unknown setting \"invalid-setting\""),
            ("[scheduler]\noffer-tll = 42s", 2, "did you mean \"offer-ttl\"?"),
            ("[scheduler]\nmax-pod-backof = 42s", 2, "did you mean \"max-pod-backoff\"?"),
            ("[scheduler]\nmesos-framework-rolls = a", 2, "did you mean \"mesos-framework-roles\"?"),
            ("mesos-gpus = true", 1, "stands before the section"),
            ("[scheduler]\noffer-ttl = 42", 2, "offer-ttl: \"42\" is no duration"),
            ("[scheduler]\n\nupdates-backlog = many", 3, "updates-backlog: expected a number of at least 1"),
            ("[scheduler]\nupdates-backlog = 0", 2, "updates-backlog: expected a number of at least 1"),
            ("[scheduler]\noffer-ttl", 2, "is not NAME = VALUE"),
            ("offer-ttl = 42s", 1, "stands before the section"),
            ("[schedular]", 1, "there is only [scheduler]"),
            ("[scheduler", 1, "lacks its"),
        ];
        for (text, line, reason) in table {
            let error = Tuning::parse(text).expect_err(text);
            assert!(error.line == line && error.reason.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_another_file_changes_is_told() {
        let read = |text: &str| Tuning::parse(&format!("[scheduler]\n{text}")).expect("it is well-formed");
        let old = read("offer-ttl = 5s\nframework-weburi = a\nmesos-gpus = true");
        let new = read("; moved\nmax-pod-backoff = 9s\nupdates-backlog = 7\nmesos-gpus = true\nhostname-override = h");
        let changed = ["framework-weburi", "hostname-override", "max-pod-backoff", "updates-backlog"];
        assert_eq!(old.changes(&new), changed);
        assert_eq!(new.changes(&new), [""; 0]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = Tuning::load(Path::new("/does/not/exist")).expect_err("there is no such file");
        assert!(error.contains("/does/not/exist"), "{error}");
    }
}
