//! Test certificates: an authority, a server certificate for 127.0.0.1 and localhost, a client certificate,
//! and certificates from other authorities.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair,
};
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate authority in a folder: `ca.pem`, plus `NAME.pem` and `NAME.key` for each certificate it
/// issued.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an issuer");
        let folder = TempDir::new().expect("a temporary folder");
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).expect("the file can be written");
        let authority = Self { issuer, folder };
        authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth);
        authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth);
        authority
    }

    /// Issues a new certificate and key under this name. Earlier ones are replaced.
    pub fn issue(&self, name: &str, purpose: ExtendedKeyUsagePurpose) {
        self.issue_to(name, purpose, "test");
    }

    /// The same, with this common name.
    pub fn issue_to(&self, name: &str, purpose: ExtendedKeyUsagePurpose, common_name: &str) {
        self.issue_as(name, &Self::params(purpose, common_name));
    }

    /// The same, valid from the beginning of one year to that of another.
    pub fn issue_valid(&self, name: &str, purpose: ExtendedKeyUsagePurpose, (from, to): (i32, i32)) {
        let mut params = Self::params(purpose, "test");
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        self.issue_as(name, &params);
    }

    fn params(purpose: ExtendedKeyUsagePurpose, common_name: &str) -> CertificateParams {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("legal names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages = vec![purpose];
        params
    }

    /// Issues a certificate with these parameters.
    pub fn issue_as(&self, name: &str, params: &CertificateParams) {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem())
            .expect("the file can be written");
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem())
            .expect("the file can be written");
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Returns the settings that name the server's certificate, followed by those in `more`.
    pub fn settings<'a>(&self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, String)> {
        let text = |path: PathBuf| path.display().to_string();
        let mut settings = vec![
            ("tailrace.tls.certificate.file", text(self.path("server.pem"))),
            ("tailrace.tls.key.file", text(self.path("server.key"))),
            ("tailrace.tls.ca.file", text(self.path("ca.pem"))),
        ];
        settings.extend(more.iter().map(|&(key, value)| (key, value.to_owned())));
        settings
    }

    /// Returns the configuration of a client that trusts this authority. If `shown` is given, the client
    /// presents that owner's certificate.
    pub fn client(&self, shown: Option<(&Authority, &str)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(one_certificate(&self.path("ca.pem"))).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some((owner, name)) => {
                let certificate = one_certificate(&owner.path(&format!("{name}.pem")));
                let key = PrivateKeyDer::from_pem_file(owner.path(&format!("{name}.key"))).expect("a key");
                builder.with_client_auth_cert(vec![certificate], key).expect("a pair")
            }
        };
        Arc::new(config)
    }
}

fn one_certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

/// Performs the client side of the handshake.
pub async fn handshake(
    config: Arc<ClientConfig>,
    stream: TcpStream,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").expect("a legal name");
    TlsConnector::from(config).connect(name, stream).await
}
