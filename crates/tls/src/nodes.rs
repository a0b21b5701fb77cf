//! TLS between nodes: version 1.3, and both ends show a certificate.
//!
//! A node's certificate must be valid for servers and for clients, and the dialing node checks it for the
//! name it dialed. So the certificates of mere clients give no access here, even if the same authority issued
//! both.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use tailrace_env::net::Stream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::bounded::Bounded;
use crate::error::{HandshakeError, TlsError, handshake_error};
use crate::files::{
    Stamps, authorities, certificates, private_key, stamps, warn_if_key_is_open, watch_files,
};
use crate::stream::TlsStream;

const CERTIFICATE: &str = "tailrace.cluster.tls.certificate.file";
const KEY: &str = "tailrace.cluster.tls.key.file";
const AUTHORITIES: &str = "tailrace.cluster.tls.ca.file";

struct Files {
    certificate: PathBuf,
    key: PathBuf,
    authorities: PathBuf,
}

struct Configs {
    server: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
}

/// Both sides of TLS, with one certificate.
pub struct PeerTls {
    files: Files,
    configs: ArcSwap<Configs>,
    /// Stamps of the files, taken before they were first read.
    read_at_start: Stamps,
}

impl PeerTls {
    /// Reads the node's certificate (with its intermediate certificates), its key, and the authorities of its
    /// peers. Blocks.
    ///
    /// # Errors
    /// A file is missing, unreadable or not PEM, or the key does not belong to the certificate.
    pub fn load(certificate: &Path, key: &Path, authorities: &Path) -> Result<Arc<Self>, TlsError> {
        let files = Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            authorities: authorities.to_owned(),
        };
        warn_if_key_is_open(KEY, &files.key);
        let read_at_start = files.stamps();
        let configs = ArcSwap::from_pointee(files.read()?);
        Ok(Arc::new(Self { files, configs, read_at_start }))
    }

    /// Reloads the files whenever they change, for new connections. Never returns. If the new files cannot be
    /// used, an error is logged and the current certificate stays.
    pub async fn watch(self: Arc<Self>) {
        let used = self.read_at_start.clone();
        watch_files(self, used, |tls| tls.files.stamps(), Self::reload).await;
    }

    fn reload(&self) -> Result<(), TlsError> {
        warn_if_key_is_open(KEY, &self.files.key);
        self.configs.store(Arc::new(self.files.read()?));
        Ok(())
    }

    /// Performs the accepting side of the handshake. There is no time limit.
    ///
    /// # Errors
    /// The other end does not speak TLS, shows no node certificate, or closes the connection.
    pub async fn accept(&self, stream: Stream) -> Result<TlsStream, HandshakeError> {
        let config = Arc::clone(&self.configs.load().server);
        let accepted = TlsAcceptor::from(config).accept(Bounded::elsewhere(stream)).await;
        accepted.map(TlsStream::from).map_err(handshake_error)
    }

    /// Performs the dialing side of the handshake with a node called `host`. There is no time limit. If the
    /// other end rejects this node's certificate, the first read fails, not the handshake.
    ///
    /// # Errors
    /// The other end does not speak TLS, is another host or not a node, or closes the connection.
    pub async fn connect(&self, host: &str, stream: Stream) -> io::Result<TlsStream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let config = Arc::clone(&self.configs.load().client);
        TlsConnector::from(config).connect(name, Bounded::elsewhere(stream)).await.map(TlsStream::from)
    }
}

impl Files {
    fn stamps(&self) -> Stamps {
        stamps([&self.certificate, &self.key, &self.authorities])
    }

    fn read(&self) -> Result<Configs, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = certificates(CERTIFICATE, &self.certificate)?;
        let key = private_key(KEY, &self.key)?;
        let roots = Arc::new(authorities(AUTHORITIES, &self.authorities)?);
        let content =
            |key, path: &Path, reason: String| TlsError::Content { key, path: path.to_owned(), reason };
        let versions = &[&rustls::version::TLS13];
        let unusable = |error: Error| content(CERTIFICATE, &self.certificate, error.to_string());
        let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(unusable)?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(|error| match error {
                Error::InconsistentKeys(_) => {
                    let other = self.certificate.display();
                    let reason = format!("it does not belong to the certificate in {other} ({CERTIFICATE})");
                    content(KEY, &self.key, reason)
                }
                error => unusable(error),
            })?;
        let verifier = PeerVerifier::new(roots, Arc::clone(&provider))
            .map_err(|reason| content(AUTHORITIES, &self.authorities, reason))?;
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(unusable)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        Ok(Configs { server: Arc::new(server), client: Arc::new(client) })
    }
}

/// Accepts certificates that are valid for a client and for a server.
struct PeerVerifier {
    of_clients: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl PeerVerifier {
    fn new(roots: Arc<RootCertStore>, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let of_clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| error.to_string())?;
        Ok(Self { of_clients, roots, provider })
    }
}

impl fmt::Debug for PeerVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerVerifier")
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.of_clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.of_clients.verify_client_cert(end_entity, intermediates, now)?;
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_clients.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_clients.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.of_clients.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_file_is_named_with_its_setting_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let [certificate, key] = ["c.pem", "k.pem"].map(|name| folder.path().join(name));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let tls = PeerTls::load(&certificate, &key, &certificate).unwrap();
        let first = tls.configs.load_full();
        std::fs::write(&key, "half a file").unwrap();
        assert_ne!(tls.files.stamps(), tls.read_at_start);
        assert!(matches!(tls.reload(), Err(TlsError::Content { key: KEY, .. })));
        assert!(Arc::ptr_eq(&first, &tls.configs.load_full()));
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        tls.reload().unwrap();
        assert!(!Arc::ptr_eq(&first, &tls.configs.load_full()));
    }
}
