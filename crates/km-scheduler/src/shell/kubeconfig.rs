//! The way to the API server: kubeconfigs, ours and the executors'.

use std::path::Path;

use anyhow::Context;
use kube::config::{
    AuthInfo, Cluster, Context as KubeContext, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};

/// A client of the API server that the flags name.
pub async fn client(file: Option<&Path>, server: Option<&String>) -> anyhow::Result<kube::Client> {
    let name = || file.map_or_else(|| "of --api-servers".to_owned(), |file| file.display().to_string());
    let config = kube::Config::from_custom_kubeconfig(config(file, server)?, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("kubeconfig {} is unusable", name()))?;
    kube::Client::try_from(config).with_context(|| format!("kubeconfig {} is unusable", name()))
}

/// The kubeconfig of a file, with another server in it if one is given. Without a file one is made up that knows the
/// server only.
pub fn config(file: Option<&Path>, server: Option<&String>) -> anyhow::Result<Kubeconfig> {
    let mut config = match file {
        Some(file) => {
            Kubeconfig::read_from(file).with_context(|| format!("can't read kubeconfig {}", file.display()))?
        }
        None => anonymous(),
    };
    if let Some(server) = server {
        for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            cluster.server = Some(server.clone());
        }
    }
    Ok(config)
}

/// A kubeconfig as the text of its file.
pub fn as_text(config: &Kubeconfig) -> anyhow::Result<String> {
    serde_saphyr::to_string(config).context("a kubeconfig can't be written")
}

fn anonymous() -> Kubeconfig {
    const NAME: &str = "km";
    let name = || NAME.to_owned();
    let context = KubeContext { cluster: name(), user: Some(name()), ..KubeContext::default() };
    Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(Cluster::default()), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo {
            name: name(),
            auth_info: Some(AuthInfo::default()),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext { name: name(), context: Some(context), ..NamedContext::default() }],
        current_context: Some(NAME.to_owned()),
        ..Kubeconfig::default()
    }
}
