//! Rules for names, label keys and label values. Messages are those that Kubernetes gives, since clients show them.

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

fn is_lower_alnum(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_dns1123_label_shape(text: &str) -> bool {
    framed(text, is_lower_alnum, |byte| is_lower_alnum(byte) || byte == b'-')
}

/// Non-empty, first and last byte satisfy `edge`, all others `middle`.
fn framed(text: &str, edge: impl Fn(u8) -> bool, middle: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => edge(*only),
        [first, between @ .., last] => edge(*first) && edge(*last) && between.iter().all(|byte| middle(*byte)),
    }
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// RFC 1123 label: lower-case letters, digits and `-`, at most 63 bytes (names of namespaces, containers, volumes).
///
/// # Errors
/// The message that Kubernetes gives for the first broken rule.
pub fn dns1123_label(text: &str) -> Result<(), String> {
    if text.len() > LABEL_MAX {
        return Err(too_long(LABEL_MAX));
    }
    if is_dns1123_label_shape(text) {
        return Ok(());
    }
    Err("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
         end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        .to_owned())
}

/// RFC 1123 subdomain: labels joined by dots, at most 253 bytes (names of most objects).
///
/// # Errors
/// The message that Kubernetes gives for the first broken rule.
pub fn dns1123_subdomain(text: &str) -> Result<(), String> {
    if text.len() > SUBDOMAIN_MAX {
        return Err(too_long(SUBDOMAIN_MAX));
    }
    if text.split('.').all(is_dns1123_label_shape) {
        return Ok(());
    }
    Err("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        .to_owned())
}

/// RFC 1035 label: like an RFC 1123 label that starts with a letter (names of services).
///
/// # Errors
/// The message that Kubernetes gives for the first broken rule.
pub fn dns1035_label(text: &str) -> Result<(), String> {
    if text.len() > LABEL_MAX {
        return Err(too_long(LABEL_MAX));
    }
    if is_dns1123_label_shape(text) && text.as_bytes()[0].is_ascii_lowercase() {
        return Ok(());
    }
    Err("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
         character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
         is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        .to_owned())
}

fn is_label_name_shape(text: &str) -> bool {
    framed(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
    )
}

const QUALIFIED_NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// A label or annotation key, resource name or condition type: `[dns-subdomain/]name`.
///
/// # Errors
/// The message that Kubernetes gives for the first broken rule.
pub fn qualified_name(text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                return Err("prefix part must be non-empty".to_owned());
            }
            dns1123_subdomain(prefix).map_err(|message| format!("prefix part {message}"))?;
            name
        }
        _ => {
            return Err(format!(
                "a qualified name {QUALIFIED_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            ));
        }
    };
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    if name.len() > LABEL_MAX {
        return Err(format!("name part {}", too_long(LABEL_MAX)));
    }
    if is_label_name_shape(name) { Ok(()) } else { Err(format!("name part {QUALIFIED_NAME_RULE}")) }
}

/// A label's value: empty, or at most 63 letters, digits, `-`, `_`, `.` that start and end alphanumeric.
///
/// # Errors
/// The message that Kubernetes gives for the first broken rule.
pub fn label_value(text: &str) -> Result<(), String> {
    if text.len() > LABEL_MAX {
        return Err(too_long(LABEL_MAX));
    }
    if text.is_empty() || is_label_name_shape(text) {
        return Ok(());
    }
    Err("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
         start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
         validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        .to_owned())
}

/// Name of an environment variable: printable ASCII without `=`.
///
/// # Errors
/// The message that Kubernetes gives for the first broken rule.
pub fn env_var_name(text: &str) -> Result<(), String> {
    if !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        return Ok(());
    }
    Err("a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned())
}

/// Key of a ConfigMap or Secret.
///
/// # Errors
/// The message that Kubernetes gives for the first broken rule.
pub fn config_map_key(text: &str) -> Result<(), String> {
    if text.len() > SUBDOMAIN_MAX {
        return Err(too_long(SUBDOMAIN_MAX));
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        return Err("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                    or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            .to_owned());
    }
    match text {
        "." => Err("must not be '.'".to_owned()),
        ".." => Err("must not be '..'".to_owned()),
        _ if text.starts_with("..") => Err("must not start with '..'".to_owned()),
        _ => Ok(()),
    }
}

/// Name of a port: an IANA service name of at most 15 characters with at least one letter.
///
/// # Errors
/// The message that Kubernetes gives for the first broken rule.
pub fn port_name(text: &str) -> Result<(), String> {
    if text.len() > 15 {
        return Err("must be no more than 15 characters".to_owned());
    }
    if text.is_empty() || !text.bytes().all(|byte| is_lower_alnum(byte) || byte == b'-') {
        return Err("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Err("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        return Err("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err("must not begin or end with a hyphen".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&str) -> Result<(), String>;

    #[test]
    fn good_and_bad_names() {
        let long = "a".repeat(64);
        let longest = "a".repeat(63);
        let table: [(&str, Rule, &[&str], &[&str]); 7] = [
            ("label", dns1123_label, &["a", "0a", "a-b", &longest], &["", "-a", "a-", "A", "a.b", "a_b", &long]),
            ("subdomain", dns1123_subdomain, &["a.b", "0.1", "a-b.c"], &["", ".a", "a.", "a..b", "A.b", "a_b"]),
            ("1035", dns1035_label, &["a", "a1", "a-1"], &["", "1a", "-a", "a.b", &long]),
            ("qualified", qualified_name, &["a", "A.b_c", "x.io/A"], &["", "/a", "a/", "a/b/c", "-a", "X.io/a", &long]),
            ("value", label_value, &["", "a", "A_b.c-1"], &["-a", "a-", "a b", "é", &long]),
            ("key", config_map_key, &["a", ".a", "A_b-c.d"], &["", ".", "..", "..a", "a/b"]),
            ("port", port_name, &["http", "a-1"], &["", "1", "a--b", "-a", "a-", "A", "abcdefghijklmnop"]),
        ];
        for (rule_name, rule, good, bad) in table {
            for text in good {
                assert_eq!(rule(text), Ok(()), "{rule_name} must take {text:?}");
            }
            for text in bad {
                assert!(rule(text).is_err(), "{rule_name} must refuse {text:?}");
            }
        }
        assert!(env_var_name("A-b.c").is_ok() && env_var_name("a=b").is_err() && env_var_name("").is_err());
    }
}
