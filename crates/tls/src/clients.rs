//! TLS of listeners: one certificate, read from files and reloaded when they change. TLS 1.2 and 1.3.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tailrace_config::{BrokerConfig, NatsTls, TlsClientAuth};
use tailrace_env::io::AsyncWriteExt as _;
use tailrace_env::net::Stream;
use tailrace_env::select;
use tailrace_env::time::{self, Duration};
use tokio_rustls::TlsAcceptor;

use crate::bounded::Bounded;
use crate::error::{CERTIFICATE, HandshakeError, KEY, TlsError, handshake_error};
use crate::files::{
    Stamps, authorities, certificates, private_key, stamps, warn_if_key_is_open, watch_files,
};
use crate::stream::TlsStream;
use crate::under_way::UnderWay;

const AUTHORITIES: &str = "tailrace.tls.ca.file";

/// The files.
#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// `Some` if clients of a listener may or must show a certificate.
    authorities: Option<PathBuf>,
}

/// What rustls needs, by what clients show.
type Servers = Vec<(TlsClientAuth, Arc<rustls::ServerConfig>)>;

/// The state that all TLS listeners share.
pub struct Tls {
    files: Files,
    /// What clients show, unless the listener says something else.
    client_auth: TlsClientAuth,
    /// For `client_auth` first, then for listeners with something else.
    servers: ArcSwap<Servers>,
    handshake_timeout: Duration,
    under_way: UnderWay,
    /// Stamps of the files, taken before they were first read.
    read_at_start: Stamps,
}

impl Tls {
    /// Reads the files if a listener uses TLS. `None` if none does.
    ///
    /// # Errors
    /// A file is missing, unreadable or not PEM, or the key does not belong to the certificate.
    pub fn load(config: &BrokerConfig) -> Result<Option<Arc<Self>>, TlsError> {
        let nats = config.tailrace_nats_tls == NatsTls::Required;
        if !nats && !config.kafka_uses_tls() && !config.tailrace_http_tls {
            return Ok(None);
        }
        let client_auth = config.tailrace_tls_client_auth;
        let mut kinds = vec![client_auth];
        for listener in config.kafka_listeners().iter().filter(|listener| listener.protocol.uses_tls()) {
            if !kinds.contains(&listener.client_auth) {
                kinds.push(listener.client_auth);
            }
        }
        let verifies = kinds.iter().any(|kind| *kind != TlsClientAuth::None);
        let files = Files {
            certificate: PathBuf::from(&config.tailrace_tls_certificate_file),
            key: PathBuf::from(&config.tailrace_tls_key_file),
            authorities: verifies.then(|| PathBuf::from(&config.tailrace_tls_ca_file)),
        };
        warn_if_key_is_open(KEY, &files.key);
        let read_at_start = files.stamps();
        let servers = ArcSwap::from_pointee(read_all(&files, kinds)?);
        let handshake_timeout = Duration::from_millis(config.tailrace_tls_handshake_timeout_ms);
        let under_way = UnderWay::default();
        Ok(Some(Arc::new(Self { files, client_auth, servers, handshake_timeout, under_way, read_at_start })))
    }

    /// Performs the server's side of the handshake on a new connection.
    ///
    /// # Errors
    /// The client does not speak TLS, shows no acceptable certificate, closes the connection, takes too long
    /// or sends too much, or too many others have begun handshakes since. Where TLS has an alert for the
    /// error, the client was sent one.
    pub async fn accept(&self, stream: Stream) -> Result<TlsStream, HandshakeError> {
        self.accept_with(stream, self.client_auth).await
    }

    /// Works as [`Tls::accept`], on a listener whose clients show what `client_auth` says.
    ///
    /// # Errors
    /// As [`Tls::accept`].
    pub async fn accept_with(
        &self,
        stream: Stream,
        client_auth: TlsClientAuth,
    ) -> Result<TlsStream, HandshakeError> {
        self.shake_hands(stream, client_auth, b"").await
    }

    /// Works as [`Tls::accept`], but sends `words` unencrypted to a client that takes too long, in case it
    /// waits for the server to speak first.
    ///
    /// # Errors
    /// As [`Tls::accept`].
    pub async fn accept_or_tell(&self, stream: Stream, words: &[u8]) -> Result<TlsStream, HandshakeError> {
        self.shake_hands(stream, self.client_auth, words).await
    }

    async fn shake_hands(
        &self,
        stream: Stream,
        client_auth: TlsClientAuth,
        words: &[u8],
    ) -> Result<TlsStream, HandshakeError> {
        let server = self.server(client_auth);
        let place = self.under_way.begin();
        let stream = Bounded::of_client(stream, client_auth != TlsClientAuth::None);
        let mut handshake = TlsAcceptor::from(server).accept(stream);
        let ended = select! {
            ended = time::timeout(self.handshake_timeout, &mut handshake) => ended,
            () = place.is_taken() => return Err(HandshakeError::TooMany),
        };
        match ended {
            Ok(Ok(mut stream)) => {
                stream.get_mut().0.open();
                Ok(stream.into())
            }
            Ok(Err(error)) => Err(handshake_error(error)),
            Err(_) => {
                if let Some(stream) = handshake.get_mut() {
                    // A single attempt without waiting. What does not fit an empty socket buffer is dropped.
                    let _ = time::timeout(Duration::ZERO, stream.write_all(words)).await;
                }
                Err(HandshakeError::Timeout)
            }
        }
    }

    /// Returns what rustls needs.
    ///
    /// # Panics
    /// If no listener of the settings has this `client_auth`.
    fn server(&self, client_auth: TlsClientAuth) -> Arc<rustls::ServerConfig> {
        let servers = self.servers.load();
        match servers.iter().find(|(kind, _)| *kind == client_auth) {
            Some((_, server)) => Arc::clone(server),
            None => panic!("no listener asks for client certificates as {client_auth}"),
        }
    }

    /// Reloads the files whenever they change. Never returns. If the new files cannot be used, an error is
    /// logged and the current certificate stays. Open connections keep theirs in any case.
    pub async fn watch(self: Arc<Self>) {
        let used = self.read_at_start.clone();
        watch_files(self, used, |tls| tls.files.stamps(), Self::reload).await;
    }

    fn reload(&self) -> Result<(), TlsError> {
        warn_if_key_is_open(KEY, &self.files.key);
        let kinds = self.servers.load().iter().map(|(kind, _)| *kind).collect();
        self.servers.store(Arc::new(read_all(&self.files, kinds)?));
        Ok(())
    }
}

impl Files {
    fn stamps(&self) -> Stamps {
        stamps([Some(&self.certificate), Some(&self.key), self.authorities.as_ref()].into_iter().flatten())
    }
}

/// Reads the files once for each kind.
fn read_all(files: &Files, kinds: Vec<TlsClientAuth>) -> Result<Servers, TlsError> {
    kinds.into_iter().map(|kind| Ok((kind, read(files, kind)?))).collect()
}

fn read(files: &Files, client_auth: TlsClientAuth) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(CERTIFICATE, &files.certificate)?;
    let key = private_key(KEY, &files.key)?;
    let content = |key, path: &Path, reason: String| TlsError::Content { key, path: path.to_owned(), reason };
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| content(CERTIFICATE, &files.certificate, error.to_string()))?;
    let builder = match files.authorities.as_ref().filter(|_| client_auth != TlsClientAuth::None) {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let is_required = client_auth == TlsClientAuth::Required;
            builder.with_client_cert_verifier(client_verifier(path, provider, is_required)?)
        }
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Mismatch { certificate: files.certificate.clone(), key: files.key.clone() }
        }
        rustls::Error::InvalidCertificate(_) => content(CERTIFICATE, &files.certificate, error.to_string()),
        _ => content(KEY, &files.key, format!("this key cannot be used: {error}")),
    })?;
    Ok(Arc::new(config))
}

fn client_verifier(
    path: &Path,
    provider: Arc<rustls::crypto::CryptoProvider>,
    is_required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let content = |reason| TlsError::Content { key: AUTHORITIES, path: path.to_owned(), reason };
    let roots = authorities(AUTHORITIES, path)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| content(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tailrace_config::DynamicConfigs;

    use super::*;

    fn write_pair(folder: &Path) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(folder.join("c.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("k.pem"), made.signing_key.serialize_pem()).unwrap();
    }

    #[test]
    fn changed_files_are_used_if_they_can_be() {
        let folder = tempfile::tempdir().unwrap();
        write_pair(folder.path());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let settings: BTreeMap<String, String> =
            [(CERTIFICATE, path("c.pem")), (KEY, path("k.pem")), ("tailrace.kafka.tls", "true".to_owned())]
                .map(|(key, value)| (key.to_owned(), value))
                .into();
        let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default()).unwrap();
        let tls = Tls::load(&config).unwrap().unwrap();
        let first = tls.server(TlsClientAuth::None);
        assert_eq!(tls.read_at_start.len(), 2);
        assert_eq!(tls.files.stamps(), tls.read_at_start);
        write_pair(folder.path());
        assert_ne!(tls.files.stamps(), tls.read_at_start);
        tls.reload().unwrap();
        let second = tls.server(TlsClientAuth::None);
        assert!(!Arc::ptr_eq(&first, &second));

        std::fs::write(folder.path().join("k.pem"), "half a file").unwrap();
        assert!(matches!(tls.reload(), Err(TlsError::Content { key: KEY, .. })));
        assert!(Arc::ptr_eq(&second, &tls.server(TlsClientAuth::None)));
    }
}
