//! All users of settings and files, and the check of credentials.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::certificate_names::{DistinguishedName, NatsNames};
use crate::errors::{CredentialError, Denied};
use crate::nats_accounts::jwt::ConnectionKind;
use crate::nats_accounts::{AccountName, AccountTable, CalloutSettings};
use crate::nkey::PublicKey;
use crate::rules::Rules;
use crate::secret::{Quick, Secret, SecretKey};
use crate::user::User;

/// The user name of clients that present the token.
const TOKEN: &str = "token";

/// The credential that a client presents.
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
        /// The signed text: this connection's own challenge.
        nonce: &'a str,
        /// The signature, in base64.
        signature: &'a str,
    },
    /// The token that all clients share.
    Token(&'a str),
}

impl fmt::Debug for Credential<'_> {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password { .. } => "Password",
            Self::Signature { .. } => "Signature",
            Self::Token(_) => "Token",
        })
    }
}

/// The result of checking a credential.
#[derive(Debug)]
pub enum Check {
    /// The final result.
    Done(Result<Arc<User>, Denied>),
    /// The check needs a slow hash, which takes a good part of a second, or several. It must not run on an
    /// event loop.
    Slow(SlowCheck),
}

/// A password to be compared with a slow hash.
pub struct SlowCheck {
    key: SecretKey,
    secret: Arc<Secret>,
    presented: String,
    /// `None` if the user is unknown. The comparison takes as long as for a known one.
    user: Option<Arc<User>>,
    denied: Denied,
}

impl SlowCheck {
    /// Compares. Keeps its thread busy for up to several seconds.
    ///
    /// # Errors
    /// The password does not match, or the user is unknown.
    pub fn run(self) -> Result<Arc<User>, Denied> {
        let matches = self.secret.is_slowly(&self.key, &self.presented);
        let user = self.user.filter(|_| matches).ok_or(self.denied)?;
        self.secret.remember(&self.key, &self.presented);
        Ok(user)
    }
}

impl fmt::Debug for SlowCheck {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowCheck").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The proof that a user must present.
pub(crate) enum Proof {
    Password(Arc<Secret>),
    Key(PublicKey),
    /// Only that of a certificate.
    Certificate,
}

/// A user and the proof of identity.
struct Known {
    proof: Proof,
    user: Arc<User>,
}

/// The shared token, and the user it stands for.
struct Token {
    secret: Arc<Secret>,
    user: Arc<User>,
}

/// All users.
pub struct Users {
    /// Keyed by name, or by the text of the public key.
    by_name: HashMap<Arc<str>, Known>,
    /// Whether users are those whom certificates name.
    maps_certificates: bool,
    /// Users whose names are distinguished names: as they are, and with their parts in a fixed order. Empty
    /// unless certificates name users.
    by_subject: HashMap<DistinguishedName, Arc<str>>,
    by_parts: HashMap<DistinguishedName, Arc<str>>,
    token: Option<Token>,
    pub(crate) guest: Option<Arc<User>>,
    pub(crate) accounts: Arc<AccountTable>,
    pub(crate) callout: Option<CalloutSettings>,
    key: SecretKey,
    /// Compared in place of an unknown user's password, so that the answer takes as long as for a known user.
    decoy: Arc<Secret>,
}

impl Users {
    /// Makes an empty set. Secrets are stored under a key from `random`, which must be unpredictable and
    /// different in every process.
    pub fn new(random: [u8; 48]) -> Self {
        let (key, rest) = random.split_first_chunk().expect("48 are more than 32");
        let key = SecretKey::new(key);
        let decoy = Arc::new(Secret::decoy(&key, rest));
        Self {
            by_name: HashMap::new(),
            maps_certificates: false,
            by_subject: HashMap::new(),
            by_parts: HashMap::new(),
            token: None,
            guest: None,
            accounts: Arc::default(),
            callout: None,
            key,
            decoy,
        }
    }

    /// Makes users those whom certificates name. They need no password then. Call it before users are added.
    pub fn map_certificates(&mut self) {
        self.maps_certificates = true;
    }

    /// Reports whether users are those whom certificates name.
    pub fn maps_certificates(&self) -> bool {
        self.maps_certificates
    }

    /// Sets the token: plain, or its bcrypt hash. A client that presents it may do everything.
    ///
    /// # Errors
    /// Describes what is wrong with the token.
    pub fn set_token(&mut self, text: &str) -> Result<(), CredentialError> {
        let (secret, user) = (self.secret(text)?, Arc::new(User::new(TOKEN.into(), None)));
        self.token = Some(Token { secret, user });
        Ok(())
    }

    /// Adds a user with a password, plain or as a bcrypt hash. The user may do everything.
    ///
    /// # Errors
    /// Describes what is wrong with the password.
    pub fn set_password(&mut self, name: &str, text: &str) -> Result<(), CredentialError> {
        let secret = self.secret(text)?;
        self.add(name, Proof::Password(secret), None, None)
    }

    /// Adds a user who signs with a key, which is also the name. The user may do everything.
    ///
    /// # Errors
    /// Describes what is wrong with the public key.
    pub fn set_key(&mut self, text: &str) -> Result<(), CredentialError> {
        let key = PublicKey::parse(text)?;
        self.add(text, Proof::Key(key), None, None)
    }

    /// Reports whether clients must present credentials.
    pub fn is_needed(&self) -> bool {
        self.has_token() || self.has_users()
    }

    /// Reports whether there is a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Reports whether there is any user.
    pub fn has_users(&self) -> bool {
        !self.by_name.is_empty()
    }

    /// Reports whether any user signs with a key.
    pub fn has_keys(&self) -> bool {
        self.by_name.values().any(|known| matches!(known.proof, Proof::Key(_)))
    }

    /// Reports whether there is a user of this name.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Reports whether a user has this name, or the clients that present the token.
    pub fn reserves(&self, name: &str) -> bool {
        self.has(name) || (self.has_token() && name == TOKEN)
    }

    /// Returns the accounts of the file.
    pub fn accounts(&self) -> &Arc<AccountTable> {
        &self.accounts
    }

    /// Returns the service that decides about clients, if there is one.
    pub fn callout(&self) -> Option<&CalloutSettings> {
        self.callout.as_ref()
    }

    /// Returns the user of clients that present no credentials. `None` if such clients are denied access.
    pub fn guest(&self) -> Option<&Arc<User>> {
        self.guest.as_ref()
    }

    pub(crate) fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.by_name.get(name).map(|known| &known.user)
    }

    /// Checks which user a credential belongs to.
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
            Proof::Key(_) | Proof::Certificate => None,
        }
    }

    /// Checks which user a certificate belongs to: the first of its names that is a user's. If that user has
    /// a password, it must be presented, too. `None` if no name is that of a user.
    pub fn check_certificate(&self, names: &NatsNames, password: &str) -> Option<Check> {
        let known = self.named_by(names)?;
        Some(match &known.proof {
            Proof::Password(secret) => self.compare(secret, Some(&known.user), password, Denied::WrongSecret),
            Proof::Certificate if password.is_empty() => Check::Done(Ok(Arc::clone(&known.user))),
            Proof::Certificate | Proof::Key(_) => Check::Done(Err(Denied::WrongSecret)),
        })
    }

    fn named_by(&self, names: &NatsNames) -> Option<&Known> {
        // A key proves itself by a signature, and by nothing else.
        let named = |name: &str| self.by_name.get(name).filter(|known| !matches!(known.proof, Proof::Key(_)));
        let literal = |list: &[String]| list.iter().find_map(|name| named(name));
        let by_subject = |subject: &DistinguishedName| {
            let found = self.by_subject.get(subject);
            found.or_else(|| self.by_parts.get(&subject.in_any_order())).and_then(|name| named(name))
        };
        literal(&names.alternative)
            .or_else(|| names.subject.as_ref().and_then(by_subject))
            .or_else(|| literal(&names.texts))
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

    /// Stores a secret. The costliest one so far becomes the decoy for unknown users.
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
        account: Option<AccountName>,
    ) -> Result<(), CredentialError> {
        match name {
            "*" => return Err(CredentialError::Everybody),
            _ if name.contains(char::is_control) => return Err(CredentialError::Control),
            _ => {}
        }
        let name: Arc<str> = name.into();
        if let Some(subject) = DistinguishedName::parse(&name).filter(|_| self.maps_certificates) {
            // Of users who differ only in the way their name is written, the first one counts.
            self.by_parts.entry(subject.in_any_order()).or_insert_with(|| Arc::clone(&name));
            self.by_subject.entry(subject).or_insert_with(|| Arc::clone(&name));
        }
        let user = Arc::new(match account {
            Some(account) => User::in_account(Arc::clone(&name), rules, &account),
            None => User::new(Arc::clone(&name), rules),
        });
        match self.by_name.insert(Arc::clone(&name), Known { proof, user }) {
            None => Ok(()),
            Some(_) => Err(CredentialError::Twice { name: name.to_string() }),
        }
    }

    /// Lets a known user have only these kinds of connection.
    pub(crate) fn restrict(&mut self, name: &str, kinds: Arc<[ConnectionKind]>) {
        if let Some(known) = self.by_name.get_mut(name) {
            known.user = Arc::new(User::clone(&known.user).only_by(kinds));
        }
    }
}

impl fmt::Debug for Users {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("users", &self.by_name.len()).field("token", &self.has_token()).finish()
    }
}
