//! Who may connect to the NATS listener, and as whom: users with passwords or nkeys, or one token.
//!
//! Users come from the settings and from a file, both read at the start. Whoever is let in becomes a [`Principal`], and
//! the connection asks its [`Permissions`] from then on. Secrets are kept as keyed hashes only, see `secret`.
//!
//! Deliberately not here: accounts, JWTs and operators, authentication callouts, users by client certificate, and Kafka's
//! users (a `Principal` is what they will become too).

mod grants;
mod nkey;
mod permissions;
mod secret;
mod users_file;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tailrace_config::BrokerConfig;
use tailrace_nats_wire::ConnectOptions;

pub(crate) use grants::Grants;
pub(crate) use permissions::{Permissions, Principal};

use nkey::PublicKey;
use secret::{Checker, Secret};

/// Largest file of users that is read.
const USERS_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Why the users cannot be used. Never shows a secret.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The system did not give the file.
    #[error("cannot read {} (tailrace.nats.users.file): {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{}, line {line}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The key, and what is wrong with it.
        reason: String,
    },
    /// A setting is not what it should be.
    #[error("{key}: {reason}")]
    Setting {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

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

/// How a user proves who he is.
enum Proof {
    Password(Secret),
    Key(PublicKey),
}

struct User {
    proof: Proof,
    principal: Arc<Principal>,
}

/// All who may connect.
pub struct Auth {
    /// By name, or by the text of the nkey.
    users: HashMap<Arc<str>, User>,
    token: Option<Secret>,
    /// Who presents nothing is this user.
    no_auth_user: Option<Arc<Principal>>,
    checker: Checker,
    /// Checked in place of an unknown user's password, so that the answer takes as long as for a known one.
    decoy: Secret,
}

impl Auth {
    /// Reads users from the settings and from the file they name. Blocks.
    ///
    /// # Errors
    /// See [`AuthError`].
    pub fn load(config: &BrokerConfig) -> Result<Self, AuthError> {
        let checker = Checker::new();
        let mut auth =
            Self { users: HashMap::new(), token: None, no_auth_user: None, decoy: checker.decoy(), checker };
        auth.add_settings(config)?;
        if !config.tailrace_nats_users_file.is_empty() {
            users_file::load(&mut auth, PathBuf::from(&config.tailrace_nats_users_file))?;
        }
        Ok(auth)
    }

    fn add_settings(&mut self, config: &BrokerConfig) -> Result<(), AuthError> {
        let wrong = |key| move |reason| AuthError::Setting { key, reason };
        if !config.tailrace_nats_token.is_empty() {
            let text = config.tailrace_nats_token.expose();
            self.token = Some(self.secret(text).map_err(wrong("tailrace.nats.token"))?);
        }
        if !config.tailrace_nats_user.is_empty() {
            let text = config.tailrace_nats_password.expose();
            let proof = Proof::Password(self.secret(text).map_err(wrong("tailrace.nats.password"))?);
            self.add(&config.tailrace_nats_user, proof, None).map_err(wrong("tailrace.nats.user"))?;
        }
        if !config.tailrace_nats_nkey.is_empty() {
            let key = PublicKey::parse(&config.tailrace_nats_nkey).map_err(wrong("tailrace.nats.nkey"))?;
            self.add(&config.tailrace_nats_nkey, Proof::Key(key), None)
                .map_err(wrong("tailrace.nats.nkey"))?;
        }
        Ok(())
    }

    /// Takes a secret over; the costliest one is what unknown users are checked with.
    fn secret(&mut self, text: &str) -> Result<Secret, String> {
        let secret = self.checker.secret(text)?;
        if secret.cost() > self.decoy.cost() {
            self.decoy = secret.as_decoy();
        }
        Ok(secret)
    }

    fn add(&mut self, name: &str, proof: Proof, grants: Option<Grants>) -> Result<(), String> {
        let name: Arc<str> = name.into();
        let principal = Arc::new(Principal::new(Arc::clone(&name), grants));
        match self.users.insert(Arc::clone(&name), User { proof, principal }) {
            None => Ok(()),
            Some(_) => Err(format!("the user {name} is there twice")),
        }
    }

    /// True if clients must present something.
    pub fn required(&self) -> bool {
        self.token.is_some() || !self.users.is_empty()
    }

    /// True if INFO says that credentials are needed: they are, and nobody stands for those without.
    pub(crate) fn asks(&self) -> bool {
        self.required() && self.no_auth_user.is_none()
    }

    /// What those may do who present nothing, not even a CONNECT; `None` if they are not let in.
    pub(crate) fn guest(&self) -> Option<Arc<Permissions>> {
        self.no_auth_user.clone().map(|guest| Arc::new(Permissions::of(guest)))
    }

    /// True if INFO must carry a nonce to be signed.
    pub(crate) fn wants_nonce(&self) -> bool {
        self.users.values().any(|user| matches!(user.proof, Proof::Key(_)))
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
            (_, Some(user)) if !self.users.is_empty() => {
                self.by_password(&user, password.as_deref().unwrap_or_default()).await?
            }
            (nkey, user) => match (&self.token, token) {
                (Some(expected), Some(token)) => self.by_token(expected, &token).await?,
                (None, None) if nkey.is_none() && user.is_none() && password.is_none() => {
                    self.no_auth_user.clone().ok_or(Denied::NoCredentials)?
                }
                (Some(_), None) => return Err(Denied::NoCredentials),
                (None, _) => return Err(Denied::Unknown),
            },
        };
        Ok(Arc::new(Permissions::of(principal)))
    }

    fn by_key(&self, nkey: &str, signature: Option<&str>, nonce: &str) -> Result<Arc<Principal>, Denied> {
        let user = self.users.get(nkey).ok_or(Denied::Unknown)?;
        let Proof::Key(key) = &user.proof else { return Err(Denied::Unknown) };
        if key.verifies(nonce, signature.unwrap_or_default()) {
            Ok(Arc::clone(&user.principal))
        } else {
            Err(Denied::WrongSignature)
        }
    }

    async fn by_password(&self, name: &str, password: &str) -> Result<Arc<Principal>, Denied> {
        let known = self.users.get(name).and_then(|user| match &user.proof {
            Proof::Password(secret) => Some((secret, &user.principal)),
            Proof::Key(_) => None,
        });
        match known {
            Some((secret, principal)) if self.checker.matches(secret, password).await => {
                Ok(Arc::clone(principal))
            }
            Some(_) => Err(Denied::WrongSecret),
            None => {
                let _ = self.checker.matches(&self.decoy, password).await;
                Err(Denied::Unknown)
            }
        }
    }

    async fn by_token(&self, expected: &Secret, token: &str) -> Result<Arc<Principal>, Denied> {
        if self.checker.matches(expected, token).await {
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
            .field("users", &self.users.len())
            .field("token", &self.token.is_some())
            .finish()
    }
}

/// A challenge: 128 random bits as text.
pub(crate) fn nonce() -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(tailrace_runtime::random::bytes16())
}

#[cfg(test)]
mod tests;
