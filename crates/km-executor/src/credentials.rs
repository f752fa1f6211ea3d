//! Registry credentials: of a pod's `imagePullSecrets`, and of the file that came with the executor.

use std::{collections::BTreeMap, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Pod;
use km_runtime::RegistryAuth;
use serde::Deserialize;

use crate::{api::Api, retry::while_unavailable};

/// Who may pull the image, in this order: the credentials of the pod's secrets, then those of the file that came with the
/// executor (`.dockercfg`).
pub async fn of_pod(api: &dyn Api, pod: &Pod, image: &str, file: &Path) -> Vec<RegistryAuth> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let mut found = Vec::new();
    for reference in pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten()) {
        match while_unavailable("reading a pull secret", || api.secret(namespace, &reference.name)).await {
            Ok(Some(secret)) => {
                for (key, value) in secret.data.unwrap_or_default() {
                    match key.as_str() {
                        ".dockerconfigjson" | ".dockercfg" => found.extend(parse(&value.0, image)),
                        _ => {}
                    }
                }
            }
            Ok(None) => tracing::warn!(namespace, secret = reference.name, "pull secret not found"),
            Err(error) => tracing::warn!(namespace, secret = reference.name, %error, "pull secret not read"),
        }
    }
    match tokio::fs::read(file).await {
        Ok(text) => found.extend(parse(&text, image)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(file = %file.display(), %error, "registry credentials not read"),
    }
    found
}

#[derive(Deserialize)]
struct Entry {
    username: Option<String>,
    password: Option<String>,
    /// base64 of `user:password`.
    auth: Option<String>,
}

#[derive(Deserialize)]
struct DockerConfig {
    auths: BTreeMap<String, Entry>,
}

fn parse(text: &[u8], image: &str) -> Vec<RegistryAuth> {
    let entries = serde_json::from_slice::<DockerConfig>(text)
        .map(|config| config.auths)
        .or_else(|_| serde_json::from_slice::<BTreeMap<String, Entry>>(text));
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(%error, "a pull secret is no docker configuration");
            return Vec::new();
        }
    };
    let mut matching: Vec<(String, Entry)> = entries.into_iter().filter(|(server, _)| matches(server, image)).collect();
    // The most precise one first.
    matching.sort_by_key(|(server, _)| std::cmp::Reverse(place(server).1.len()));
    matching.into_iter().filter_map(|(_, entry)| credential(entry)).collect()
}

fn credential(entry: Entry) -> Option<RegistryAuth> {
    if let (Some(username), Some(password)) = (entry.username, entry.password) {
        return Some(RegistryAuth { username, password });
    }
    let decoded = BASE64_STANDARD.decode(entry.auth?.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (username, password) = text.split_once(':')?;
    Some(RegistryAuth { username: username.to_owned(), password: password.trim_end_matches('\0').to_owned() })
}

/// Host (with port) and path of a server's name in a configuration: `https://index.docker.io/v1/` has no path, as the
/// version of the registry's API says nothing of images.
fn place(server: &str) -> (&str, &str) {
    let bare = server.trim_start_matches("https://").trim_start_matches("http://");
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    let path = path.trim_end_matches('/');
    (host, if matches!(path, "v1" | "v2") { "" } else { path })
}

/// Host and repository of an image.
fn split(image: &str) -> (&str, &str) {
    match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => ("docker.io", image),
    }
}

/// Whether a server's credentials are for the image (Kubernetes docs, "Interpretation of config.json"): each part of
/// the host may be a pattern, ports must be equal, and a path is the beginning of the repository's.
fn matches(server: &str, image: &str) -> bool {
    let ((host, path), (registry, repository)) = (place(server), split(image));
    let of_docker = registry == "docker.io" && matches!(host, "index.docker.io" | "registry-1.docker.io");
    let name = |host: &str| {
        host.split_once(':').map_or((host.to_owned(), None), |(name, port)| (name.to_owned(), Some(port.to_owned())))
    };
    let ((pattern, port), (own, own_port)) = (name(host), name(registry));
    let (patterns, parts): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), own.split('.').collect());
    let same_host = port == own_port
        && patterns.len() == parts.len()
        && patterns.iter().zip(&parts).all(|(pattern, part)| part_matches(pattern, part));
    (same_host || of_docker) && repository.starts_with(path)
}

/// `*` stands for any letters within one part of a host's name.
fn part_matches(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == part,
        Some((head, tail)) => part
            .strip_prefix(head)
            .is_some_and(|rest| (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| part_matches(tail, rest))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_credentials_of_the_registry() {
        let config = br#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"},
            "localhost:5000/team": {"username": "team", "password": "b"},
            "localhost:5000": {"username": "a", "password": "b"}}}"#;
        let users = |image| parse(config, image).into_iter().map(|auth| auth.username).collect::<Vec<_>>();
        assert_eq!(users("busybox"), ["u"]);
        assert_eq!(users("library/busybox:1"), ["u"]);
        assert_eq!(users("localhost:5000/x"), ["a"]);
        assert_eq!(users("localhost:5000/team/x"), ["team", "a"], "the most precise first");
        assert!(users("quay.io/x").is_empty());
        assert!(parse(b"nonsense", "busybox").is_empty());
        // The older form, as in .dockercfg.
        assert_eq!(parse(br#"{"quay.io": {"auth": "dTpw"}}"#, "quay.io/x").len(), 1);
    }

    #[test]
    fn servers_match_as_kubernetes_documents_it() {
        for (server, image, wanted) in [
            ("my-registry.io/images", "my-registry.io/images", true),
            ("my-registry.io/images", "my-registry.io/images/my-image", true),
            ("my-registry.io/images", "my-registry.io/other", false),
            ("*.my-registry.io/images", "sub.my-registry.io/images/my-image", true),
            ("*.my-registry.io/images", "my-registry.io/images/my-image", false),
            ("*.kubernetes.io", "a.b.kubernetes.io/x", false),
            ("*.*.kubernetes.io", "a.b.kubernetes.io/x", true),
            ("prefix*.kubernetes.io", "prefix1.kubernetes.io/x", true),
            ("*-good.kubernetes.io", "prefix-good.kubernetes.io/x", true),
            ("*-good.kubernetes.io", "prefix-bad.kubernetes.io/x", false),
            ("registry.io:8080", "registry.io/x", false),
            ("registry.io:8080", "registry.io:8080/x", true),
            ("https://registry.io/v2/", "registry.io/x", true),
            ("http://registry.io", "registry.io/x", true),
            ("https://index.docker.io/v1/", "busybox", true),
            ("docker.io", "team/app", true),
            ("docker.io", "quay.io/app", false),
        ] {
            assert_eq!(matches(server, image), wanted, "{server} for {image}");
        }
    }

    #[tokio::test]
    async fn the_file_comes_after_the_pods_own_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".dockercfg");
        let api = crate::tests::api::FakeApi::default();
        let pod: Pod = serde_json::from_value(serde_json::json!({"metadata": {"namespace": "n"},
            "spec": {"imagePullSecrets": [{"name": "pull"}], "containers": []}}))
        .unwrap();
        let users = async || {
            let found = of_pod(&api, &pod, "r.io/x", &file).await;
            found.into_iter().map(|auth| auth.username).collect::<Vec<_>>()
        };
        assert_eq!(users().await, ["of-secret"]);
        std::fs::write(&file, r#"{"r.io": {"username": "of-file", "password": "p"}}"#).unwrap();
        assert_eq!(users().await, ["of-secret", "of-file"]);
        std::fs::write(&file, "nonsense").unwrap();
        assert_eq!(users().await, ["of-secret"]);
    }
}
