//! Image references, as `docker pull` reads them: `busybox` means `docker.io/library/busybox:latest`.

use std::{fmt, str::FromStr};

use crate::RuntimeError;

/// A normalised image reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Host with an optional port, e.g. `docker.io` or `127.0.0.1:5000`.
    pub registry: String,
    /// e.g. `library/busybox`.
    pub repository: String,
    pub tag: Option<String>,
    /// `sha256:<64 hex digits>`; then the tag says nothing.
    pub digest: Option<String>,
}

impl Reference {
    /// The registry is on this machine, so it is asked without TLS.
    pub fn is_loopback(&self) -> bool {
        let host = match self.registry.rsplit_once(':') {
            Some((host, _)) if !self.registry.ends_with(']') => host,
            _ => &self.registry,
        };
        host == "localhost"
            || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(digest) = &self.digest {
            return write!(f, "@{digest}");
        }
        match &self.tag {
            Some(tag) => write!(f, ":{tag}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Reference {
    type Err = RuntimeError;

    fn from_str(text: &str) -> Result<Self, RuntimeError> {
        parse(text).map_err(|message| RuntimeError::InvalidReference { reference: text.to_owned(), message })
    }
}

fn parse(text: &str) -> Result<Reference, String> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(checked_digest(digest)?)),
        None => (text, None),
    };
    let (name, tag) = match rest.rsplit_once(':') {
        // A colon before a slash belongs to the port of the registry.
        Some((name, tag)) if !tag.contains('/') => (name, Some(checked_tag(tag)?)),
        _ => (rest, None),
    };
    let (registry, repository) = split_registry(name);
    if repository.is_empty() {
        return Err("the name of the image is missing".to_owned());
    }
    for part in repository.split('/') {
        check_component(part)?;
    }
    let tag = if digest.is_none() { Some(tag.unwrap_or_else(|| "latest".to_owned())) } else { tag };
    Ok(Reference { registry, repository, tag, digest })
}

/// The first part names a registry when it looks like a host: with a dot, a port, or `localhost`.
fn split_registry(name: &str) -> (String, String) {
    if let Some((first, rest)) = name.split_once('/')
        && (first.contains(['.', ':']) || first == "localhost")
    {
        let registry = if first == "index.docker.io" { "docker.io" } else { first };
        let official = registry == "docker.io" && !rest.contains('/');
        return (registry.to_owned(), if official { format!("library/{rest}") } else { rest.to_owned() });
    }
    let repository = if name.contains('/') || name.is_empty() { name.to_owned() } else { format!("library/{name}") };
    ("docker.io".to_owned(), repository)
}

fn check_component(part: &str) -> Result<(), String> {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if part.chars().any(|c| c.is_ascii_uppercase()) {
        return Err(format!("the name must be lower case, but {part:?} is not"));
    }
    if !part.starts_with(alphanumeric) || !part.ends_with(alphanumeric) {
        return Err(format!("each part of the name must start and end with a letter or digit, but {part:?} does not"));
    }
    match part.chars().find(|&c| !alphanumeric(c) && !matches!(c, '.' | '_' | '-')) {
        Some(c) => Err(format!("the name must not contain {c:?}")),
        None => Ok(()),
    }
}

fn checked_tag(tag: &str) -> Result<String, String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if tag.is_empty()
        || tag.len() > 128
        || !tag.starts_with(word)
        || !tag.chars().all(|c| word(c) || c == '.' || c == '-')
    {
        return Err(format!("{tag:?} is not a tag: 1 to 128 letters, digits, '_', '.' and '-' are right"));
    }
    Ok(tag.to_owned())
}

fn checked_digest(digest: &str) -> Result<String, String> {
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    if hex.len() != 64 || !hex.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!("{digest:?} is not a digest: sha256: and 64 hex digits are right"));
    }
    Ok(digest.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_names_are_completed() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, expected) in [
            ("busybox", "docker.io/library/busybox:latest".to_owned()),
            ("busybox:1.35", "docker.io/library/busybox:1.35".to_owned()),
            ("docker.io/busybox", "docker.io/library/busybox:latest".to_owned()),
            ("index.docker.io/library/busybox", "docker.io/library/busybox:latest".to_owned()),
            ("team/app:v1", "docker.io/team/app:v1".to_owned()),
            ("localhost/km/hello", "localhost/km/hello:latest".to_owned()),
            ("127.0.0.1:5000/a/b", "127.0.0.1:5000/a/b:latest".to_owned()),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10".to_owned()),
            (&format!("busybox@{digest}"), format!("docker.io/library/busybox@{digest}")),
            (&format!("busybox:1.35@{digest}"), format!("docker.io/library/busybox@{digest}")),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn wrong_references_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "missing"),
            ("Busybox", "lower case"),
            ("busybox:", "not a tag"),
            ("busybox:a b", "not a tag"),
            ("a//b", "letter or digit"),
            ("-a", "letter or digit"),
            ("a@sha256:12", "64 hex"),
            ("a@md5:12", "64 hex"),
            ("a$b", "must not contain"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn registries_of_this_machine_are_known() {
        for (text, expected) in [
            ("localhost/a", true),
            ("localhost:5000/a", true),
            ("127.0.0.1:5000/a", true),
            ("[::1]:5000/a", true),
            ("10.0.0.1:5000/a", false),
            ("localhost.example.com/a", false),
            ("busybox", false),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().is_loopback(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_normal_form_reads_as_itself(text in "([a-z]{1,5}\\.[a-z]{2}(:[0-9]{2,4})?/)?[a-z]{1,8}(/[a-z0-9]{1,8})?(:[A-Za-z0-9._-]{0,9}x)?") {
            if let Ok(reference) = text.parse::<Reference>() {
                prop_assert_eq!(reference.to_string().parse::<Reference>().unwrap().to_string(), reference.to_string());
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _either_is_fine = text.parse::<Reference>();
        }
    }
}
