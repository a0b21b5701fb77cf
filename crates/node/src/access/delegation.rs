//! The secrets of delegation tokens (KIP-48). The metadata have the tokens, without their secrets. Those are
//! computed from `delegation.token.secret.key` on the node that needs them, so no secret travels between
//! nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_config::BrokerConfig;
use tailrace_identity::delegation::TokenSecret;
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_metadata::{AccessImage, StoredToken};

/// Most verifiers that are kept: those of all tokens, for both mechanisms. One takes about 300 bytes, 6 MB in
/// all. If there are more, of tokens that have ended, all are forgotten and computed again when needed.
const VERIFIERS_MAX: usize = 20_000;

/// What this node needs for tokens.
pub(super) struct Delegation {
    /// `None` if there are no tokens.
    secret: Option<Arc<TokenSecret>>,
    /// Of tokens with which a client has begun to log in: each costs a PBKDF2.
    verifiers: Mutex<BTreeMap<(String, ScramMechanism), ScramVerifier>>,
    index: Mutex<Index>,
}

/// The place of a token's HMAC.
type Place = [u8; 32];

/// The tokens by their HMACs. It has the tokens of the metadata that were last asked about, 10,000 at most,
/// and takes about 200 bytes for each.
#[derive(Default)]
struct Index {
    /// The version of the users, rules and tokens that it was made of.
    version: Option<u64>,
    ids: HashMap<Place, String>,
    places: BTreeMap<String, Place>,
}

impl Index {
    /// Adds the tokens that are new, and removes those that are gone.
    fn follow(&mut self, image: &AccessImage, secret: &TokenSecret) {
        if self.version == Some(image.version()) {
            return;
        }
        let ids = &mut self.ids;
        self.places.retain(|id, place| {
            let is_there = image.token(id).is_some();
            if !is_there {
                ids.remove(place);
            }
            is_there
        });
        for token in image.tokens() {
            if self.places.contains_key(&token.id) {
                continue;
            }
            if let Some(place) = secret.place_of(&secret.hmac(&token.id)) {
                self.places.insert(token.id.clone(), place);
                self.ids.insert(place, token.id.clone());
            }
        }
        self.version = Some(image.version());
    }
}

impl Delegation {
    pub(super) fn new(config: &BrokerConfig) -> Self {
        let key = &config.delegation_token_secret_key;
        let secret = (!key.is_empty()).then(|| Arc::new(TokenSecret::new(key.expose())));
        Self { secret, verifiers: Mutex::default(), index: Mutex::default() }
    }

    /// Returns the key, if there are tokens.
    pub(super) fn secret(&self) -> Option<&Arc<TokenSecret>> {
        self.secret.as_ref()
    }

    /// Returns the token with this HMAC. It may have expired. After a change of the metadata, this takes a
    /// microsecond for each new token.
    pub(super) fn token_of_hmac(&self, image: &AccessImage, hmac: &[u8]) -> Option<Arc<StoredToken>> {
        let secret = self.secret.as_ref()?;
        let place = secret.place_of(hmac)?;
        let mut index = self.index.lock();
        index.follow(image, secret);
        let token = image.token(index.ids.get(&place)?)?;
        secret.is_hmac(&token.id, hmac).then(|| Arc::clone(token))
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

#[cfg(test)]
mod tests {
    use tailrace_metadata::{Command, TokenEnd};

    use crate::caller::Caller;
    use crate::testing::start_in;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tokens_are_found_by_their_hmacs_while_others_come_and_go() {
        let folder = tempfile::TempDir::new().unwrap();
        let key = ("delegation.token.secret.key", "0123456789abcdef");
        let running = start_in(&folder, &[key]).await;
        let (node, caller) = (running.node(), Caller::internal());
        let mut ids = Vec::new();
        for number in 0..20 {
            let (id, owner, by) = (node.new_token_id(), format!("u{number}"), "User:admin".to_owned());
            ids.push(id.clone());
            let (renewers, max_lifetime_ms, now) = (Vec::new(), -1, node.now());
            let command = Command::CreateToken { id, owner, renewers, max_lifetime_ms, by, now };
            node.execute(caller, command).await.unwrap();
            for id in &ids {
                let found = node.token_of_hmac(&node.token_hmac(id).unwrap()).unwrap();
                assert_eq!(found.id, *id);
            }
        }
        let hmac = node.token_hmac(&ids[7]).unwrap();
        for byte in 0..hmac.len() {
            let mut wrong = hmac.to_vec();
            wrong[byte] ^= 1;
            assert!(node.token_of_hmac(&wrong).is_none());
        }
        assert!(node.token_of_hmac(&hmac[..63]).is_none() && node.token_of_hmac(&[]).is_none());
        let end = TokenEnd::Expires { period_ms: -1 };
        let extend =
            Command::ExtendToken { id: ids[7].clone(), end, by: "User:u7".to_owned(), now: node.now() };
        node.execute(caller, extend).await.unwrap();
        assert!(node.token_of_hmac(&hmac).is_none(), "it has ended");
        assert!(node.token_of_hmac(&node.token_hmac(&ids[8]).unwrap()).is_some());
        {
            let index = node.access.delegation.index.lock();
            assert_eq!((index.ids.len(), index.places.len()), (19, 19), "what has ended is forgotten");
        }
        running.stop().await;
    }
}
