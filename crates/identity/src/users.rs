//! All users, as settings and files bring them, and whose a credential is.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::errors::{CredentialError, Denied};
use crate::nkey::PublicKey;
use crate::rules::Rules;
use crate::secret::{Quick, Secret, SecretKey};
use crate::user::User;

/// The name of who comes with the token.
const TOKEN: &str = "token";

/// What somebody presents to prove who he is.
#[derive(Clone, Copy)]
pub enum Credential<'a> {
    /// A user's name and password.
    Password {
        /// The name.
        user: &'a str,
        /// The password.
        password: &'a str,
    },
    /// A signature.
    Signature {
        /// The public key, as text.
        key: &'a str,
        /// What was to be signed: this connection's own challenge.
        nonce: &'a str,
        /// The signature, in base64.
        signature: &'a str,
    },
    /// The token that all share.
    Token(&'a str),
}

impl fmt::Debug for Credential<'_> {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password { .. } => "Password",
            Self::Signature { .. } => "Signature",
            Self::Token(_) => "Token",
        })
    }
}

/// Whose a credential is.
#[derive(Debug)]
pub enum Check {
    /// It is known.
    Done(Result<Arc<User>, Denied>),
    /// It takes a good part of a second to find out, or several: not for an event loop.
    Slow(SlowCheck),
}

/// A password that is to be compared with a slow hash.
pub struct SlowCheck {
    key: SecretKey,
    secret: Arc<Secret>,
    presented: String,
    /// `None`: nobody's, and found out as slowly.
    user: Option<Arc<User>>,
    denied: Denied,
}

impl SlowCheck {
    /// Compares. Keeps its thread busy for up to several seconds.
    ///
    /// # Errors
    /// It is another one.
    pub fn run(self) -> Result<Arc<User>, Denied> {
        let matches = self.secret.is_slowly(&self.key, &self.presented);
        let user = self.user.filter(|_| matches).ok_or(self.denied)?;
        self.secret.remember(&self.key, &self.presented);
        Ok(user)
    }
}

impl fmt::Debug for SlowCheck {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowCheck").field("user", &self.user).finish_non_exhaustive()
    }
}

/// How a user proves who he is.
pub(crate) enum Proof {
    Password(Arc<Secret>),
    Key(PublicKey),
}

/// One user.
struct Known {
    proof: Proof,
    user: Arc<User>,
}

/// The token that all share, and who has it.
struct Token {
    secret: Arc<Secret>,
    user: Arc<User>,
}

/// All users.
pub struct Users {
    /// By name, or by the text of the public key.
    by_name: HashMap<Arc<str>, Known>,
    token: Option<Token>,
    pub(crate) guest: Option<Arc<User>>,
    key: SecretKey,
    /// Compared in place of an unknown user's password, so that the answer takes as long as for a known one.
    decoy: Arc<Secret>,
}

impl Users {
    /// None yet. `random` is what secrets are kept under: nobody can guess it, and the next process has another one.
    pub fn new(random: [u8; 48]) -> Self {
        let (key, rest) = random.split_first_chunk().expect("48 are more than 32");
        let key = SecretKey::new(key);
        let decoy = Arc::new(Secret::decoy(&key, rest));
        Self { by_name: HashMap::new(), token: None, guest: None, key, decoy }
    }

    /// Who presents this text may do everything: plain, or a bcrypt hash of it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set_token(&mut self, text: &str) -> Result<(), CredentialError> {
        let (secret, user) = (self.secret(text)?, Arc::new(User::new(TOKEN.into(), None)));
        self.token = Some(Token { secret, user });
        Ok(())
    }

    /// Adds a user with a password, who may do everything: plain, or a bcrypt hash of it.
    ///
    /// # Errors
    /// What is wrong with the password.
    pub fn set_password(&mut self, name: &str, text: &str) -> Result<(), CredentialError> {
        let secret = self.secret(text)?;
        self.add(name, Proof::Password(secret), None)
    }

    /// Adds a user who signs with a key, which is the name too, and may do everything.
    ///
    /// # Errors
    /// What is wrong with the public key.
    pub fn set_key(&mut self, text: &str) -> Result<(), CredentialError> {
        let key = PublicKey::parse(text)?;
        self.add(text, Proof::Key(key), None)
    }

    /// True if something has to be presented.
    pub fn is_needed(&self) -> bool {
        self.has_token() || self.has_users()
    }

    /// True if there is a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// True if there is a user.
    pub fn has_users(&self) -> bool {
        !self.by_name.is_empty()
    }

    /// True if a user signs with a key.
    pub fn has_keys(&self) -> bool {
        self.by_name.values().any(|known| matches!(known.proof, Proof::Key(_)))
    }

    /// Who presents nothing is this user. `None`: he is not let in.
    pub fn guest(&self) -> Option<&Arc<User>> {
        self.guest.as_ref()
    }

    pub(crate) fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.by_name.get(name).map(|known| &known.user)
    }

    /// Whose the credential is.
    pub fn check(&self, credential: &Credential<'_>) -> Check {
        match *credential {
            Credential::Signature { key, nonce, signature } => {
                Check::Done(self.check_signature(key, nonce, signature))
            }
            Credential::Password { user, password } => match self.password_of(user) {
                Some((secret, user)) => self.compare(secret, Some(user), password, Denied::WrongSecret),
                None => self.compare(&self.decoy, None, password, Denied::Unknown),
            },
            Credential::Token(text) => match &self.token {
                Some(token) => self.compare(&token.secret, Some(&token.user), text, Denied::WrongSecret),
                None => Check::Done(Err(Denied::Unknown)),
            },
        }
    }

    fn check_signature(&self, key: &str, nonce: &str, signature: &str) -> Result<Arc<User>, Denied> {
        let known = self.by_name.get(key).ok_or(Denied::Unknown)?;
        let Proof::Key(key) = &known.proof else { return Err(Denied::Unknown) };
        if key.verifies(nonce, signature) { Ok(Arc::clone(&known.user)) } else { Err(Denied::WrongSignature) }
    }

    fn password_of(&self, name: &str) -> Option<(&Arc<Secret>, &Arc<User>)> {
        let known = self.by_name.get(name)?;
        match &known.proof {
            Proof::Password(secret) => Some((secret, &known.user)),
            Proof::Key(_) => None,
        }
    }

    fn compare(
        &self,
        secret: &Arc<Secret>,
        user: Option<&Arc<User>>,
        presented: &str,
        denied: Denied,
    ) -> Check {
        let user = user.cloned();
        match secret.is(&self.key, presented) {
            Quick::Is => Check::Done(user.ok_or(denied)),
            Quick::IsNot => Check::Done(Err(denied)),
            Quick::Unknown => Check::Slow(SlowCheck {
                key: self.key.clone(),
                secret: Arc::clone(secret),
                presented: presented.to_owned(),
                user,
                denied,
            }),
        }
    }

    /// Takes a secret over; the costliest one is what unknown users are compared with.
    pub(crate) fn secret(&mut self, text: &str) -> Result<Arc<Secret>, CredentialError> {
        let secret = Secret::new(&self.key, text)?;
        if secret.cost() > self.decoy.cost() {
            self.decoy = Arc::new(secret.as_decoy());
        }
        Ok(Arc::new(secret))
    }

    pub(crate) fn add(
        &mut self,
        name: &str,
        proof: Proof,
        rules: Option<Rules>,
    ) -> Result<(), CredentialError> {
        let name: Arc<str> = name.into();
        let user = Arc::new(User::new(Arc::clone(&name), rules));
        match self.by_name.insert(Arc::clone(&name), Known { proof, user }) {
            None => Ok(()),
            Some(_) => Err(CredentialError::Twice { name: name.to_string() }),
        }
    }
}

impl fmt::Debug for Users {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("users", &self.by_name.len()).field("token", &self.has_token()).finish()
    }
}
