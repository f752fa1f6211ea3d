//! Where a master that doesn't lead sends its callers.

use crate::{
    Authority,
    address::{AddressError, DEFAULT_MASTER_PORT},
};

/// More hops than this are no way to a leader.
const MAX_REDIRECTS: usize = 5;

/// Whether to go on to `next` after `asked`. Masters that have lost their ZooKeeper send callers to each other: then
/// nobody leads, and it is time to pause.
pub(crate) fn check(asked: &[Authority], next: &Authority) -> Result<(), String> {
    if asked.contains(next) {
        let way: Vec<String> = asked.iter().chain([next]).map(ToString::to_string).collect();
        return Err(format!("in circles, so no master leads: {}", way.join(" -> ")));
    }
    match asked.len() > MAX_REDIRECTS {
        true => Err(format!("more than {MAX_REDIRECTS} redirects")),
        false => Ok(()),
    }
}

/// The server that a `Location` names. Masters send `//host:port/path`; older ones a bare `host:port`. The path isn't
/// needed: it is that of the request, and so is the scheme: TLS is not left, and not begun, by a server's word. `None` when it names no server, only a path.
pub(crate) fn target(location: &str) -> Result<Option<Authority>, AddressError> {
    let rest = ["https://", "http://", "//"].iter().find_map(|prefix| location.strip_prefix(prefix));
    if rest.is_none() && location.starts_with('/') {
        return Ok(None);
    }
    let rest = rest.unwrap_or(location);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    Authority::parse(authority, DEFAULT_MASTER_PORT).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        let cases = [
            ("//m2:5050/api/v1/scheduler", Some("m2:5050")),
            ("//10.0.0.2:5051", Some("10.0.0.2:5051")),
            ("http://m2:80/api/v1?x", Some("m2:80")),
            ("https://m2:80/x", Some("m2:80")),
            ("m2:5050", Some("m2:5050")),
            ("//[::1]:5050/x", Some("[::1]:5050")),
            ("/elsewhere", None),
        ];
        for (location, authority) in cases {
            let found = target(location).unwrap().map(|authority| authority.to_string());
            assert_eq!(found.as_deref(), authority, "{location}");
        }
        for bad in ["", "//", "ftp://m:1/x", "//m:x/"] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn circles_and_long_ways_end() {
        let server = |port| Authority { host: "m".to_owned(), port };
        let asked: Vec<Authority> = (1..=5).map(server).collect();
        assert_eq!(check(&asked, &server(6)), Ok(()));
        assert_eq!(check(&asked[..2], &server(1)), Err("in circles, so no master leads: m:1 -> m:2 -> m:1".to_owned()));
        let asked: Vec<Authority> = (1..=6).map(server).collect();
        assert_eq!(check(&asked, &server(7)), Err("more than 5 redirects".to_owned()));
    }
}
