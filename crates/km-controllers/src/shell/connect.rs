//! The client, and the certificate authority that pods are to trust.

use anyhow::Context;
use base64::Engine;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::Path;

/// A client for the kubeconfig's current context, and its certificate authority as PEM, if it names one.
pub(super) async fn client(kubeconfig: &Path) -> anyhow::Result<(kube::Client, Option<String>)> {
    let named = || format!("cannot use the kubeconfig {}", kubeconfig.display());
    let file = Kubeconfig::read_from(kubeconfig).with_context(named)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.with_context(named)?;
    let root_ca = config.root_cert.as_ref().map(|certificates| pem(certificates));
    let client = kube::Client::try_from(config).with_context(named)?;
    Ok((client, root_ca))
}

fn pem(certificates: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = base64::engine::general_purpose::STANDARD.encode(certificate);
        // Base64 is ASCII: any cut is between characters.
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
