//! Logins with a token: the issuer's keys come from a file, which is read again when it changes.
//!
//! Like the files of TLS it is read with std: it belongs to the operator, not to the node, and a simulated
//! node has none.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::{task, time};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tailrace_config::BrokerConfig;
use tailrace_identity::oauth::{
    Jwks, JwksError, MissingKeys, Token, TokenError, TokenSettings, TokenSettingsError, TokenValidator,
};
use tailrace_types::TimestampMs;

use super::metrics::AccessMetrics;

/// Interval between checks for a changed file. A check is one stat(2) call.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum size of the file, in bytes: one more than a key set may have, so that [`Jwks`] says what is wrong.
const FILE_BYTES_MAX: u64 = (1 << 20) + 1;

/// Why tokens cannot be validated.
#[derive(Debug, thiserror::Error)]
pub enum TokenKeysError {
    /// The file with the keys could not be read.
    #[error("cannot read {} (sasl.oauthbearer.jwks.endpoint.url): {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file's content is wrong.
    #[error("{} (sasl.oauthbearer.jwks.endpoint.url): {error}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: JwksError,
    },
    /// A setting of tokens is out of its range.
    #[error("configuration: a setting of sasl.oauthbearer or tailrace.oauthbearer is wrong: {0}")]
    Settings(#[from] TokenSettingsError),
}

/// Identity of a file's content. A different one means that the file was replaced or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    seconds: i64,
    nanos: i64,
    bytes: u64,
}

/// Validates tokens.
pub(super) struct Tokens {
    validator: TokenValidator,
    path: PathBuf,
    keys: ArcSwap<Jwks>,
    missing: Mutex<MissingKeys>,
    /// The file that was last read, used or not. `None` if there was none. Held while it is read.
    last_read: Mutex<Option<Stamp>>,
    metrics: Arc<AccessMetrics>,
}

impl Tokens {
    /// Reads the keys if the settings let clients log in with tokens. `None` if they do not.
    ///
    /// # Errors
    /// See [`TokenKeysError`].
    pub(super) fn load(
        config: &BrokerConfig,
        metrics: Arc<AccessMetrics>,
    ) -> Result<Option<Arc<Self>>, TokenKeysError> {
        let Some(path) = config.token_key_file().filter(|_| config.accepts_tokens()) else { return Ok(None) };
        let validator = TokenValidator::new(settings(config))?;
        let path = PathBuf::from(path);
        let last_read = Mutex::new(stamp(&path));
        let keys = ArcSwap::from_pointee(read(&path)?);
        let missing = Mutex::default();
        Ok(Some(Arc::new(Self { validator, path, keys, missing, last_read, metrics })))
    }

    /// Validates a token. If its key is unknown, looks for a newer file first, at most 16 times a minute.
    ///
    /// # Errors
    /// The token is refused.
    pub(super) async fn validate(
        self: &Arc<Self>,
        token: &str,
        now: TimestampMs,
    ) -> Result<Token, TokenError> {
        let found = self.validator.validate(token, &self.keys.load(), now.0);
        let Err(TokenError::UnknownKid { kid }) = &found else { return found };
        if !self.missing.lock().is_reason_to_refresh(kid, now.0) {
            return found;
        }
        let tokens = Arc::clone(self);
        match task::spawn_blocking(move || tokens.refresh()).await {
            Ok(()) => self.validator.validate(token, &self.keys.load(), now.0),
            Err(_) => found,
        }
    }

    /// Reads the file again whenever it changes. Never returns.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            time::sleep(RELOAD_INTERVAL).await;
            let tokens = Arc::clone(&self);
            if let Err(error) = task::spawn_blocking(move || tokens.refresh()).await {
                tracing::error!(%error, "reading the keys of tokens panicked");
            }
        }
    }

    /// Reads the file if it has changed. If it cannot be used, the keys stay.
    fn refresh(&self) {
        let mut last_read = self.last_read.lock();
        let found = stamp(&self.path);
        if found == *last_read {
            return;
        }
        *last_read = found;
        match read(&self.path) {
            Ok(keys) => {
                self.keys.store(Arc::new(keys));
                self.metrics.token_keys_read(true);
                tracing::info!("the keys of tokens were read again, and are used from now on");
            }
            Err(error) => {
                self.metrics.token_keys_read(false);
                tracing::error!(%error, "a changed file of keys cannot be used: the current keys stay");
            }
        }
    }
}

fn settings(config: &BrokerConfig) -> TokenSettings {
    TokenSettings {
        issuer: config.sasl_oauthbearer_expected_issuer.clone(),
        audiences: config.sasl_oauthbearer_expected_audience.clone(),
        subject_claim: config.sasl_oauthbearer_sub_claim_name.clone(),
        scope_claim: config.sasl_oauthbearer_scope_claim_name.clone(),
        clock_skew_ms: i64::from(config.sasl_oauthbearer_clock_skew_seconds) * 1_000,
        name_prefix: config.tailrace_oauthbearer_name_prefix.clone(),
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    let (seconds, nanos) = (found.mtime(), found.mtime_nsec());
    Some(Stamp { inode: found.ino(), seconds, nanos, bytes: found.len() })
}

fn read(path: &Path) -> Result<Jwks, TokenKeysError> {
    let failed = |error| TokenKeysError::Read { path: path.to_owned(), error };
    let mut json = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut json).map_err(failed)?;
    let keys =
        Jwks::parse(&json).map_err(|error| TokenKeysError::Content { path: path.to_owned(), error })?;
    for key in keys.skipped() {
        tracing::warn!(path = %path.display(), %key, "a key of tokens is not used");
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tailrace_config::DynamicConfigs;

    use super::*;

    const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"KID","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

    fn config(path: &Path) -> BrokerConfig {
        let settings = [
            ("sasl.enabled.mechanisms", "OAUTHBEARER".to_owned()),
            ("sasl.oauthbearer.jwks.endpoint.url", format!("file://{}", path.display())),
            ("sasl.oauthbearer.expected.issuer", "https://idp".to_owned()),
            ("sasl.oauthbearer.expected.audience", "kafka".to_owned()),
        ];
        let settings: BTreeMap<_, _> =
            settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        BrokerConfig::resolve(&settings, &DynamicConfigs::default()).unwrap()
    }

    #[test]
    fn a_changed_file_is_used_if_it_can_be_and_otherwise_the_old_keys_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let load = || Tokens::load(&config(&path), Arc::default());
        assert!(matches!(load(), Err(TokenKeysError::Read { .. })));
        std::fs::write(&path, "{}").unwrap();
        assert!(matches!(load(), Err(TokenKeysError::Content { error: JwksError::NoList, .. })));

        std::fs::write(&path, KEYS).unwrap();
        let tokens = load().unwrap().unwrap();
        let first = tokens.keys.load_full();
        tokens.refresh();
        assert!(Arc::ptr_eq(&first, &tokens.keys.load_full()), "nothing has changed");
        std::fs::write(&path, KEYS.replace("KID", "another")).unwrap();
        tokens.refresh();
        let second = tokens.keys.load_full();
        assert!(!Arc::ptr_eq(&first, &second));
        std::fs::write(&path, &KEYS[..40]).unwrap();
        tokens.refresh();
        std::fs::remove_file(&path).unwrap();
        tokens.refresh();
        assert!(Arc::ptr_eq(&second, &tokens.keys.load_full()));
    }

    #[test]
    fn without_the_mechanism_no_file_is_read() {
        let found = Tokens::load(
            &BrokerConfig::resolve(&BTreeMap::new(), &DynamicConfigs::default()).unwrap(),
            Arc::default(),
        );
        assert!(matches!(found, Ok(None)));
    }
}
