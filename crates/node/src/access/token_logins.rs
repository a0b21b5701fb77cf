//! What fronts ask about delegation tokens, and logins with them.

use std::sync::Arc;

use tailrace_env::random;
use tailrace_identity::UserName;
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_metadata::StoredToken;
use tailrace_types::TopicId;
use zeroize::Zeroizing;

use super::login::{LoggedIn, LoginRefused, ScramUser};
use crate::node::Node;

impl Node {
    /// Reports whether there may be delegation tokens: whether their key is set.
    pub fn has_delegation_tokens(&self) -> bool {
        self.access.delegation.secret().is_some()
    }

    /// Draws the id of a new token.
    pub fn new_token_id(&self) -> String {
        // One that begins with a dash would look like an option on a command line.
        loop {
            let id = TopicId::from_random(random::bytes16()).to_string();
            if !id.starts_with('-') {
                return id;
            }
        }
    }

    /// Returns the secret of a token. `None` if there are no tokens.
    pub fn token_hmac(&self, id: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.access.delegation.secret().map(|secret| secret.hmac(id))
    }

    /// Returns the token with this secret. It may have expired. Takes a microsecond for each token that is
    /// new since the last question, so it must not run on an event loop.
    pub fn token_of_hmac(&self, hmac: &[u8]) -> Option<Arc<StoredToken>> {
        self.access.delegation.token_of_hmac(self.image().access(), hmac)
    }

    /// Returns what a login with a token is checked against. Nothing tells a client whether the token exists,
    /// except that the first login with one takes a few milliseconds more. Ids cannot be guessed.
    ///
    /// # Errors
    /// Too many passwords are being checked.
    pub async fn token_user(
        &self,
        id: &UserName,
        mechanism: ScramMechanism,
    ) -> Result<ScramUser, LoginRefused> {
        let image = self.image();
        let decoy = ScramVerifier::decoy(mechanism, &self.decoy_secret(&image), id.as_str());
        let decoy = ScramUser { verifier: decoy, previous: None, may_log_in: false };
        let delegation = &self.access.delegation;
        let (Some(secret), Ok(_)) = (delegation.secret(), self.token_login(id)) else {
            return Ok(decoy);
        };
        let token_id = id.as_str();
        let verifier = match delegation.verifier(token_id, mechanism) {
            Some(verifier) => verifier,
            None => {
                let (secret, id) = (Arc::clone(secret), token_id.to_owned());
                let compute = move || secret.verifier(&id, mechanism);
                let computed = self.access.passwords.compute(compute).await?;
                let Ok(verifier) = computed else { return Ok(decoy) };
                delegation.remember(token_id, &verifier);
                verifier
            }
        };
        Ok(ScramUser { verifier, previous: None, may_log_in: true })
    }

    /// Returns the login of a client that has proven the secret of a token. The token may have ended
    /// meanwhile.
    ///
    /// # Errors
    /// There is no such token, it has expired, or its owner or requester is disabled.
    pub fn token_login(&self, id: &UserName) -> Result<LoggedIn, LoginRefused> {
        let (image, refused) = (self.image(), LoginRefused::WrongCredential);
        let token = image.access().token(id.as_str()).ok_or(refused)?;
        let owner = UserName::new(&token.owner).map_err(|_| refused)?;
        let login = LoggedIn::delegated(owner, token.id.clone());
        if login.holds(&image, self.now()) { Ok(login) } else { Err(refused) }
    }
}
