//! The keys of tokens on a web server: fetched again at an interval, and when a token names an unknown key.
//!
//! While the web server does not answer, the last keys count for a time that the settings state. After that
//! no token is accepted: a key that was withdrawn meanwhile must not open this server for ever. The attempts
//! go on, with pauses that double. The node starts without the keys: an identity provider that is away must
//! not keep those out who log in otherwise.

use std::path::PathBuf;

use tailrace_config::BrokerConfig;
use tailrace_env::select;
use tailrace_env::sync::{Notify, watch};
use tailrace_env::time::{Duration, Instant, sleep, timeout};
use tailrace_fetch::{Address, Fetcher, Limits, Plain};
use tailrace_identity::oauth::Jwks;

use super::token_keys::{KEYS_BYTES_MAX, TokenKeysError};

/// Time for a whole fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which a login waits for newer keys. It counts on the time for the login.
const LOGIN_WAIT: Duration = Duration::from_secs(3);

/// Interval between two log lines about failed fetches.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

const AUTHORITIES: &str = "tailrace.oauthbearer.jwks.ca.file";

/// The web server with the keys.
pub(super) struct KeyEndpoint {
    fetcher: Fetcher,
    refresh: Duration,
    retries: (Duration, Duration),
    /// How long keys count that were fetched once.
    pub(super) keep: Duration,
    /// Notified when a token names an unknown key.
    wanted: Notify,
    progress: watch::Sender<Progress>,
}

/// How the fetches went so far.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    attempts: u64,
    is_failing: bool,
}

/// The outcome of one attempt.
pub(super) type Fetched = Result<(Jwks, u32), TokenKeysError>;

impl KeyEndpoint {
    /// Checks the address and the authorities. Fetches nothing.
    pub(super) fn open(url: &str, config: &BrokerConfig) -> Result<Self, TokenKeysError> {
        let plain = match config.tailrace_oauthbearer_jwks_http_loopback {
            true => Plain::FromLoopback,
            false => Plain::Refused,
        };
        let address = Address::parse(url, plain)?;
        let file = &config.tailrace_oauthbearer_jwks_ca_file;
        let authorities = (!file.is_empty()).then(|| PathBuf::from(file));
        let limits = Limits { time: FETCH_TIMEOUT, bytes: KEYS_BYTES_MAX };
        let fetcher = Fetcher::new(address, AUTHORITIES, authorities, limits);
        fetcher.check().map_err(|error| TokenKeysError::Fetch { address: url.to_owned(), error })?;
        Ok(Self {
            fetcher,
            refresh: Duration::from_millis(config.sasl_oauthbearer_jwks_endpoint_refresh_ms),
            retries: (
                Duration::from_millis(config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms),
                Duration::from_millis(config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms),
            ),
            keep: Duration::from_millis(config.tailrace_oauthbearer_jwks_keep_ms),
            wanted: Notify::new(),
            progress: watch::Sender::default(),
        })
    }

    /// Waits, within bounds, until an attempt ends: the first one, or with `asks` one more. Returns at once
    /// if the last one failed, because then the pauses decide when the next one is made.
    pub(super) async fn refreshed(&self, asks: bool) {
        let mut progress = self.progress.subscribe();
        let so_far = *progress.borrow_and_update();
        if so_far.is_failing || (!asks && so_far.attempts > 0) {
            return;
        }
        if asks {
            self.wanted.notify_one();
        }
        let _ = timeout(LOGIN_WAIT, progress.changed()).await;
    }

    /// Fetches the keys again and again, and passes on what it found. Never returns.
    pub(super) async fn watch(&self, found: impl Fn(Fetched)) {
        let (mut retry, mut log) = (self.retries.0, BoundedLog::default());
        loop {
            let outcome = self.fetch().await;
            let is_failing = outcome.is_err();
            log.tell(&outcome, self.fetcher.address());
            found(outcome);
            self.progress
                .send_modify(|progress| *progress = Progress { attempts: progress.attempts + 1, is_failing });
            if is_failing {
                sleep(retry).await;
                retry = (retry * 2).min(self.retries.1);
            } else {
                retry = self.retries.0;
                select! {
                    () = self.wanted.notified() => {}
                    () = sleep(self.refresh) => {}
                }
            }
        }
    }

    async fn fetch(&self) -> Fetched {
        let address = || self.fetcher.address().to_string();
        let json = self.fetcher.fetch().await;
        let json = json.map_err(|error| TokenKeysError::Fetch { address: address(), error })?;
        let keys = Jwks::parse(&json).map_err(|error| TokenKeysError::Content { from: address(), error })?;
        Ok((keys, crc32c::crc32c(&json)))
    }
}

/// Logs failed fetches at a bounded rate, and the end of a failure.
#[derive(Default)]
struct BoundedLog {
    failures: u64,
    last: Option<Instant>,
    /// Keys were fetched once.
    has_keys: bool,
}

impl BoundedLog {
    fn tell(&mut self, outcome: &Fetched, address: &Address) {
        let Err(error) = outcome else {
            if self.failures > 0 {
                tracing::info!(%address, failures = self.failures, "the keys of tokens can be fetched again");
            }
            *self = Self { has_keys: true, ..Self::default() };
            return;
        };
        self.failures += 1;
        if self.last.is_none_or(|last| last.elapsed() >= LOG_INTERVAL) {
            self.last = Some(Instant::now());
            let failures = self.failures;
            let until_then = match self.has_keys {
                true => "the last ones stay for a while",
                false => "tokens are refused until they are there",
            };
            tracing::error!(%error, failures, "the keys of tokens could not be fetched: {until_then}");
        }
    }
}
