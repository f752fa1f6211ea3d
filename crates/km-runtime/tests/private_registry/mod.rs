//! Debian's docker-registry on loopback, by HTTPS with an authority of our own, and with passwords.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use km_runtime::{RegistryAuth, images::ImageStore};
use oci_client::{
    Client,
    client::{Certificate, CertificateEncoding, ClientConfig, Config, ImageLayer},
    secrets::RegistryAuth as Auth,
};

use crate::{Image, gzip};

/// `puller` with the password `secret`, as `htpasswd -B` writes it.
const PASSWORDS: &str = "puller:$2b$04$zhcClECdzf6.YZm0YgZ6lu5upnAQ26pZt3WVrGnruG/zb3Ep7LhNW\n";
const DEADLINE: Duration = Duration::from_secs(60);

struct Registry {
    process: Child,
    address: SocketAddr,
    authority: String,
}

impl Registry {
    fn start(folder: &Path) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], km_testkit::free_port()));
        let (authority, certificate, key) = certificates();
        let path = |name: &str| folder.join(name).display().to_string();
        for (name, content) in [("cert.pem", &certificate), ("key.pem", &key), ("htpasswd", &PASSWORDS.to_owned())] {
            fs::write(folder.join(name), content).unwrap();
        }
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             auth: {{htpasswd: {{realm: test, path: {}}}}}\n\
             http: {{addr: '{address}', tls: {{certificate: {}, key: {}}}}}\n",
            path("storage"),
            path("htpasswd"),
            path("cert.pem"),
            path("key.pem"),
        );
        fs::write(folder.join("registry.yml"), config).unwrap();
        let log = fs::File::create(folder.join("registry.log")).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(folder.join("registry.yml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("docker-registry can be started (Debian package docker-registry)");
        let registry = Self { process, address, authority };
        let deadline = Instant::now() + DEADLINE;
        while TcpStream::connect(address).is_err() {
            let log = fs::read_to_string(folder.join("registry.log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "the registry does not listen: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        registry
    }

    /// Pushes an image as `team/app:v1`.
    async fn push(&self, image: &Image) -> String {
        let text = format!("{}/team/app:v1", self.address);
        let layers = image
            .layers
            .iter()
            .map(|layer| ImageLayer::new(gzip(layer), "application/vnd.oci.image.layer.v1.tar+gzip".to_owned(), None));
        let config = Config::new(image.config.clone(), "application/vnd.oci.image.config.v1+json".to_owned(), None);
        let data = self.authority.clone().into_bytes();
        let authority = Certificate { encoding: CertificateEncoding::Pem, data };
        let client = ClientConfig { extra_root_certificates: vec![authority], ..ClientConfig::default() };
        let client = Client::try_from(client).unwrap();
        let auth = Auth::Basic("puller".to_owned(), "secret".to_owned());
        client.push(&text.parse().unwrap(), &layers.collect::<Vec<_>>(), config, &auth, None).await.unwrap();
        text
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It may have ended by itself; then there is only the waiting left.
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Authority, certificate and key of a server on 127.0.0.1.
fn certificates() -> (String, String, String) {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(params, key);
    let own_key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let own = own.signed_by(&own_key, &issuer).unwrap();
    (authority.pem(), own.pem(), own_key.serialize_pem())
}

#[tokio::test]
async fn a_private_registry_needs_its_authority_and_its_password() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::start(folder.path());
    let image = Image::new(b"private");
    let reference = registry.push(&image).await;
    let certs = folder.path().join("certs");
    let store = ImageStore::open(&folder.path().join("images")).unwrap().trusting(&certs);
    let auth = |password: &str| Some(RegistryAuth { username: "puller".into(), password: password.into() });

    // Nobody vouches for it: it is asked without TLS, as any registry of this machine.
    let error = store.pull(&reference, auth("secret")).await.unwrap_err().to_string();
    assert!(error.contains(&registry.address.to_string()), "{error}");
    let own = certs.join(registry.address.to_string());
    fs::create_dir_all(&own).unwrap();
    let (other, _, _) = certificates();
    fs::write(own.join("other.crt"), other).unwrap();
    let error = store.pull(&reference, auth("secret")).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");

    fs::write(own.join("ca.crt"), &registry.authority).unwrap();
    for wrong in [None, auth("wrong")] {
        let error = store.pull(&reference, wrong).await.unwrap_err().to_string();
        assert!(error.to_lowercase().contains("auth"), "{error}");
    }
    let info = store.pull(&reference, auth("secret")).await.unwrap();
    assert_eq!((info.id.as_str(), &info.references), (image.id().as_str(), &vec![reference]));
}
