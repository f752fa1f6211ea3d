//! The server as a client of kubelets.

use std::time::Duration;

use crate::pki::Pair;

/// How long a kubelet may take to accept a connection. An answer may take any time: logs are followed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTPS client with the certificate that kubelets know the server by.
#[derive(Clone)]
pub struct KubeletClient(pub reqwest::Client);

impl KubeletClient {
    /// Kubelets have self-signed serving certificates, so theirs is not verified, as upstream's server does without
    /// `--kubelet-certificate-authority`.
    pub fn new(pair: &Pair) -> anyhow::Result<Self> {
        let identity = reqwest::Identity::from_pem(format!("{}{}", pair.certificate, pair.key).as_bytes())?;
        let client = reqwest::Client::builder()
            .identity(identity)
            .tls_danger_accept_invalid_certs(true)
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .build()?;
        Ok(Self(client))
    }
}
