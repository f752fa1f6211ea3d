//! `zk://[user:password@]host:port,host:port/path`: where masters stand for election.

use std::{fmt, str::FromStr};

use crate::{Authority, address::AddressError};

/// ZooKeeper servers listen there unless told otherwise.
const DEFAULT_PORT: u16 = 2181;

/// The servers of a ZooKeeper, and the node below which masters stand for election.
#[derive(Clone, PartialEq, Eq)]
pub struct Ensemble {
    /// At least one.
    pub servers: Vec<Authority>,
    /// Absolute, without a slash at its end.
    pub path: String,
    /// `user:password` for ZooKeeper's digest scheme.
    pub digest: Option<String>,
}

impl Ensemble {
    /// `host:port,host:port`.
    pub fn hosts(&self) -> String {
        self.servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

impl FromStr for Ensemble {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        // The password is for nobody's eyes, so the text is not repeated as it came.
        let bad = |reason: &str| AddressError::new(format!("{reason}, expected 'zk://host:port,host:port/path'"));
        let rest = text.strip_prefix("zk://").ok_or_else(|| bad("a ZooKeeper address must begin with 'zk://'"))?;
        let (digest, rest) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((digest, rest)) if digest.split_once(':').is_some_and(|(user, _)| !user.is_empty()) => {
                (Some(digest.to_owned()), rest)
            }
            Some(_) => return Err(bad("what stands before '@' must be 'user:password'")),
        };
        let Some((hosts, path)) = rest.split_once('/') else {
            return Err(bad("the path below which masters stand for election is missing"));
        };
        let path = path.trim_end_matches('/');
        if path.split('/').any(|name| name.is_empty() || name == "." || name == "..") {
            return Err(bad(&format!("'/{path}' is no path of a ZooKeeper node")));
        }
        let servers = hosts.split(',').map(|host| Authority::parse(host.trim(), DEFAULT_PORT));
        Ok(Self { servers: servers.collect::<Result<_, _>>()?, path: format!("/{path}"), digest })
    }
}

impl fmt::Display for Ensemble {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zk://{}{}", self.hosts(), self.path)
    }
}

impl fmt::Debug for Ensemble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ensembles() {
        let cases = [
            ("zk://z1:2181,z2:2182,z3/mesos", "zk://z1:2181,z2:2182,z3:2181/mesos", None),
            ("zk://z1/mesos/", "zk://z1:2181/mesos", None),
            ("zk://[::1]:2181/a/b", "zk://[::1]:2181/a/b", None),
            ("zk://user:p@ss@z1:2181/mesos", "zk://z1:2181/mesos", Some("user:p@ss")),
        ];
        for (text, shown, digest) in cases {
            let ensemble: Ensemble = text.parse().expect(text);
            assert_eq!((ensemble.to_string().as_str(), ensemble.digest.as_deref()), (shown, digest), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        let cases = [
            ("zk://z1:2181", "the path below which masters"),
            ("zk://z1:2181/", "no path of a ZooKeeper node"),
            ("zk://z1//mesos", "no path of a ZooKeeper node"),
            ("zk://z1/../mesos", "no path of a ZooKeeper node"),
            ("zk:///mesos", "has no valid host"),
            ("zk://z1,,z2/mesos", "has no valid host"),
            ("zk://z1:zero/mesos", "has no valid port"),
            ("zk://secret@z1/mesos", "must be 'user:password'"),
            ("zk://u:secret@z1", "the path below which masters"),
        ];
        for (text, reason) in cases {
            let error = text.parse::<Ensemble>().expect_err(text).to_string();
            assert!(error.contains(reason) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
