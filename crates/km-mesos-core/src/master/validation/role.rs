//! Names of roles (M322).

pub use km_mesos_proto::resources::roles::{is_strict_subrole_of as is_below, validate};

/// All roles above a role, the nearest first: `a/b/c` → `a/b`, `a`.
pub fn ancestors(role: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = role;
    while let Some((parent, _)) = rest.rsplit_once('/') {
        found.push(parent);
        rest = parent;
    }
    found
}

/// The topmost role above, or the role itself.
pub fn top(role: &str) -> &str {
    role.split('/').next().unwrap_or(role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_names_are_judged_as_mesos_does() {
        // M322
        for good in
            ["foo", "123", "foo_123", "*", "foo-bar", "foo.bar", "foo..bar", "...", "foo/bar", "foo/.bar", "a/b/c/d"]
        {
            assert_eq!(validate(good), Ok(()), "{good}");
        }
        let bad = [
            "", ".", "..", "-foo", "/", "/foo", "foo/", "foo//bar", "foo bar", "foo\tbar", "foo\nbar", "foo/*", "a/./b",
        ];
        for bad in bad.into_iter().chain(["a/../b", "a/-b", "*/a", "a\\b"]) {
            assert!(validate(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ancestors_are_listed_nearest_first() {
        // M323
        assert_eq!(ancestors("a/b/c/d"), ["a/b/c", "a/b", "a"]);
        assert!(ancestors("a").is_empty());
        assert!(is_below("foo/bar", "foo") && !is_below("foobar", "foo") && !is_below("foo", "foo"));
    }
}
