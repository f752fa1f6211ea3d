//! Config maps and secrets, fetched for containers and volumes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use km_pod::env::{SourceKind, SourceRef, Sources};

use crate::{api::Api, retry::while_unavailable};

/// The data of an object, by key.
pub type Data = BTreeMap<String, Vec<u8>>;

/// Fetches the named objects; those that don't exist are left out.
///
/// # Errors
/// The server refuses to give one of them.
pub async fn fetch(api: &dyn Api, namespace: &str, wanted: BTreeSet<SourceRef>) -> Result<Sources, String> {
    let mut found = Sources::new();
    for source in wanted {
        if let Some(data) = one(api, namespace, &source).await? {
            found.insert(source, data);
        }
    }
    Ok(found)
}

pub async fn one(api: &dyn Api, namespace: &str, source: &SourceRef) -> Result<Option<Data>, String> {
    let name = &source.name;
    let failed = |error| format!("{name}: {error}");
    match source.kind {
        SourceKind::ConfigMap => {
            let object = while_unavailable("reading a config map", || api.config_map(namespace, name)).await;
            Ok(object.map_err(failed)?.map(of_config_map))
        }
        SourceKind::Secret => {
            let object = while_unavailable("reading a secret", || api.secret(namespace, name)).await;
            Ok(object.map_err(failed)?.map(of_secret))
        }
    }
}

fn of_config_map(object: ConfigMap) -> Data {
    let text = object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    let binary = object.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    text.chain(binary).collect()
}

fn of_secret(object: Secret) -> Data {
    object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
}
