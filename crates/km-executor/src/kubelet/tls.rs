//! The kubelet's side of TLS: a certificate of its own, and clients known by the cluster's authority.

use std::{net::IpAddr, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

/// The authorities that a client configuration trusts; empty when it names none.
pub fn authorities(config: &kube::Config) -> anyhow::Result<Vec<Vec<u8>>> {
    if let Some(file) = &config.root_cert_file {
        let certificates = CertificateDer::pem_file_iter(file)?;
        return certificates.map(|certificate| Ok(certificate?.to_vec())).collect();
    }
    Ok(config.root_cert.clone().unwrap_or_default())
}

/// An acceptor with a fresh self-signed certificate for the node. Clients may show a certificate of one of the
/// authorities (DER); a wrong one ends the handshake.
pub fn acceptor(hostname: &str, ip: Option<IpAddr>, authorities: Vec<Vec<u8>>) -> anyhow::Result<TlsAcceptor> {
    let names: Vec<String> = std::iter::once(hostname.to_owned()).chain(ip.map(|ip| ip.to_string())).collect();
    let own = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(CertificateDer::from(authority))?;
    }
    let builder = ServerConfig::builder();
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build()?;
        builder.with_client_cert_verifier(verifier)
    };
    let mut config = builder.with_single_cert(vec![own.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
