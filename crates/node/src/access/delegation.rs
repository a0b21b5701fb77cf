//! The secrets of delegation tokens (KIP-48). The metadata have the tokens, without their secrets. Those are
//! computed from `delegation.token.secret.key` on the node that needs them, so no secret travels between
//! nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_config::BrokerConfig;
use tailrace_identity::delegation::TokenSecret;
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};

/// Most verifiers that are kept: those of all tokens, for both mechanisms. One takes about 300 bytes, 6 MB in
/// all. If there are more, of tokens that have ended, all are forgotten and computed again when needed.
const VERIFIERS_MAX: usize = 20_000;

/// What this node needs for tokens.
pub(super) struct Delegation {
    /// `None` if there are no tokens.
    secret: Option<Arc<TokenSecret>>,
    /// Of tokens with which a client has begun to log in: each costs a PBKDF2.
    verifiers: Mutex<BTreeMap<(String, ScramMechanism), ScramVerifier>>,
}

impl Delegation {
    pub(super) fn new(config: &BrokerConfig) -> Self {
        let key = &config.delegation_token_secret_key;
        let secret = (!key.is_empty()).then(|| Arc::new(TokenSecret::new(key.expose())));
        Self { secret, verifiers: Mutex::default() }
    }

    /// Returns the key, if there are tokens.
    pub(super) fn secret(&self) -> Option<&Arc<TokenSecret>> {
        self.secret.as_ref()
    }

    /// Returns the verifier of a token, if it was computed before.
    pub(super) fn verifier(&self, id: &str, mechanism: ScramMechanism) -> Option<ScramVerifier> {
        self.verifiers.lock().get(&(id.to_owned(), mechanism)).cloned()
    }

    /// Keeps the verifier of a token.
    pub(super) fn remember(&self, id: &str, verifier: &ScramVerifier) {
        let mut verifiers = self.verifiers.lock();
        if verifiers.len() >= VERIFIERS_MAX {
            verifiers.clear();
        }
        verifiers.insert((id.to_owned(), verifier.mechanism()), verifier.clone());
    }
}
