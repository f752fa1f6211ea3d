//! TLS to masters: whom we trust, and who we are.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// Masters are spoken to by https only, and must show a certificate for the name by which they are called.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

/// A client certificate and its key.
#[derive(Clone, Copy, Debug)]
pub struct ClientIdentity<'a> {
    /// PEM: our certificate, then those that lead to the authority.
    pub certificates: &'a Path,
    /// PEM: its private key.
    pub key: &'a Path,
}

/// Which file is unusable, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and what would be right.
    pub reason: String,
}

impl Tls {
    /// Trusts the authorities whose certificates stand in the PEM file `authorities`, and no others: those of the
    /// system vouch for names of the internet, not for masters.
    ///
    /// # Errors
    /// A file can't be read, holds nothing of use, or key and certificate don't belong together.
    pub fn load(authorities: &Path, identity: Option<ClientIdentity<'_>>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            roots.add(certificate).map_err(|error| bad(authorities, error.to_string()))?;
        }
        let builder = builder().map_err(|error| bad(authorities, error.to_string()))?.with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_file(identity.key)
                    .map_err(|error| bad(identity.key, format!("no private key in PEM form: {error}")))?;
                builder
                    .with_client_auth_cert(certificates(identity.certificates)?, key)
                    .map_err(|error| bad(identity.key, format!("doesn't fit the certificate: {error}")))?
            }
        };
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn config(&self) -> ClientConfig {
        ClientConfig::clone(&self.0)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// For clients that speak http only; an empty trust store spares reading the system's at each start.
pub(crate) fn none() -> Result<ClientConfig, rustls::Error> {
    Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => Err(bad(path, "no certificate in PEM form".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(bad(path, error.to_string())),
    }
}

fn bad(path: &Path, reason: String) -> TlsError {
    TlsError { path: path.to_owned(), reason }
}
