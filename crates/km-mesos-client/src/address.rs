//! Where masters are: one `host:port`, several, or a file that names them.

use std::{fmt, path::PathBuf, str::FromStr};

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
    /// A file that holds an address list; read again at each attempt.
    File(PathBuf),
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(String);

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

    /// Reads `host:port`, `http://host:port`, a comma-separated list of these, or `file:///path`.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.starts_with("zk://") {
            return Err(AddressError(format!(
                "'{text}': finding the master by ZooKeeper is not supported yet, name the masters as 'host:port,host:port'"
            )));
        }
        if let Some(path) = text.strip_prefix("file://") {
            return match path.starts_with('/') {
                true => Ok(Self::File(path.into())),
                false => {
                    Err(AddressError(format!("'{text}' must have an absolute path, such as 'file:///etc/mesos/zk'")))
                }
            };
        }
        text.split(',').map(parse_master).collect::<Result<_, _>>().map(Self::List)
    }
}

impl fmt::Display for MasterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(masters) => f.write_str(&masters.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
            Self::File(path) => write!(f, "file://{}", path.display()),
        }
    }
}

fn parse_master(text: &str) -> Result<Authority, AddressError> {
    let text = text.trim();
    if text.starts_with("https://") {
        return Err(AddressError(format!("'{text}': https to the master is not supported yet, use http")));
    }
    let authority = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    Authority::parse(authority, DEFAULT_MASTER_PORT)
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
            ("zk://z:2181/mesos", "not supported yet"),
            ("https://m:1", "https to the master is not supported yet"),
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
