//! What a role name may be, and which roles lie below which.

/// Checks a role name: `*`, or components joined by `/`, each non-empty, without white space or backslash, not `.`,
/// `..` or `*`, and not beginning with `-`.
pub fn validate(role: &str) -> Result<(), String> {
    if role == "*" {
        return Ok(());
    }
    if role.is_empty() {
        return Err("Role names cannot be the empty string".to_owned());
    }
    if role.starts_with('/') {
        return Err(format!("Role '{role}' cannot start with a slash"));
    }
    if role.ends_with('/') {
        return Err(format!("Role '{role}' cannot end with a slash"));
    }
    role.split('/').try_for_each(|component| validate_component(role, component))
}

fn validate_component(role: &str, component: &str) -> Result<(), String> {
    match component {
        "" => Err(format!("Role '{role}' cannot contain two adjacent slashes")),
        "." | ".." | "*" => Err(format!("Role '{role}' cannot include '{component}' as a component")),
        _ if component.starts_with('-') => {
            Err(format!("Role component '{component}' is invalid because it starts with a dash"))
        }
        _ if component.contains(['\t', '\n', '\x0b', '\x0c', '\r', ' ', '\x08', '\x7f', '\\']) => {
            Err(format!("Role component '{component}' is invalid because it contains backspace or whitespace"))
        }
        _ => Ok(()),
    }
}

/// Is `role` strictly below `ancestor`: `a/b` below `a`?
pub fn is_strict_subrole_of(role: &str, ancestor: &str) -> bool {
    role.strip_prefix(ancestor).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_names() {
        for good in ["*", "a", "a/b", "a.b", "a-b", "a/b/c", "...", "é"] {
            assert_eq!(validate(good), Ok(()), "{good}");
        }
        for bad in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/*", "-a", "a/-b", "a b", "a\tb", "a\\b"] {
            assert!(validate(bad).is_err(), "{bad}");
        }
        assert!(is_strict_subrole_of("a/b", "a"));
        assert!(!is_strict_subrole_of("a", "a"));
        assert!(!is_strict_subrole_of("ab", "a"));
    }
}
