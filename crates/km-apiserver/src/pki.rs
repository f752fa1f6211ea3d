//! The cluster's certificates: one authority made at first start, everything else signed by it.
//!
//! Only the authority and the two client certificates that people and tests may have copied are kept; the serving
//! certificate is made anew at each start, so that it always names the addresses of today.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// The authority of a cluster.
pub struct Pki {
    directory: PathBuf,
    authority_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both PEM.
#[derive(Clone)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// What can go wrong with certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot use {}: {source}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{} holds no usable certificate or key ({reason}); restore it, or remove the pki directory to make a new authority (clients then need new kubeconfigs)", .path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

impl Pki {
    /// Loads the authority from `directory`, or makes it there at the first start. `ca.crt` is readable for all,
    /// `ca.key` for its owner only.
    pub fn ensure(directory: &Path) -> Result<Self, PkiError> {
        fs::create_dir_all(directory).map_err(|source| PkiError::Io { path: directory.to_owned(), source })?;
        let (certificate_path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
        if !certificate_path.exists() {
            make_authority(&certificate_path, &key_path)?;
        }
        let authority_pem = read(&certificate_path)?;
        let damaged =
            |path: &Path, error: rcgen::Error| PkiError::Damaged { path: path.to_owned(), reason: error.to_string() };
        let key = KeyPair::from_pem(&read(&key_path)?).map_err(|error| damaged(&key_path, error))?;
        let issuer =
            Issuer::from_ca_cert_pem(&authority_pem, key).map_err(|error| damaged(&certificate_path, error))?;
        Ok(Self { directory: directory.to_owned(), authority_pem, issuer })
    }

    /// The authority's certificate, PEM.
    pub fn authority(&self) -> &str {
        &self.authority_pem
    }

    /// The authority's certificate, DER.
    pub fn authority_der(&self) -> Result<CertificateDer<'static>, PkiError> {
        CertificateDer::from_pem_slice(self.authority_pem.as_bytes())
            .map_err(|error| PkiError::Damaged { path: self.directory.join("ca.crt"), reason: error.to_string() })
    }

    /// A server certificate for DNS names and IP addresses.
    pub fn server(&self, common_name: &str, names: &[String]) -> Result<Pair, PkiError> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = subject(common_name, &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A client certificate: `user` becomes the common name, `groups` the organizations.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Pair, PkiError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = subject(user, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A kubeconfig (YAML) with a fresh client certificate for `user` in `groups` and everything inline.
    pub fn kubeconfig(&self, user: &str, groups: &[&str], server_url: &str) -> Result<String, PkiError> {
        let pair = self.client(user, groups)?;
        let (authority, certificate, key) =
            (BASE64.encode(&self.authority_pem), BASE64.encode(pair.certificate), BASE64.encode(pair.key));
        Ok(format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: km\nclusters:\n- name: km\n  cluster:\n    \
             server: {server_url}\n    certificate-authority-data: {authority}\ncontexts:\n- name: km\n  context:\n    \
             cluster: km\n    user: \"{user}\"\nusers:\n- name: \"{user}\"\n  user:\n    \
             client-certificate-data: {certificate}\n    client-key-data: {key}\n"
        ))
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Pair, PkiError> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl Pair {
    /// Both parts as rustls wants them.
    pub fn for_rustls(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), PkiError> {
        let damaged = |error: rustls::pki_types::pem::Error| PkiError::Damaged {
            path: PathBuf::from("(a certificate made just now)"),
            reason: error.to_string(),
        };
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(damaged)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(damaged)?;
        Ok((vec![certificate], key))
    }
}

/// Writes a file that only its owner may read, whole or not at all.
pub fn write_private(path: &Path, text: &str) -> Result<(), PkiError> {
    let io = |source| PkiError::Io { path: path.to_owned(), source };
    let draft = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(io)?;
    file.write_all(text.as_bytes()).map_err(io)?;
    file.sync_all().map_err(io)?;
    fs::rename(&draft, path).map_err(io)
}

fn make_authority(certificate_path: &Path, key_path: &Path) -> Result<(), PkiError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = subject("km-ca", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    // The key first: a certificate without its key could never be completed by a later start.
    write_private(key_path, &key.serialize_pem())?;
    fs::write(certificate_path, certificate.pem())
        .map_err(|source| PkiError::Io { path: certificate_path.to_owned(), source })
}

fn subject(common_name: &str, organizations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    // rcgen keeps one value per attribute type, so several groups travel in one, which `client_auth` splits again.
    if !organizations.is_empty() {
        name.push(DnType::OrganizationName, organizations.join(","));
    }
    name.push(DnType::CommonName, common_name);
    name
}

fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|source| PkiError::Io { path: path.to_owned(), source })
}
