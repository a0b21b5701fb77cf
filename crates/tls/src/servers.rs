//! TLS to servers of others, such as the identity provider whose keys verify tokens.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tailrace_env::net::Stream;
use tokio_rustls::TlsConnector;

use crate::bounded::Bounded;
use crate::error::TlsError;
use crate::files::{authorities, certificates};
use crate::stream::TlsStream;

/// Where systems keep the authorities that they trust, in one file: Debian, Fedora, Red Hat, openSUSE,
/// Alpine.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The client's side of TLS, without a certificate of its own. TLS 1.2 and 1.3.
pub struct ServersTls(Arc<rustls::ClientConfig>);

impl ServersTls {
    /// Reads the authorities from the file of the setting `key`, or else those of the system. Blocks.
    ///
    /// # Errors
    /// The file cannot be used, or the system has no authorities.
    pub fn load(key: &'static str, file: Option<&Path>) -> Result<Self, TlsError> {
        let roots = match file {
            Some(file) => authorities(key, file)?,
            None => of_the_system(key, &SYSTEM_FILES.map(Path::new))?,
        };
        let content = |reason: String| {
            let path = file.map_or_else(PathBuf::new, Path::to_owned);
            TlsError::Content { key, path, reason }
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| content(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Performs the handshake with a server called `host`. There is no time limit.
    ///
    /// # Errors
    /// The other end does not speak TLS, shows no certificate for this host, or closes the connection.
    pub async fn connect(&self, host: &str, stream: Stream) -> io::Result<TlsStream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::clone(&self.0))
            .connect(name, Bounded::elsewhere(stream))
            .await
            .map(TlsStream::from)
    }
}

/// Returns the authorities in the first of these files that is there. Systems may list some that rustls does
/// not understand: these are left out.
fn of_the_system(key: &'static str, files: &[&Path]) -> Result<RootCertStore, TlsError> {
    let file = files.iter().find(|file| file.exists()).ok_or_else(|| TlsError::Content {
        key,
        path: PathBuf::from(SYSTEM_FILES[0]),
        reason: "the system has no file of authorities where one is expected: name one in the setting"
            .to_owned(),
    })?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(key, file)?);
    if added == 0 {
        let reason = "none of its authorities can be used".to_owned();
        return Err(TlsError::Content { key, path: (*file).to_owned(), reason });
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "a.setting";

    #[test]
    fn the_first_file_of_the_system_counts_and_without_one_the_setting_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let [missing, file] = ["missing", "some"].map(|name| folder.path().join(name));
        std::fs::write(&file, made.cert.pem()).unwrap();
        assert_eq!(of_the_system(KEY, &[&missing, &file]).unwrap().len(), 1);
        let error = of_the_system(KEY, &[&missing]).unwrap_err();
        assert!(matches!(error, TlsError::Content { key: KEY, .. }), "{error}");
        std::fs::write(&file, "no certificate").unwrap();
        assert!(of_the_system(KEY, &[&file]).is_err());
        assert!(ServersTls::load(KEY, Some(&missing)).is_err());
    }
}
