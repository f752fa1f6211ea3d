//! The files of volumes that come from the API server and from the pod itself.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod, ServiceAccountTokenProjection, Volume};
use km_pod::{
    downward::{self, NodeFacts},
    env::{SourceKind, SourceRef},
};

use super::{
    sources,
    tree::{File, is_safe},
};
use crate::{
    api::{Api, ApiError, PodKey},
    retry::while_unavailable,
};

const DEFAULT_MODE: i32 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

/// Tokens that were issued, by volume and path, with the time when a new one is due.
pub type Tokens = BTreeMap<(String, String), (String, Instant)>;

/// Whether a volume's files are ours to write (and so read-only for the pod).
pub fn is_from_api(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

pub struct Source<'a> {
    pub api: &'a dyn Api,
    pub facts: &'a NodeFacts,
    pub key: &'a PodKey,
    pub pod: &'a Pod,
}

impl Source<'_> {
    /// All files of a volume.
    pub async fn files(&self, volume: &Volume, tokens: &mut Tokens) -> Result<Vec<File>, String> {
        if let Some(map) = &volume.config_map {
            return self.object(SourceKind::ConfigMap, &map.name, &map.items, map.optional, map.default_mode).await;
        }
        if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            return self.object(SourceKind::Secret, name, &secret.items, secret.optional, secret.default_mode).await;
        }
        if let Some(downward) = &volume.downward_api {
            return self.downward(&downward.items, downward.default_mode);
        }
        let Some(projected) = &volume.projected else {
            return Err(unsupported(volume));
        };
        let mode = projected.default_mode;
        let mut files: Vec<File> = Vec::new();
        for source in projected.sources.iter().flatten() {
            let more = if let Some(map) = &source.config_map {
                self.object(SourceKind::ConfigMap, &map.name, &map.items, map.optional, mode).await?
            } else if let Some(secret) = &source.secret {
                self.object(SourceKind::Secret, &secret.name, &secret.items, secret.optional, mode).await?
            } else if let Some(downward) = &source.downward_api {
                self.downward(&downward.items, mode)?
            } else if let Some(token) = &source.service_account_token {
                vec![self.token(&volume.name, token, mode, tokens).await?]
            } else {
                return Err("a projected source must be configMap, secret, downwardAPI or serviceAccountToken".into());
            };
            // As in the kubelet, later sources win.
            files.retain(|file| !more.iter().any(|newer| newer.path == file.path));
            files.extend(more);
        }
        Ok(files)
    }

    async fn object(
        &self,
        kind: SourceKind,
        name: &str,
        items: &Option<Vec<KeyToPath>>,
        optional: Option<bool>,
        mode: Option<i32>,
    ) -> Result<Vec<File>, String> {
        let optional = optional == Some(true);
        let source = SourceRef { kind, name: name.to_owned() };
        let title = if kind == SourceKind::ConfigMap { "configmap" } else { "secret" };
        let Some(data) = sources::files(self.api, &self.key.namespace, &source).await? else {
            return if optional { Ok(Vec::new()) } else { Err(format!("{title} {name:?} not found")) };
        };
        let Some(items) = items else {
            let file = |(path, content)| file(path, None, mode, content);
            return data.into_iter().map(file).collect();
        };
        let mut files = Vec::new();
        for item in items {
            match data.get(&item.key) {
                Some(content) => files.push(file(item.path.clone(), item.mode, mode, content.clone())?),
                None if optional => {}
                None => return Err(format!("{title} {name:?} has no key {:?}", item.key)),
            }
        }
        Ok(files)
    }

    fn downward(&self, items: &Option<Vec<DownwardAPIVolumeFile>>, mode: Option<i32>) -> Result<Vec<File>, String> {
        let files = items.iter().flatten().map(|item| {
            let text = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => downward::field(self.pod, self.facts, &field.field_path)?,
                (None, Some(resource)) => downward::resource(self.pod, None, resource, self.facts)?,
                (None, None) => return Err(format!("{}: fieldRef or resourceFieldRef is required", item.path)),
            };
            file(item.path.clone(), item.mode, mode, text.into_bytes())
        });
        files.collect()
    }

    /// A service account's token; asked for anew when four fifths of its time are over.
    async fn token(
        &self,
        volume: &str,
        wanted: &ServiceAccountTokenProjection,
        mode: Option<i32>,
        tokens: &mut Tokens,
    ) -> Result<File, String> {
        let slot = (volume.to_owned(), wanted.path.clone());
        if let Some((token, _)) = tokens.get(&slot).filter(|(_, due)| Instant::now() < *due) {
            return file(wanted.path.clone(), None, mode, token.clone().into_bytes());
        }
        let spec = self.pod.spec.as_ref();
        let account = spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let seconds = wanted.expiration_seconds.unwrap_or(TOKEN_SECONDS);
        let audience = wanted.audience.as_deref();
        let call = || self.api.token(self.key, account, audience, seconds);
        let token =
            while_unavailable("asking for a service account's token", call).await.map_err(|error| match error {
                ApiError::NotFound => format!("the API server issues no tokens for service account {account:?}"),
                other => format!("no token for service account {account:?}: {other}"),
            })?;
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or_default()) * 4 / 5;
        tokens.insert(slot, (token.clone(), Instant::now() + lasts));
        file(wanted.path.clone(), None, mode, token.into_bytes())
    }
}

fn file(path: String, own: Option<i32>, default: Option<i32>, content: Vec<u8>) -> Result<File, String> {
    if !is_safe(&path) {
        return Err(format!("path {path:?} must be relative and must not start with or contain \"..\""));
    }
    let mode = own.or(default).unwrap_or(DEFAULT_MODE);
    let mode = u32::try_from(mode).ok().filter(|mode| *mode <= 0o777);
    let mode = mode.ok_or_else(|| format!("{path}: the mode must be between 0 and 0777"))?;
    Ok(File { path, mode, content })
}

/// Names the kind of a volume that this node cannot make.
fn unsupported(volume: &Volume) -> String {
    let kind = match serde_json::to_value(volume) {
        Ok(serde_json::Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).find(|name| name != "name"),
        _ => None,
    };
    let kind = kind.unwrap_or_else(|| "no source".into());
    format!(
        "{kind} is not supported on this node; supported are configMap, downwardAPI, emptyDir, hostPath, \
         persistentVolumeClaim, projected and secret"
    )
}
