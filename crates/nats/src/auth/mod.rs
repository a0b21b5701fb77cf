//! Authentication of NATS clients. A CONNECT becomes a credential, which is compared with the users of the
//! settings and of a file. Both are read at the start.
//!
//! An authenticated client is a [`User`](tailrace_identity::User), and its connection asks its
//! [`Permissions`] from then on. `tailrace_identity` implements users, their secrets and their rules.
//!
//! Out of scope: accounts, JWTs and operators, authentication callouts, users by client certificate, and
//! Kafka's users.

mod error;
mod file;
mod permissions;

use std::path::PathBuf;
use std::sync::Arc;

use tailrace_config::BrokerConfig;
use tailrace_env::sync::{Semaphore, oneshot};
use tailrace_env::{random, thread};
use tailrace_identity::{Check, Credential, Denied, SlowCheck, User, Users};
use tailrace_nats_wire::ConnectOptions;

pub use error::AuthError;
pub(crate) use permissions::Permissions;

/// Most slow password checks at the same time. Each runs on a thread of its own, so that tasks that wait for
/// the disk, or for the decompression of a batch, do not wait for strangers.
const CHECKS_AT_ONCE: usize = 2;

/// The users that may connect.
#[derive(Debug)]
pub struct Auth {
    users: Users,
    /// Slots for slow checks.
    places: Arc<Semaphore>,
}

impl Auth {
    /// Loads users from the settings and from the file they name. Blocks.
    ///
    /// # Errors
    /// See [`AuthError`].
    pub fn load(config: &BrokerConfig) -> Result<Self, AuthError> {
        let mut secret = [0; 48];
        secret.chunks_exact_mut(16).for_each(|bytes| bytes.copy_from_slice(&random::bytes16()));
        let mut users = Users::new(secret);
        add_settings(&mut users, config)?;
        if !config.tailrace_nats_users_file.is_empty() {
            file::load(&mut users, PathBuf::from(&config.tailrace_nats_users_file))?;
        }
        Ok(Self { users, places: Arc::new(Semaphore::new(CHECKS_AT_ONCE)) })
    }

    /// Reports whether clients must present credentials.
    pub fn required(&self) -> bool {
        self.users.is_needed()
    }

    /// Reports whether INFO says that credentials are needed: they are, and there is no guest for clients
    /// without.
    pub(crate) fn asks(&self) -> bool {
        self.required() && self.users.guest().is_none()
    }

    /// The permissions of clients that present nothing, not even a CONNECT. `None` if they are refused.
    pub(crate) fn guest(&self) -> Option<Arc<Permissions>> {
        self.users.guest().cloned().map(|guest| Arc::new(Permissions::of(guest)))
    }

    /// Reports whether INFO must contain a nonce to be signed.
    pub(crate) fn wants_nonce(&self) -> bool {
        self.users.has_keys()
    }

    /// Authenticates a client by its CONNECT. `nonce` is the one in this connection's INFO.
    ///
    /// May take a good part of a second if a password is stored as a bcrypt hash. The check runs on another
    /// thread, and takes longer if many wait. The caller bounds the wait by the authentication timeout.
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
        let user = match self.credential(connect, nonce)? {
            Some(credential) => match self.users.check(&credential) {
                Check::Done(user) => user?,
                Check::Slow(check) => self.run(check).await?,
            },
            None => self.users.guest().cloned().ok_or(Denied::NoCredentials)?,
        };
        Ok(Arc::new(Permissions::of(user)))
    }

    /// Returns the credential in a CONNECT. `None` if it presents nothing.
    fn credential<'a>(
        &self,
        connect: &'a ConnectOptions,
        nonce: &'a str,
    ) -> Result<Option<Credential<'a>>, Denied> {
        let (user, password) = (given(&connect.user), given(&connect.pass));
        Ok(Some(match (given(&connect.nkey), user) {
            (Some(key), _) if self.users.has_keys() => {
                Credential::Signature { key, nonce, signature: connect.sig.as_deref().unwrap_or_default() }
            }
            (_, Some(user)) if self.users.has_users() => {
                Credential::Password { user, password: password.unwrap_or_default() }
            }
            (key, user) => match given(&connect.auth_token) {
                Some(token) if self.users.has_token() => Credential::Token(token),
                None if self.users.has_token() => return Err(Denied::NoCredentials),
                None if key.is_none() && user.is_none() && password.is_none() => return Ok(None),
                Some(_) | None => return Err(Denied::Unknown),
            },
        }))
    }

    /// Runs a check on a thread of its own. The cost of the thread is negligible beside that of the check.
    async fn run(&self, check: SlowCheck) -> Result<Arc<User>, Denied> {
        // The semaphore is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await;
        let (tell, told) = oneshot::channel();
        let check = move || {
            let user = check.run();
            // Released here even if the client has gone, because the thread was busy until now.
            drop(place);
            let _ = tell.send(user);
        };
        // If this fails, the client is refused, although it is not its fault.
        if let Err(error) = thread::spawn("password", check) {
            tracing::error!(%error, "a password cannot be checked: no thread could be started");
            return Err(Denied::WrongSecret);
        }
        told.await.unwrap_or_else(|_| {
            tracing::error!("a bug in the server: checking a password panicked");
            Err(Denied::WrongSecret)
        })
    }
}

fn add_settings(users: &mut Users, config: &BrokerConfig) -> Result<(), AuthError> {
    let wrong = |key| move |reason| AuthError::Setting { key, reason };
    if !config.tailrace_nats_token.is_empty() {
        let text = config.tailrace_nats_token.expose();
        users.set_token(text).map_err(wrong("tailrace.nats.token"))?;
    }
    if !config.tailrace_nats_user.is_empty() {
        let text = config.tailrace_nats_password.expose();
        users.set_password(&config.tailrace_nats_user, text).map_err(wrong("tailrace.nats.password"))?;
    }
    if !config.tailrace_nats_nkey.is_empty() {
        users.set_key(&config.tailrace_nats_nkey).map_err(wrong("tailrace.nats.nkey"))?;
    }
    Ok(())
}

/// Treats an empty text like a missing one.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Returns a challenge: 128 random bits as text.
pub(crate) fn nonce() -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random::bytes16())
}

#[cfg(test)]
mod tests;
