//! Logins with a token, and the keys that verify tokens: those of a file or of a web server.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tailrace_config::{BrokerConfig, TokenKeys};
use tailrace_env::task::{self, Spawner};
use tailrace_env::time::{self, Duration, Instant};
use tailrace_identity::oauth::{Jwks, MissingKeys, Token, TokenError, TokenSettings, TokenValidator};
use tailrace_types::TimestampMs;

use super::key_endpoint::{Fetched, KeyEndpoint};
use super::key_file::{KeyFile, RELOAD_INTERVAL};
use super::metrics::AccessMetrics;
use super::token_keys::TokenKeysError;

/// Why a token is not valid. This is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// The token itself.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// There are no keys to verify it with.
    #[error("the keys of tokens could not be fetched for too long, so no token is accepted")]
    NoKeys,
}

/// Keys, and what is known of them.
struct Known {
    keys: Jwks,
    /// The checksum of their text. 0 for those of a file.
    checksum: u32,
    /// Until when they count. `None` for those of a file.
    until: Option<Instant>,
}

impl Known {
    fn of_file(keys: Jwks) -> Arc<Self> {
        Arc::new(Self { keys, checksum: 0, until: None })
    }
}

enum Source {
    File(KeyFile),
    Web(KeyEndpoint),
}

/// Validates tokens.
pub(super) struct Tokens {
    validator: TokenValidator,
    keys: ArcSwapOption<Known>,
    missing: Mutex<MissingKeys>,
    source: Source,
    metrics: Arc<AccessMetrics>,
}

impl Tokens {
    /// Reads the keys if the settings let clients log in with tokens and name a file. `None` if clients may
    /// not.
    ///
    /// # Errors
    /// See [`TokenKeysError`]. A web server that does not answer is none.
    pub(super) fn load(
        config: &BrokerConfig,
        metrics: Arc<AccessMetrics>,
    ) -> Result<Option<Arc<Self>>, TokenKeysError> {
        let Some(keys) = config.token_keys().filter(|_| config.accepts_tokens()) else { return Ok(None) };
        let validator = TokenValidator::new(settings(config))?;
        let (source, keys) = match keys {
            TokenKeys::File(path) => {
                let (file, keys) = KeyFile::open(path)?;
                tell_skipped(&keys);
                (Source::File(file), Some(Known::of_file(keys)))
            }
            TokenKeys::Web(url) => (Source::Web(KeyEndpoint::open(url, config)?), None),
        };
        let keys = ArcSwapOption::new(keys);
        Ok(Some(Arc::new(Self { validator, keys, missing: Mutex::default(), source, metrics })))
    }

    /// Validates a token. If its key is unknown, looks for newer keys first, at most 16 times a minute.
    ///
    /// # Errors
    /// The token is refused.
    pub(super) async fn validate(
        self: &Arc<Self>,
        token: &str,
        now: TimestampMs,
    ) -> Result<Token, TokenFault> {
        let found = self.validate_now(token, now);
        let asks = match &found {
            Err(TokenFault::Token(TokenError::UnknownKid { kid })) => {
                self.missing.lock().is_reason_to_refresh(kid, now.0)
            }
            Err(TokenFault::NoKeys) => false,
            _ => return found,
        };
        match &self.source {
            Source::File(_) if asks => {
                let tokens = Arc::clone(self);
                let _ = task::spawn_blocking(move || tokens.refresh_file()).await;
            }
            // Without keys, the first attempt may be on its way.
            Source::Web(endpoint) if asks || found == Err(TokenFault::NoKeys) => {
                endpoint.refreshed(asks).await
            }
            Source::File(_) | Source::Web(_) => return found,
        }
        self.validate_now(token, now)
    }

    fn validate_now(&self, token: &str, now: TimestampMs) -> Result<Token, TokenFault> {
        let known = self.keys.load_full();
        let counts = |known: &Arc<Known>| known.until.is_none_or(|until| Instant::now() < until);
        let known = known.filter(counts).ok_or(TokenFault::NoKeys)?;
        Ok(self.validator.validate(token, &known.keys, now.0)?)
    }

    /// Keeps the keys current. Never returns.
    pub(super) async fn watch(self: Arc<Self>) {
        match &self.source {
            Source::File(_) => self.watch_file().await,
            Source::Web(_) => {
                // TLS and the reading of keys take milliseconds, which the event loops must not wait for. The
                // thread ends with this task.
                let loops = match Spawner::start("token-keys", 1, 1) {
                    Ok(loops) => loops,
                    Err(error) => {
                        tracing::error!(%error, "cannot start a thread for the keys of tokens");
                        return;
                    }
                };
                let tokens = Arc::clone(&self);
                let work = loops.spawn(async move {
                    if let Source::Web(endpoint) = &tokens.source {
                        endpoint.watch(|outcome| tokens.fetched(outcome, endpoint.keep)).await;
                    }
                });
                if let Err(error) = work.await {
                    tracing::error!(%error, "fetching the keys of tokens ended");
                }
            }
        }
    }

    async fn watch_file(self: &Arc<Self>) {
        loop {
            time::sleep(RELOAD_INTERVAL).await;
            let tokens = Arc::clone(self);
            if let Err(error) = task::spawn_blocking(move || tokens.refresh_file()).await {
                tracing::error!(%error, "reading the keys of tokens panicked");
            }
        }
    }

    /// Reads the file if it has changed. If it cannot be used, the keys stay.
    fn refresh_file(&self) {
        let Source::File(file) = &self.source else { return };
        file.refresh(|found| match found {
            Ok(keys) => {
                tell_skipped(&keys);
                self.keys.store(Some(Known::of_file(keys)));
                self.metrics.token_keys_read("used");
                tracing::info!("the keys of tokens were read again, and are used from now on");
            }
            Err(error) => {
                self.metrics.token_keys_read("refused");
                tracing::error!(%error, "a changed file of keys cannot be used: the current keys stay");
            }
        });
    }

    fn fetched(&self, outcome: Fetched, keep: Duration) {
        let result = match &outcome {
            Ok(_) => "used",
            Err(TokenKeysError::Content { .. }) => "refused",
            Err(_) => "failed",
        };
        self.metrics.token_keys_read(result);
        let Ok((keys, checksum)) = outcome else { return };
        if self.keys.load().as_ref().is_none_or(|known| known.checksum != checksum) {
            tell_skipped(&keys);
            tracing::info!("new keys of tokens were fetched, and are used from now on");
        }
        self.keys.store(Some(Arc::new(Known { keys, checksum, until: Some(Instant::now() + keep) })));
    }
}

fn tell_skipped(keys: &Jwks) {
    for key in keys.skipped() {
        tracing::warn!(%key, "a key of tokens is not used");
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use tailrace_config::DynamicConfigs;
    use tailrace_identity::oauth::JwksError;

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
        let current = || tokens.keys.load_full().unwrap();
        let first = current();
        tokens.refresh_file();
        assert!(Arc::ptr_eq(&first, &current()), "nothing has changed");
        std::fs::write(&path, KEYS.replace("KID", "another")).unwrap();
        tokens.refresh_file();
        let second = current();
        assert!(!Arc::ptr_eq(&first, &second));
        std::fs::write(&path, &KEYS[..40]).unwrap();
        tokens.refresh_file();
        std::fs::remove_file(&path).unwrap();
        tokens.refresh_file();
        assert!(Arc::ptr_eq(&second, &current()));
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
