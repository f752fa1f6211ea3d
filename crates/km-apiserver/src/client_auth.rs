//! Who is calling: the client certificate of a TLS connection.
//!
//! The handshake asks for a certificate and checks only that the client has its key. Whether the cluster's authority
//! signed it is decided here, so that a stranger gets a readable 401 instead of a broken handshake.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

/// An authenticated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub groups: Vec<String>,
}

/// Takes any certificate at the handshake and tells afterwards whose it is.
#[derive(Debug)]
pub struct Verifier {
    authority: Arc<dyn ClientCertVerifier>,
}

impl Verifier {
    /// Trusts one authority.
    pub fn new(authority: CertificateDer<'static>) -> anyhow::Result<Arc<Self>> {
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let authority =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated().build()?;
        Ok(Arc::new(Self { authority }))
    }

    /// The client of a connection, if its certificate is one of ours and valid now.
    pub fn identify(&self, certificates: Option<&[CertificateDer<'static>]>) -> Option<Identity> {
        let (own, intermediates) = certificates?.split_first()?;
        self.authority.verify_client_cert(own, intermediates, UnixTime::now()).ok()?;
        let (_, parsed) = x509_parser::parse_x509_certificate(own).ok()?;
        let subject = parsed.subject();
        let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let organizations = subject.iter_organization().filter_map(|name| name.as_str().ok());
        let mut groups: Vec<String> = organizations.flat_map(|name| name.split(',')).map(str::to_owned).collect();
        groups.push("system:authenticated".to_owned());
        Some(Identity { user, groups })
    }
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authority.supported_verify_schemes()
    }
}
