//! Who may connect to the NATS listener, and as whom: users with passwords or nkeys, or one token.
//!
//! Users come from the settings and from a file, both read at the start. Whoever is let in becomes a [`Principal`], and
//! the connection asks its [`Permissions`] from then on. Secrets are kept as keyed hashes only, see `secret`.
//!
//! Deliberately not here: accounts, JWTs and operators, authentication callouts, users by client certificate, and Kafka's
//! users (a `Principal` is what they will become too).

mod error;
mod grants;
mod nkey;
mod permissions;
mod secret;
mod users;
mod users_file;

use std::path::PathBuf;
use std::sync::Arc;

use tailrace_config::BrokerConfig;
use tailrace_nats_wire::ConnectOptions;

pub use error::AuthError;
pub(crate) use permissions::{Permissions, Principal};

use nkey::PublicKey;
use secret::Secret;
use users::{Proof, Users};

/// Why a client was not let in. For our log: the client learns nothing but 'Authorization Violation'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("it presented no credentials")]
    NoCredentials,
    #[error("it presented a user or key that is unknown")]
    Unknown,
    #[error("its password or token is wrong")]
    WrongSecret,
    #[error("its signature is not that of its key over this connection's nonce")]
    WrongSignature,
}

/// All who may connect.
pub struct Auth {
    users: Users,
    token: Option<Secret>,
}

impl Auth {
    /// Reads users from the settings and from the file they name. Blocks.
    ///
    /// # Errors
    /// See [`AuthError`].
    pub fn load(config: &BrokerConfig) -> Result<Self, AuthError> {
        let mut auth = Self { users: Users::new(), token: None };
        auth.add_settings(config)?;
        if !config.tailrace_nats_users_file.is_empty() {
            users_file::load(&mut auth.users, PathBuf::from(&config.tailrace_nats_users_file))?;
        }
        Ok(auth)
    }

    fn add_settings(&mut self, config: &BrokerConfig) -> Result<(), AuthError> {
        let wrong = |key| move |reason| AuthError::Setting { key, reason };
        if !config.tailrace_nats_token.is_empty() {
            let text = config.tailrace_nats_token.expose();
            self.token = Some(self.users.secret(text).map_err(wrong("tailrace.nats.token"))?);
        }
        if !config.tailrace_nats_user.is_empty() {
            let text = config.tailrace_nats_password.expose();
            let proof = Proof::Password(self.users.secret(text).map_err(wrong("tailrace.nats.password"))?);
            self.users.add(&config.tailrace_nats_user, proof, None).map_err(wrong("tailrace.nats.user"))?;
        }
        if !config.tailrace_nats_nkey.is_empty() {
            let key = PublicKey::parse(&config.tailrace_nats_nkey).map_err(wrong("tailrace.nats.nkey"))?;
            self.users
                .add(&config.tailrace_nats_nkey, Proof::Key(key), None)
                .map_err(wrong("tailrace.nats.nkey"))?;
        }
        Ok(())
    }

    /// True if clients must present something.
    pub fn required(&self) -> bool {
        self.token.is_some() || !self.users.by_name.is_empty()
    }

    /// True if INFO says that credentials are needed: they are, and nobody stands for those without.
    pub(crate) fn asks(&self) -> bool {
        self.required() && self.users.guest.is_none()
    }

    /// What those may do who present nothing, not even a CONNECT; `None` if they are not let in.
    pub(crate) fn guest(&self) -> Option<Arc<Permissions>> {
        self.users.guest.clone().map(|guest| Arc::new(Permissions::of(guest)))
    }

    /// True if INFO must carry a nonce to be signed.
    pub(crate) fn wants_nonce(&self) -> bool {
        self.users.by_name.values().any(|user| matches!(user.proof, Proof::Key(_)))
    }

    /// Decides who a client is by its CONNECT. `nonce` is the one that this connection's INFO carried.
    ///
    /// May take a good part of a second where a password is kept as a bcrypt hash: the check runs on another thread, and
    /// longer where many wait. The caller bounds the wait by the authentication timeout.
    ///
    /// # Errors
    /// See [`Denied`].
    pub(crate) async fn authenticate(
        &self,
        connect: &ConnectOptions,
        nonce: &str,
    ) -> Result<Arc<Permissions>, Denied> {
        if !self.required() {
            return Ok(Arc::new(Permissions::everything()));
        }
        let given = |text: &Option<String>| text.as_ref().filter(|text| !text.is_empty()).cloned();
        let (user, password, token) =
            (given(&connect.user), given(&connect.pass), given(&connect.auth_token));
        let principal = match (given(&connect.nkey), user) {
            (Some(nkey), _) if self.wants_nonce() => self.by_key(&nkey, connect.sig.as_deref(), nonce)?,
            (_, Some(user)) if !self.users.by_name.is_empty() => {
                self.by_password(&user, password.as_deref().unwrap_or_default()).await?
            }
            (nkey, user) => match (&self.token, token) {
                (Some(expected), Some(token)) => self.by_token(expected, &token).await?,
                (None, None) if nkey.is_none() && user.is_none() && password.is_none() => {
                    self.users.guest.clone().ok_or(Denied::NoCredentials)?
                }
                (Some(_), None) => return Err(Denied::NoCredentials),
                (None, _) => return Err(Denied::Unknown),
            },
        };
        Ok(Arc::new(Permissions::of(principal)))
    }

    fn by_key(&self, nkey: &str, signature: Option<&str>, nonce: &str) -> Result<Arc<Principal>, Denied> {
        let user = self.users.by_name.get(nkey).ok_or(Denied::Unknown)?;
        let Proof::Key(key) = &user.proof else { return Err(Denied::Unknown) };
        if key.verifies(nonce, signature.unwrap_or_default()) {
            Ok(Arc::clone(&user.principal))
        } else {
            Err(Denied::WrongSignature)
        }
    }

    async fn by_password(&self, name: &str, password: &str) -> Result<Arc<Principal>, Denied> {
        let known = self.users.by_name.get(name).and_then(|user| match &user.proof {
            Proof::Password(secret) => Some((secret, &user.principal)),
            Proof::Key(_) => None,
        });
        match known {
            Some((secret, principal)) if self.users.checker.matches(secret, password).await => {
                Ok(Arc::clone(principal))
            }
            Some(_) => Err(Denied::WrongSecret),
            None => {
                let _ = self.users.checker.matches(&self.users.decoy, password).await;
                Err(Denied::Unknown)
            }
        }
    }

    async fn by_token(&self, expected: &Secret, token: &str) -> Result<Arc<Principal>, Denied> {
        if self.users.checker.matches(expected, token).await {
            Ok(Arc::new(Principal::new("token".into(), None)))
        } else {
            Err(Denied::WrongSecret)
        }
    }
}

impl std::fmt::Debug for Auth {
    /// Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("users", &self.users.by_name.len())
            .field("token", &self.token.is_some())
            .finish()
    }
}

/// A challenge: 128 random bits as text.
pub(crate) fn nonce() -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(tailrace_env::random::bytes16())
}

#[cfg(test)]
mod tests;
