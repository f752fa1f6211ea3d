//! Where a master that doesn't lead sends its callers.

use crate::{
    Authority,
    address::{AddressError, DEFAULT_MASTER_PORT},
};

/// The server that a `Location` names. Masters send `//host:port/path`; older ones a bare `host:port`. The path isn't
/// needed: it is that of the request. `None` when it names no server, only a path.
pub(crate) fn target(location: &str) -> Result<Option<Authority>, AddressError> {
    let rest = ["http://", "//"].iter().find_map(|prefix| location.strip_prefix(prefix));
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
            ("m2:5050", Some("m2:5050")),
            ("//[::1]:5050/x", Some("[::1]:5050")),
            ("/elsewhere", None),
        ];
        for (location, authority) in cases {
            let found = target(location).unwrap().map(|authority| authority.to_string());
            assert_eq!(found.as_deref(), authority, "{location}");
        }
        for bad in ["", "//", "https://m:1/x", "//m:x/"] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }
}
