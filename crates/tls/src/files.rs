//! The TLS files: reading them, and detecting that they were replaced.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tailrace_env::file_stamp::FileStamp;
use tailrace_env::time::Duration;
use tailrace_env::{task, time};

use crate::error::TlsError;

/// Interval between checks for changed files. A check is three stat(2) calls.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum size of a file. A certificate chain has a few KiB, the system's authorities 250 KiB.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// One stamp per file. `None` if the file does not exist.
pub(crate) type Stamps = Vec<Option<FileStamp>>;

/// Returns the stamps of these files.
pub(crate) fn stamps<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Stamps {
    files.into_iter().map(|path| FileStamp::of(path)).collect()
}

/// Lets `owner` reload its files whenever they change. Never returns.
pub(crate) async fn watch_files<T: Send + Sync + 'static>(
    owner: Arc<T>,
    mut used: Stamps,
    stamps: fn(&T) -> Stamps,
    reload: fn(&T) -> Result<(), TlsError>,
) {
    loop {
        time::sleep(RELOAD_INTERVAL).await;
        let (owner, before) = (Arc::clone(&owner), used.clone());
        let look = move || {
            let found = stamps(&owner);
            (found != before).then(|| (found, reload(&owner)))
        };
        match task::spawn_blocking(look).await {
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
        Ok(()) => tracing::info!("the TLS certificate was reloaded and is used for new connections"),
        Err(error) => {
            tracing::error!(%error, "a changed TLS file cannot be used: the current certificate stays");
        }
    }
}

/// Returns the trusted authorities in a PEM file, that of the setting `key`.
pub(crate) fn authorities(key: &'static str, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, path)? {
        let content = |reason| TlsError::Content { key, path: path.to_owned(), reason };
        roots.add(certificate).map_err(|error| content(error.to_string()))?;
    }
    Ok(roots)
}

/// Returns the certificates in a PEM file, that of the setting `key`.
///
/// # Errors
/// [`TlsError`] if the file cannot be read, or holds none.
pub(crate) fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = |reason| TlsError::Content { key, path: path.to_owned(), reason };
    let bytes = bytes(key, path)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(content("there is no certificate in it (expected PEM)".to_owned()))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(content(format!("it is not PEM: {error}"))),
    }
}

/// Returns the private key in a PEM file, that of the setting `key`.
///
/// # Errors
/// [`TlsError`] if the file cannot be read, or holds none.
pub(crate) fn private_key(key: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let content = |reason| TlsError::Content { key, path: path.to_owned(), reason };
    PrivateKeyDer::from_pem_slice(&bytes(key, path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => content(
            "there is no unencrypted private key in it (expected PEM: PKCS #8, PKCS #1 or SEC1)".to_owned(),
        ),
        // The error's own text could show a part of the file.
        _ => content("it is not PEM".to_owned()),
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

/// Warns if other users of this machine may access the private key. A file that cannot be read is reported
/// when it is read.
pub(crate) fn warn_if_key_is_open(key: &'static str, path: &Path) {
    let Ok(found) = std::fs::metadata(path) else { return };
    if found.permissions().mode() & 0o007 != 0 {
        tracing::warn!(
            path = %path.display(), key,
            "every user of this machine may read or change the private key: chmod 600 (or 640) it"
        );
    }
}
