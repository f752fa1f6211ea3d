//! Fetches images from registries: by HTTPS, save for those of this machine that no authority is known of.

use std::{error::Error, path::Path, str::FromStr, time::Duration};

use oci_client::{
    Client,
    client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol},
    secrets::RegistryAuth as Auth,
};

use super::{ConfigFile, ImageStore, StagedLayers};
use crate::{ImageInfo, RegistryAuth, Result, RuntimeError, reference::Reference};

/// A registry that does not even answer within this time is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest silence within a transfer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

pub async fn pull(store: &ImageStore, text: &str, auth: Option<RegistryAuth>) -> Result<ImageInfo> {
    let reference = Reference::from_str(text)?;
    fetch(store, &reference, auth).await.map_err(|cause| RuntimeError::Pull {
        reference: reference.to_string(),
        message: format!("registry {}: {cause}", reference.registry),
    })
}

async fn fetch(
    store: &ImageStore,
    reference: &Reference,
    auth: Option<RegistryAuth>,
) -> std::result::Result<ImageInfo, String> {
    // The client builds TLS settings even for plain HTTP; a second installation changes nothing.
    let _already_set = rustls::crypto::ring::default_provider().install_default();
    let authorities = authorities(&store.registry_certs().join(&reference.registry))?;
    let plain = reference.is_loopback() && authorities.is_empty();
    let client = Client::try_from(ClientConfig {
        protocol: if plain { ClientProtocol::Http } else { ClientProtocol::Https },
        extra_root_certificates: authorities,
        connect_timeout: Some(CONNECT_TIMEOUT),
        read_timeout: Some(READ_TIMEOUT),
        ..ClientConfig::default()
    })
    .map_err(|error| explain(&error))?;
    let auth = auth.map_or(Auth::Anonymous, |auth| Auth::Basic(auth.username, auth.password));
    let remote: oci_client::Reference = reference.to_string().parse().map_err(|error| explain(&error))?;
    let (manifest, _digest, config) =
        client.pull_manifest_and_config(&remote, &auth).await.map_err(|error| explain(&error))?;
    let file: ConfigFile =
        serde_json::from_str(&config).map_err(|error| format!("the image's configuration cannot be read: {error}"))?;
    if file.rootfs.diff_ids.len() != manifest.layers.len() {
        return Err("configuration and manifest name different numbers of layers".to_owned());
    }
    let mut staged = StagedLayers::default();
    for (diff_id, layer) in file.rootfs.diff_ids.iter().zip(&manifest.layers) {
        if store.has_layer(diff_id) {
            continue;
        }
        let blob = tempfile::NamedTempFile::new_in(store.temporary()).map_err(|error| disk(&error))?;
        let mut output = tokio::fs::File::create(blob.path()).await.map_err(|error| disk(&error))?;
        client.pull_blob(&remote, layer, &mut output).await.map_err(|error| explain(&error))?;
        tokio::io::AsyncWriteExt::flush(&mut output).await.map_err(|error| disk(&error))?;
        let (store, diff_id) = (store.clone(), diff_id.clone());
        staged = blocking(move || {
            let input = blob.reopen().map_err(|error| disk(&error))?;
            staged.add(&store, Some(&diff_id), input).map_err(|error| error.to_string())?;
            Ok(staged)
        })
        .await?;
    }
    let (store, reference) = (store.clone(), reference.clone());
    blocking(move || store.register(config.as_bytes(), &[reference], &staged).map_err(|error| error.to_string())).await
}

/// The certificates in the files `*.crt` of a registry's folder; none without one.
fn authorities(folder: &Path) -> std::result::Result<Vec<Certificate>, String> {
    let failed = |error: std::io::Error| format!("reading the certificates in {}: {error}", folder.display());
    let files = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.map_err(failed)?,
    };
    let mut found = Vec::new();
    for file in files {
        let path = file.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "crt") {
            let data = std::fs::read(&path).map_err(failed)?;
            found.push(Certificate { encoding: CertificateEncoding::Pem, data });
        }
    }
    Ok(found)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::result::Result<T, String> + Send + 'static,
) -> std::result::Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}

fn disk(error: &std::io::Error) -> String {
    format!("storing a layer: {error}")
}

/// The whole chain of causes: the outermost alone says little ("error sending request").
fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}
