//! Config maps and secrets, fetched for containers and volumes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use km_pod::env::{SourceKind, SourceRef, Sources};

use crate::{api::Api, retry::while_unavailable};

/// The data of an object, by key.
pub type Data = BTreeMap<String, Vec<u8>>;

/// Fetches the named objects for variables; those that don't exist are left out. The binary data of config maps is for
/// volumes alone.
///
/// # Errors
/// The server refuses to give one of them.
pub async fn variables(api: &dyn Api, namespace: &str, wanted: BTreeSet<SourceRef>) -> Result<Sources, String> {
    let mut found = Sources::new();
    for source in wanted {
        let data = match source.kind {
            SourceKind::ConfigMap => config_map(api, namespace, &source.name).await?.map(text_of),
            SourceKind::Secret => files(api, namespace, &source).await?,
        };
        if let Some(data) = data {
            found.insert(source, data);
        }
    }
    Ok(found)
}

/// The object's data as files of a volume.
///
/// # Errors
/// The server refuses to give it.
pub async fn files(api: &dyn Api, namespace: &str, source: &SourceRef) -> Result<Option<Data>, String> {
    let name = &source.name;
    match source.kind {
        SourceKind::ConfigMap => Ok(config_map(api, namespace, name).await?.map(of_config_map)),
        SourceKind::Secret => {
            let object = while_unavailable("reading a secret", || api.secret(namespace, name)).await;
            Ok(object.map_err(|error| format!("{name}: {error}"))?.map(of_secret))
        }
    }
}

async fn config_map(api: &dyn Api, namespace: &str, name: &str) -> Result<Option<ConfigMap>, String> {
    let object = while_unavailable("reading a config map", || api.config_map(namespace, name)).await;
    object.map_err(|error| format!("{name}: {error}"))
}

fn text_of(object: ConfigMap) -> Data {
    object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes())).collect()
}

fn of_config_map(mut object: ConfigMap) -> Data {
    let binary = object.binary_data.take().unwrap_or_default();
    let mut data = text_of(object);
    data.extend(binary.into_iter().map(|(key, value)| (key, value.0)));
    data
}

fn of_secret(object: Secret) -> Data {
    object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
}
