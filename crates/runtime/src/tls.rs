//! TLS for every listener: one certificate, read from files, read again when they change.
//!
//! TLS 1.2 and 1.3 by rustls, with ring. Bounds: a handshake has a time limit, rustls keeps at most one record and
//! 64 KiB of handshake per connection, and a connection counts against its listener's limits from accept on.
//!
//! Deliberately not here: certificates per name (SNI), revocation lists, OCSP, keys that are encrypted, and what a client
//! certificate's name permits: a certificate opens the door, users and permissions are `nats::auth`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tailrace_config::{BrokerConfig, NatsTls, TlsClientAuth};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How often the files are looked at for a change. A look is three stat(2).
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// Largest file that is read; a chain of certificates has a few KiB, the system's authorities 250 KiB.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

const CERTIFICATE: &str = "tailrace.tls.certificate.file";
const KEY: &str = "tailrace.tls.key.file";
const AUTHORITIES: &str = "tailrace.tls.ca.file";

/// Why the certificates cannot be used. Each names the file and its setting.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system did not give the file.
    #[error("cannot read {} ({key}): {error}", .path.display())]
    Read {
        /// The setting.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file is not what it should be.
    #[error("{} ({key}): {reason}", .path.display())]
    Content {
        /// The setting.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Both files are fine, but do not belong together.
    #[error("the key in {} ({KEY}) does not belong to the certificate in {} ({CERTIFICATE})", .key.display(), .certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
}

/// Why a handshake came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The client took too long.
    #[error("the TLS handshake did not end within tailrace.tls.handshake.timeout.ms")]
    Timeout,
    /// The client does not speak TLS.
    #[error("the client does not speak TLS, which this listener demands")]
    NotTls,
    /// The client has closed the connection.
    #[error("the client closed the connection during the TLS handshake")]
    Closed,
    /// TLS or the socket failed.
    #[error("the TLS handshake failed: {0}")]
    Failed(io::Error),
}

/// Which files.
#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// Given if clients must show a certificate.
    authorities: Option<PathBuf>,
}

/// Time of change and length of each file: what tells that it was replaced.
pub type Stamps = Vec<Option<(SystemTime, u64)>>;

/// What the listeners that speak TLS share.
pub struct Tls {
    files: Files,
    config: ArcSwap<rustls::ServerConfig>,
    handshake_timeout: Duration,
    /// As the files were before they were first read.
    read_at_start: Stamps,
}

impl Tls {
    /// Reads the files, if a listener needs them.
    ///
    /// # Errors
    /// A file is missing, unreadable, no PEM, or key and certificate do not belong together.
    pub fn load(config: &BrokerConfig) -> Result<Option<Arc<Self>>, TlsError> {
        let nats = config.tailrace_nats_tls == NatsTls::Required;
        if !nats && !config.tailrace_kafka_tls && !config.tailrace_http_tls {
            return Ok(None);
        }
        let verifies = config.tailrace_tls_client_auth == TlsClientAuth::Required;
        let files = Files {
            certificate: PathBuf::from(&config.tailrace_tls_certificate_file),
            key: PathBuf::from(&config.tailrace_tls_key_file),
            authorities: verifies.then(|| PathBuf::from(&config.tailrace_tls_ca_file)),
        };
        warn_if_key_is_open(KEY, &files.key);
        let read_at_start = files.stamps();
        let server = ArcSwap::from(read(&files)?);
        let handshake_timeout = Duration::from_millis(config.tailrace_tls_handshake_timeout_ms);
        Ok(Some(Arc::new(Self { files, config: server, handshake_timeout, read_at_start })))
    }

    /// True if clients must show a certificate.
    pub fn verifies_clients(&self) -> bool {
        self.files.authorities.is_some()
    }

    /// Makes the server's side of the handshake on a fresh connection.
    ///
    /// # Errors
    /// The client does not speak TLS, shows no acceptable certificate, goes away or takes too long. It was told by an
    /// alert, where TLS has one.
    pub async fn accept<S>(&self, stream: S) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.accept_or_tell(stream, b"").await
    }

    /// As [`Tls::accept`]; a client that takes too long is sent `words` as they are, since it may wait for something.
    pub async fn accept_or_tell<S>(&self, stream: S, words: &[u8]) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut handshake = TlsAcceptor::from(self.config.load_full()).accept(stream);
        match tokio::time::timeout(self.handshake_timeout, &mut handshake).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(handshake_error(error)),
            Err(_) => {
                if let Some(stream) = handshake.get_mut() {
                    // Once, without waiting: what does not fit a fresh socket is not worth it.
                    let _ = tokio::time::timeout(Duration::ZERO, stream.write_all(words)).await;
                }
                Err(HandshakeError::Timeout)
            }
        }
    }

    /// Reads the files again whenever they change. Never ends. What cannot be used is reported, and the certificate in
    /// use stays; connections that are open keep theirs in any case.
    pub async fn watch(self: Arc<Self>) {
        let used = self.read_at_start.clone();
        watch_files(self, used, |tls| tls.files.stamps(), Self::reload).await;
    }

    fn reload(&self) -> Result<(), TlsError> {
        warn_if_key_is_open(KEY, &self.files.key);
        self.config.store(read(&self.files)?);
        Ok(())
    }
}

impl Files {
    fn stamps(&self) -> Stamps {
        stamps([Some(&self.certificate), Some(&self.key), self.authorities.as_ref()].into_iter().flatten())
    }
}

/// What tells whether one of these files was replaced.
pub fn stamps<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Stamps {
    let stamp = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    files.into_iter().map(stamp).collect()
}

/// Has `owner` read its files again whenever they change. Never ends.
pub async fn watch_files<T: Send + Sync + 'static>(
    owner: Arc<T>,
    mut used: Stamps,
    stamps: fn(&T) -> Stamps,
    reload: fn(&T) -> Result<(), TlsError>,
) {
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        let (owner, before) = (Arc::clone(&owner), used.clone());
        let look = move || {
            let found = stamps(&owner);
            (found != before).then(|| (found, reload(&owner)))
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(None) => {}
            Ok(Some((found, outcome))) => {
                used = found;
                report(outcome);
            }
            Err(error) => tracing::error!(%error, "reading the TLS files panicked"),
        }
    }
}

fn report(outcome: Result<(), TlsError>) {
    match outcome {
        Ok(()) => tracing::info!("the TLS certificate was read again and is used for new connections"),
        Err(error) => {
            tracing::error!(%error, "a changed TLS file cannot be used: the certificate read before stays");
        }
    }
}

/// A plain client's first bytes are no TLS record; rustls says so in this one way.
pub fn handshake_error(error: io::Error) -> HandshakeError {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidMessage(_)) => HandshakeError::NotTls,
        None if error.kind() == io::ErrorKind::UnexpectedEof => HandshakeError::Closed,
        _ => HandshakeError::Failed(error),
    }
}

fn read(files: &Files) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(CERTIFICATE, &files.certificate)?;
    let key = private_key(KEY, &files.key)?;
    let content = |key, path: &Path, reason: String| TlsError::Content { key, path: path.to_owned(), reason };
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| content(CERTIFICATE, &files.certificate, error.to_string()))?;
    let builder = match &files.authorities {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(client_verifier(path, provider)?),
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
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let content = |reason| TlsError::Content { key: AUTHORITIES, path: path.to_owned(), reason };
    let roots = authorities(AUTHORITIES, path)?;
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| content(error.to_string()))
}

/// Whoever issues certificates that are trusted.
pub fn authorities(key: &'static str, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, path)? {
        let content = |reason| TlsError::Content { key, path: path.to_owned(), reason };
        roots.add(certificate).map_err(|error| content(error.to_string()))?;
    }
    Ok(roots)
}

/// The certificates of a PEM file, that of the setting `key`.
///
/// # Errors
/// [`TlsError`]: it cannot be read, or holds none.
pub fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = |reason| TlsError::Content { key, path: path.to_owned(), reason };
    let bytes = bytes(key, path)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(content("there is no certificate in it (expected PEM)".to_owned()))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(content(format!("it is no PEM: {error}"))),
    }
}

/// The private key of a PEM file, that of the setting `key`.
///
/// # Errors
/// [`TlsError`]: it cannot be read, or holds none.
pub fn private_key(key: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let content = |reason| TlsError::Content { key, path: path.to_owned(), reason };
    PrivateKeyDer::from_pem_slice(&bytes(key, path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => content(
            "there is no unencrypted private key in it (expected PEM: PKCS #8, PKCS #1 or SEC1)".to_owned(),
        ),
        // Its text could show a part of the file.
        _ => content("it is no PEM".to_owned()),
    })
}

fn bytes(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error| TlsError::Read { key, path: path.to_owned(), error };
    let found = std::fs::metadata(path).map_err(failed)?;
    if found.len() > FILE_BYTES_MAX {
        let reason = format!("it has {} bytes, more than {FILE_BYTES_MAX}", found.len());
        return Err(TlsError::Content { key, path: path.to_owned(), reason });
    }
    std::fs::read(path).map_err(failed)
}

/// What cannot be read at all is reported when it is read.
pub fn warn_if_key_is_open(key: &'static str, path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(found) = std::fs::metadata(path) else { return };
    if found.permissions().mode() & 0o007 != 0 {
        tracing::warn!(
            path = %path.display(), key,
            "everybody on this machine may read or change the private key: chmod 600 (or 640) it"
        );
    }
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
        let first = tls.config.load_full();
        assert_eq!(tls.read_at_start.len(), 2);
        assert_eq!(tls.files.stamps(), tls.read_at_start);
        write_pair(folder.path());
        assert_ne!(tls.files.stamps(), tls.read_at_start);
        tls.reload().unwrap();
        let second = tls.config.load_full();
        assert!(!Arc::ptr_eq(&first, &second));

        std::fs::write(folder.path().join("k.pem"), "half a file").unwrap();
        assert!(matches!(tls.reload(), Err(TlsError::Content { key: KEY, .. })));
        assert!(Arc::ptr_eq(&second, &tls.config.load_full()));
    }
}
