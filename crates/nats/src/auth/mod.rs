//! Who may connect to the NATS listener, and as whom: what a CONNECT presents is turned into a credential, and compared
//! with the users of the settings and of a file, both read at the start.
//!
//! Who is let in is a [`User`](tailrace_identity::User), and the connection asks its [`Permissions`] from then on.
//! Users, their secrets and their rules are `tailrace_identity`'s.
//!
//! Deliberately not here: accounts, JWTs and operators, authentication callouts, users by client certificate, and
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

/// Slow checks of passwords that run at once, each on a thread of its own: whoever waits for the disk, or for a batch to be expanded,
/// does not wait for strangers.
const CHECKS_AT_ONCE: usize = 2;

/// All who may connect.
#[derive(Debug)]
pub struct Auth {
    users: Users,
    /// Slow checks that may begin.
    places: Arc<Semaphore>,
}

impl Auth {
    /// Reads users from the settings and from the file they name. Blocks.
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

    /// True if clients must present something.
    pub fn required(&self) -> bool {
        self.users.is_needed()
    }

    /// True if INFO says that credentials are needed: they are, and nobody stands for those without.
    pub(crate) fn asks(&self) -> bool {
        self.required() && self.users.guest().is_none()
    }

    /// What those may do who present nothing, not even a CONNECT; `None` if they are not let in.
    pub(crate) fn guest(&self) -> Option<Arc<Permissions>> {
        self.users.guest().cloned().map(|guest| Arc::new(Permissions::of(guest)))
    }

    /// True if INFO must carry a nonce to be signed.
    pub(crate) fn wants_nonce(&self) -> bool {
        self.users.has_keys()
    }

    /// Decides who a client is by its CONNECT. `nonce` is the one that this connection's INFO carried.
    ///
    /// May take a good part of a second where a password is kept as a bcrypt hash: the check runs on another thread,
    /// and longer where many wait. The caller bounds the wait by the authentication timeout.
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

    /// What is compared of that which a CONNECT presents; `None` if it presents nothing, and would have to.
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

    /// On a thread of its own, which costs nothing beside what it does.
    async fn run(&self, check: SlowCheck) -> Result<Arc<User>, Denied> {
        // The semaphore is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await;
        let (tell, told) = oneshot::channel();
        let check = move || {
            let user = check.run();
            // Also if nobody waits for the answer any more, the thread was busy until here.
            drop(place);
            let _ = tell.send(user);
        };
        // Where it fails, the client is not let in, and that is not its fault.
        if let Err(error) = thread::spawn("password", check) {
            tracing::error!(%error, "a password is not compared: the system gives no thread");
            return Err(Denied::WrongSecret);
        }
        told.await.unwrap_or_else(|_| {
            tracing::error!("a bug of the server: comparing a password panicked");
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

/// Empty texts are none.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// A challenge: 128 random bits as text.
pub(crate) fn nonce() -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random::bytes16())
}

#[cfg(test)]
mod tests;
