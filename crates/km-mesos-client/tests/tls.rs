//! TLS between client and master: an authority of the test's own, and a server that ends TLS before a scripted master.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod server;

use std::{path::PathBuf, sync::Arc, time::Duration};

use km_mesos_client::{
    Authority, ClientError, MasterAddress, Masters, Tls,
    scheduler::{Options, connect},
    tls::{ClientIdentity, TlsError},
};
use km_mesos_proto::v1::{
    self,
    scheduler::{Call, call},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use server::{Server, authority, redirect, willing_master};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

/// An authority and the certificates that it gave, as PEM files.
struct Authorities {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authorities {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `NAME.pem` and `NAME.key` for a server or client of that name.
    fn certify(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn certificate(&self, name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.file(&format!("{name}.pem"))).unwrap()
    }

    /// Ends TLS with the certificate for `name` and passes on to `plain`; with `ask`, only clients that show a
    /// certificate come through.
    async fn terminate(&self, name: &str, ask: bool, plain: &Authority) -> Authority {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let builder = if ask {
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate("ca")).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from_pem_file(self.file(&format!("{name}.key"))).unwrap();
        let config = builder.with_single_cert(vec![self.certificate(name)], key).unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = authority(&listener).port;
        let plain = plain.to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, plain) = (acceptor.clone(), plain.clone());
                tokio::spawn(async move {
                    // A client that doesn't trust us hangs up; that is its test's business.
                    let Ok(mut secure) = acceptor.accept(stream).await else { return };
                    let mut plain = TcpStream::connect(plain).await.unwrap();
                    let _ended = tokio::io::copy_bidirectional(&mut secure, &mut plain).await;
                });
            }
        });
        Authority { host: "localhost".to_owned(), port }
    }

    fn tls(&self, identity: Option<&str>) -> Result<Tls, TlsError> {
        let files = identity.map(|name| (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key"))));
        let identity = files.as_ref().map(|(certificates, key)| ClientIdentity { certificates, key });
        Tls::load(&self.file("ca.pem"), identity)
    }
}

/// Subscribes and sends one call.
async fn speak(master: MasterAddress, tls: Option<Tls>) -> Result<(), ClientError> {
    let options =
        Options { subscribe_deadline: Duration::from_secs(2), ..Options::with_masters(Masters::new(master, tls)) };
    let (session, _events) = connect(options)?.subscribe(v1::FrameworkInfo::default(), vec![]).await?;
    session.call(Call { r#type: Some(call::Type::Revive.into()), ..Default::default() }).await
}

#[tokio::test]
async fn masters_speak_tls_and_are_known_by_their_names() {
    let authorities = Authorities::new();
    for name in ["localhost", "elsewhere.example"] {
        authorities.certify(name);
    }
    let plain = willing_master().await;
    let secure = authorities.terminate("localhost", false, &plain.authority).await;
    // The address need not say https again.
    for address in [MasterAddress::List(vec![secure.clone()]), MasterAddress::Https(vec![secure.clone()])] {
        speak(address, Some(authorities.tls(None).unwrap())).await.unwrap();
    }
    assert_eq!(plain.seen().len(), 4, "each subscribed and called");

    let impostor = authorities.terminate("elsewhere.example", false, &plain.authority).await;
    let error = speak(MasterAddress::List(vec![impostor]), Some(authorities.tls(None).unwrap())).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    let strangers = Authorities::new();
    let error = speak(MasterAddress::List(vec![secure]), Some(strangers.tls(None).unwrap())).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    assert_eq!(plain.seen().len(), 4, "nothing was said to a server that isn't trusted");
}

#[tokio::test]
async fn a_master_that_asks_for_a_certificate_gets_ours() {
    let authorities = Authorities::new();
    authorities.certify("localhost");
    authorities.certify("scheduler");
    let plain = willing_master().await;
    let secure = MasterAddress::Https(vec![authorities.terminate("localhost", true, &plain.authority).await]);
    let error = speak(secure.clone(), Some(authorities.tls(None).unwrap())).await.unwrap_err();
    assert!(plain.seen().is_empty(), "{error}");
    speak(secure, Some(authorities.tls(Some("scheduler")).unwrap())).await.unwrap();
    assert_eq!(plain.seen().len(), 2);
}

#[tokio::test]
async fn redirects_do_not_leave_tls() {
    let authorities = Authorities::new();
    authorities.certify("localhost");
    let leader = willing_master().await;
    let secure = authorities.terminate("localhost", false, &leader.authority).await;
    // Even if the location says http: it names a server, not a way to speak.
    let target = format!("http://{secure}/api/v1/scheduler");
    let follower = Server::start(move |_, _| redirect(&target)).await;
    let follower = authorities.terminate("localhost", false, &follower.authority).await;
    speak(MasterAddress::Https(vec![follower]), Some(authorities.tls(None).unwrap())).await.unwrap();
    assert_eq!(leader.seen().len(), 2);
}

#[tokio::test]
async fn https_without_an_authority_is_refused_before_anything_is_sent() {
    let plain = willing_master().await;
    let error = speak(MasterAddress::Https(vec![plain.authority.clone()]), None).await.unwrap_err();
    assert!(error.to_string().contains("needs the certificate of an authority"), "{error}");
    assert!(plain.seen().is_empty());
}

#[test]
fn unusable_files_are_named() {
    let authorities = Authorities::new();
    authorities.certify("a");
    authorities.certify("b");
    let write = |name: &str, text: &str| std::fs::write(authorities.file(name), text).unwrap();
    write("empty.pem", "");
    write("empty.key", "");
    write("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    std::fs::copy(authorities.file("b.key"), authorities.file("mixed.key")).unwrap();
    std::fs::copy(authorities.file("a.pem"), authorities.file("mixed.pem")).unwrap();
    std::fs::copy(authorities.file("a.pem"), authorities.file("keyless.pem")).unwrap();
    for (name, file) in [("mixed", "mixed.key"), ("empty", "empty.key"), ("keyless", "keyless.key")] {
        let error = authorities.tls(Some(name)).unwrap_err();
        assert_eq!(error.path, authorities.file(file), "{error}");
    }
    for name in ["none.pem", "empty.pem", "broken.pem"] {
        let error = Tls::load(&authorities.file(name), None).unwrap_err();
        assert_eq!(error.path, authorities.file(name), "{error}");
    }
}
