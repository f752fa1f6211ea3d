//! Where masters are: one `host:port`, several, a ZooKeeper that knows the leader, or a file that names any of these.

use std::{fmt, path::PathBuf, str::FromStr};

use crate::zookeeper::Ensemble;

/// Masters listen there unless told otherwise.
pub const DEFAULT_MASTER_PORT: u16 = 5050;

/// Host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Where to look for the leading master. Any master will do: the others redirect to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterAddress {
    /// These, to be tried in turn.
    List(Vec<Authority>),
    /// As [`Self::List`], and the address says that they speak https.
    Https(Vec<Authority>),
    /// A ZooKeeper, which knows the leader.
    ZooKeeper(Ensemble),
    /// A file that holds an address of the other kinds; read again at each attempt.
    File(PathBuf),
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(String);

impl AddressError {
    pub(crate) fn new(reason: String) -> Self {
        Self(reason)
    }
}

impl Authority {
    /// Reads `host`, `host:port` or `[ipv6]:port`.
    ///
    /// # Errors
    /// The host is missing or the port is no number from 1 to 65535.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, AddressError> {
        let bad = |reason| AddressError(format!("'{text}' {reason}, expected 'host:port'"));
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, tail) = rest.split_once(']').ok_or_else(|| bad("has an unclosed '['"))?;
                let port = tail.strip_prefix(':');
                if port.is_none() && !tail.is_empty() {
                    return Err(bad("has text after ']'"));
                }
                (host, port)
            }
            None => match text.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => return Err(bad("has an IPv6 address without brackets")),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() || host.contains(['/', '@', ' ', '?', '#']) {
            return Err(bad("has no valid host"));
        }
        let parse_port =
            |port: &str| port.parse().ok().filter(|port| *port != 0).ok_or_else(|| bad("has no valid port"));
        let port = port.map_or(Ok(default_port), parse_port)?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for MasterAddress {
    type Err = AddressError;

    /// Reads `host:port`, `http://host:port`, `https://host:port`, a comma-separated list of these,
    /// `zk://host:port/path`, or `file:///path`.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.starts_with("zk://") {
            return text.parse().map(Self::ZooKeeper);
        }
        if let Some(path) = text.strip_prefix("file://") {
            return match path.starts_with('/') {
                true => Ok(Self::File(path.into())),
                false => {
                    Err(AddressError(format!("'{text}' must have an absolute path, such as 'file:///etc/mesos/zk'")))
                }
            };
        }
        let masters = text.split(',').map(parse_master).collect::<Result<Vec<_>, _>>()?;
        let says = |scheme| masters.iter().any(|(said, _)| *said == Some(scheme));
        let secure = says(Scheme::Https);
        if secure && says(Scheme::Http) {
            return Err(AddressError(format!("'{text}' mixes http and https, expected one for all masters")));
        }
        let masters = masters.into_iter().map(|(_, authority)| authority).collect();
        Ok(if secure { Self::Https(masters) } else { Self::List(masters) })
    }
}

impl fmt::Display for MasterAddress {
    /// Without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |prefix: &str, masters: &[Authority]| {
            masters.iter().map(|master| format!("{prefix}{master}")).collect::<Vec<_>>().join(",")
        };
        match self {
            Self::List(masters) => f.write_str(&list("", masters)),
            Self::Https(masters) => f.write_str(&list("https://", masters)),
            Self::ZooKeeper(ensemble) => ensemble.fmt(f),
            Self::File(path) => write!(f, "file://{}", path.display()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

fn parse_master(text: &str) -> Result<(Option<Scheme>, Authority), AddressError> {
    let text = text.trim();
    let schemes = [("http://", Scheme::Http), ("https://", Scheme::Https)];
    let said = schemes.into_iter().find_map(|(prefix, scheme)| Some((scheme, text.strip_prefix(prefix)?)));
    if said.is_none() && text.contains("://") {
        let known = "'host:port', http://, https://, zk:// or file://";
        return Err(AddressError(format!("'{text}' has an unknown scheme, expected {known}")));
    }
    let (scheme, rest) = said.map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
    Ok((scheme, Authority::parse(rest.trim_end_matches('/'), DEFAULT_MASTER_PORT)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_masters() {
        let cases = [
            ("localhost", "localhost:5050"),
            ("10.0.0.1:5051", "10.0.0.1:5051"),
            ("http://m:1/", "m:1"),
            ("a:1, http://b:2 ,c", "a:1,b:2,c:5050"),
            ("[::1]:7", "[::1]:7"),
            ("[::1]", "[::1]:5050"),
            ("https://m:1/", "https://m:1"),
            ("https://a:1,b", "https://a:1,https://b:5050"),
            ("zk://u:p@z/mesos", "zk://z:2181/mesos"),
            ("file:///etc/masters", "file:///etc/masters"),
        ];
        for (text, shown) in cases {
            assert_eq!(
                text.parse::<MasterAddress>().map(|address| address.to_string()),
                Ok(shown.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_address_is_explained() {
        let cases = [
            ("zk://z:2181", "the path below which masters stand"),
            ("https://a:1,http://b:2", "mixes http and https"),
            ("ftp://m:1", "has an unknown scheme"),
            ("", "has no valid host"),
            ("a:1,,b:2", "has no valid host"),
            ("m:port", "has no valid port"),
            ("m:0", "has no valid port"),
            ("m:70000", "has no valid port"),
            ("http://m/path", "has no valid host"),
            ("::1", "without brackets"),
            ("[::1", "unclosed"),
            ("file://relative", "absolute path"),
        ];
        for (text, reason) in cases {
            let error = text.parse::<MasterAddress>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
