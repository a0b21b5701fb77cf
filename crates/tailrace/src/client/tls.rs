//! TLS to the server: which authorities to trust, and which certificate to present.
//!
//! Deliberately absent: the system's authorities. Private servers have a private authority.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::ClientError;

/// Options of the verbs that connect to a server.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsArguments {
    /// Use TLS, and trust servers with a certificate of these authorities (PEM)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Present this certificate (PEM), if the server requires one
    #[arg(long, value_name = "FILE", requires = "tls_ca", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// Makes TLS connections. One serves all connections of a run.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl TlsArguments {
    /// Reads the files. `None` if TLS was not asked for.
    pub(crate) fn load(&self) -> Result<Option<Tls>, ClientError> {
        let Some(authorities) = &self.tls_ca else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in certificates("--tls-ca", authorities)? {
            roots.add(certificate).map_err(|error| unusable("--tls-ca", authorities, &error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("--tls-ca", authorities, &error))?
            .with_root_certificates(roots);
        let config = match (&self.tls_cert, &self.tls_key) {
            (Some(shown), Some(key)) => {
                let secret =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("--tls-key", key, &error))?;
                builder
                    .with_client_auth_cert(certificates("--tls-cert", shown)?, secret)
                    .map_err(|error| unusable("--tls-cert", shown, &error))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Some(Tls(TlsConnector::from(Arc::new(config)))))
    }
}

impl Tls {
    /// Runs the handshake with the server at `address` (HOST:PORT).
    pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        address: &str,
        stream: S,
    ) -> Result<TlsStream<S>, String> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
        self.0.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))
    }
}

fn certificates(flag: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => {
            Err(unusable(flag, path, &"there is no certificate in it (expected PEM)"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(flag, path, &error)),
    }
}

fn unusable(flag: &'static str, path: &Path, reason: &dyn std::fmt::Display) -> ClientError {
    ClientError::TlsFile { flag, path: path.to_owned(), reason: reason.to_string() }
}
