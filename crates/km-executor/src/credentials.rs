//! Registry credentials from a pod's `imagePullSecrets`.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Pod;
use km_runtime::RegistryAuth;
use serde::Deserialize;

use crate::{api::Api, retry::while_unavailable};

/// The credentials of the pod's secrets that are for the image's registry, in their order.
pub async fn of_pod(api: &dyn Api, pod: &Pod, image: &str) -> Vec<RegistryAuth> {
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
    let wanted = registry(image);
    entries.into_iter().filter(|(server, _)| same(server, wanted)).filter_map(|(_, entry)| credential(entry)).collect()
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

/// The registry's host (and port) in an image reference.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "docker.io",
    }
}

fn same(server: &str, registry: &str) -> bool {
    let bare = server.trim_start_matches("https://").trim_start_matches("http://");
    let host = bare.split('/').next().unwrap_or_default();
    host == registry || (registry == "docker.io" && matches!(host, "index.docker.io" | "registry-1.docker.io"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_credentials_of_the_registry() {
        let config = br#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"},
            "localhost:5000": {"username": "a", "password": "b"}}}"#;
        let users = |image| parse(config, image).into_iter().map(|auth| auth.username).collect::<Vec<_>>();
        assert_eq!(users("busybox"), ["u"]);
        assert_eq!(users("library/busybox:1"), ["u"]);
        assert_eq!(users("localhost:5000/x"), ["a"]);
        assert!(users("quay.io/x").is_empty());
        assert!(parse(b"nonsense", "busybox").is_empty());
    }
}
