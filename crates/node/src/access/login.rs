//! Logins of clients: which credential counts, and how long a login holds.

use std::net::IpAddr;
use std::sync::Arc;
use tailrace_env::time::Duration;

use tailrace_identity::certificate_names::{CertificateNameError, DnError, distinguished_name};
use tailrace_identity::oauth::{InitialResponse, Token};
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_identity::{NotAdmitted, UserName};
use tailrace_metadata::{MetadataImage, StoredUser};
use tailrace_types::TimestampMs;

use super::passwords::Busy;
use super::pending::PendingLogin;
use super::tokens::TokenFault;
use crate::caller::Caller;
use crate::node::Node;

/// A login that succeeded. It holds as long as its credential does.
#[derive(Clone, Debug)]
pub struct LoggedIn {
    user: UserName,
    proof: Proof,
}

/// The credential behind a login.
#[derive(Clone, Debug)]
enum Proof {
    /// A password. It may be changed or removed.
    Password(Shown),
    /// A delegation token, by id. It may be renewed or removed.
    Delegated(String),
    /// A token.
    Token { expires_at: TimestampMs },
    /// A certificate, checked by TLS. It counts as long as the connection does.
    Certificate,
    /// The same, of a user who must be one of the cluster.
    KnownCertificate,
}

/// The verifier that a password was checked against. It is shared with the metadata, so that a thousand idle
/// connections do not keep a thousand copies.
#[derive(Clone, Debug)]
struct Shown {
    stored: Arc<StoredUser>,
    mechanism: ScramMechanism,
    /// Whether it is the one before the current one.
    is_previous: bool,
}

impl Shown {
    /// Finds a verifier among those of a user.
    fn find(stored: &Arc<StoredUser>, verifier: &ScramVerifier) -> Option<Self> {
        let mechanism = verifier.mechanism();
        let shown = |is_previous| Self { stored: Arc::clone(stored), mechanism, is_previous };
        [false, true].map(shown).into_iter().find(|shown| shown.verifier() == Some(verifier))
    }

    fn verifier(&self) -> Option<&ScramVerifier> {
        let credential = self.stored.credential(self.mechanism)?;
        match self.is_previous {
            false => Some(&credential.verifier),
            true => credential.previous.as_ref().map(|previous| &previous.verifier),
        }
    }
}

impl LoggedIn {
    /// Returns the user.
    pub fn user(&self) -> &UserName {
        &self.user
    }

    /// Makes the login of a delegation token.
    pub(super) fn delegated(user: UserName, id: String) -> Self {
        Self { user, proof: Proof::Delegated(id) }
    }

    /// Reports whether the login was made with a delegation token. Such a login cannot make others.
    pub fn is_delegated(&self) -> bool {
        matches!(self.proof, Proof::Delegated(_))
    }

    /// Returns when the credential ends by itself, if it does.
    fn end(&self, image: &MetadataImage) -> Option<TimestampMs> {
        match &self.proof {
            Proof::Token { expires_at } => Some(*expires_at),
            Proof::Delegated(id) => image.access().token(id).map(|token| token.expires_at),
            Proof::Password(shown) => {
                let (user, own) = (image.access().user(self.user.as_str())?, shown.verifier()?);
                let credential = user.credential(shown.mechanism)?;
                let previous = credential.previous.as_ref().filter(|_| credential.verifier != *own)?;
                (previous.verifier == *own).then_some(previous.valid_until)
            }
            Proof::Certificate | Proof::KnownCertificate => None,
        }
    }

    /// Reports whether the user may still log in with this credential.
    pub(super) fn holds(&self, image: &MetadataImage, now: TimestampMs) -> bool {
        let user = image.access().user(self.user.as_str());
        if user.is_some_and(|user| user.disabled.is_some()) {
            return false;
        }
        match &self.proof {
            Proof::Password(shown) => {
                let credential = user.and_then(|user| user.credential(shown.mechanism));
                let Some((credential, own)) = credential.zip(shown.verifier()) else { return false };
                credential.verifiers(now).any(|known| known == own)
            }
            Proof::Delegated(id) => {
                let token = image.access().token(id).filter(|token| !token.is_expired(now));
                let is_disabled = |name: &str| {
                    image.access().user(name).is_some_and(|requester| requester.disabled.is_some())
                };
                token.is_some_and(|token| token.owner == self.user.as_str() && !is_disabled(&token.requester))
            }
            // Users of tokens and certificates need not be known here. When a token expires, the session
            // ends: the front sees to that.
            Proof::Token { .. } | Proof::Certificate => true,
            Proof::KnownCertificate => user.is_some(),
        }
    }
}

/// What a login with SCRAM is checked against.
#[derive(Debug)]
pub struct ScramUser {
    /// The user's verifier, or a decoy.
    pub verifier: ScramVerifier,
    /// The one before it, if it is still valid.
    pub previous: Option<ScramVerifier>,
    /// False for a decoy, and for a user who is disabled. The login then fails at its end.
    pub may_log_in: bool,
}

/// Why a login failed. The client is told less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefused {
    /// The user is unknown or disabled, or the password is wrong.
    #[error("the user is unknown or disabled, or the password is wrong")]
    WrongCredential,
    /// Too many passwords are being checked.
    #[error("too many passwords are being checked")]
    Busy,
}

impl From<Busy> for LoginRefused {
    fn from(_: Busy) -> Self {
        Self::Busy
    }
}

/// Why a token was refused. This is for the log; the client is told less.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefused {
    /// The settings do not have the mechanism.
    #[error("logins with tokens are not enabled")]
    NotEnabled,
    /// The token is not valid.
    #[error(transparent)]
    Token(#[from] TokenFault),
    /// The client asks for the rights of another user (CVE-2017-12610).
    #[error("the client asks for the rights of another user")]
    OtherUser,
    /// The token expired within the clock skew: there is no time left for a session.
    #[error("the token has just expired")]
    Expired,
    /// The user was disabled.
    #[error("the user is disabled")]
    Disabled,
}

/// Why a certificate names no user. This is for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateRefused {
    /// The subject cannot be written as text.
    #[error(transparent)]
    Subject(#[from] DnError),
    /// No rule makes a legal name of it.
    #[error(transparent)]
    Name(#[from] CertificateNameError),
    /// The user was disabled.
    #[error("the user in the certificate is disabled")]
    Disabled,
    /// There is no such user.
    #[error("it names no user")]
    Unknown,
}

impl Node {
    /// Takes a place among the connections of Kafka clients that have not logged in yet.
    ///
    /// # Errors
    /// There are too many, of this address or in all.
    pub fn pending_kafka_login(&self, address: IpAddr) -> Result<PendingLogin, NotAdmitted> {
        self.access.pending.kafka(address)
    }

    /// Takes a place among the connections of NATS clients that have not logged in yet.
    ///
    /// # Errors
    /// There are too many, of this address or in all.
    pub fn pending_nats_login(&self, address: IpAddr) -> Result<PendingLogin, NotAdmitted> {
        self.access.pending.nats(address)
    }

    /// Returns what a login with SCRAM is checked against. Takes as long for an unknown user as for a known
    /// one.
    pub fn scram_user(&self, user: &UserName, mechanism: ScramMechanism) -> ScramUser {
        let image = self.image();
        let decoy = ScramVerifier::decoy(mechanism, &self.decoy_secret(&image), user.as_str());
        let stored = image.access().user(user.as_str());
        match stored.and_then(|stored| Some((stored, stored.credential(mechanism)?))) {
            Some((stored, credential)) => {
                let may_log_in = stored.disabled.is_none();
                let mut verifiers = credential.verifiers(self.now()).cloned();
                let verifier = verifiers.next().unwrap_or(decoy);
                ScramUser { verifier, previous: verifiers.next(), may_log_in }
            }
            None => ScramUser { verifier: decoy, previous: None, may_log_in: false },
        }
    }

    /// Completes a login whose proof was checked against this verifier, which may have changed meanwhile.
    ///
    /// # Errors
    /// The verifier is no longer the user's.
    pub fn logged_in(&self, user: UserName, verifier: ScramVerifier) -> Result<LoggedIn, LoginRefused> {
        let image = self.image();
        let shown = image.access().user(user.as_str()).and_then(|stored| Shown::find(stored, &verifier));
        let login = LoggedIn { user, proof: Proof::Password(shown.ok_or(LoginRefused::WrongCredential)?) };
        if login.holds(&image, self.now()) { Ok(login) } else { Err(LoginRefused::WrongCredential) }
    }

    /// Checks a password. Computes slow hashes on a thread of its own, unless the password was accepted
    /// before.
    ///
    /// # Errors
    /// See [`LoginRefused`].
    pub async fn check_password(&self, user: UserName, password: &str) -> Result<LoggedIn, LoginRefused> {
        let (image, now) = (self.image(), self.now());
        let stored = image.access().user(user.as_str()).filter(|stored| stored.disabled.is_none());
        let verifiers = verifiers_of(stored.map(AsRef::as_ref), now);
        let passwords = &self.access.passwords;
        let mut accepted =
            verifiers.iter().find(|known| passwords.remembers(&user, known, password)).cloned();
        if accepted.is_none() {
            let secret = self.decoy_secret(&image);
            let missing = ScramMechanism::ALL
                .into_iter()
                .filter(|mechanism| verifiers.iter().all(|known| known.mechanism() != *mechanism));
            let decoys = missing.map(|mechanism| ScramVerifier::decoy(mechanism, &secret, user.as_str()));
            let decoys: Vec<_> = decoys.collect();
            accepted = passwords.check(&user, verifiers, decoys, password).await?;
        }
        let verifier = accepted.ok_or(LoginRefused::WrongCredential)?;
        self.logged_in(user, verifier)
    }

    /// Validates the token in the first message of OAUTHBEARER.
    ///
    /// # Errors
    /// See [`TokenRefused`].
    pub async fn check_token(&self, message: &InitialResponse<'_>) -> Result<LoggedIn, TokenRefused> {
        self.check_token_of(message.token(), |name| message.allows(name)).await
    }

    /// Validates a token that comes without a name beside it, as over HTTP.
    ///
    /// # Errors
    /// See [`TokenRefused`].
    pub async fn check_bearer(&self, token: &str) -> Result<LoggedIn, TokenRefused> {
        self.check_token_of(token, |_| true).await
    }

    async fn check_token_of(
        &self,
        token: &str,
        allows: impl Fn(&str) -> bool,
    ) -> Result<LoggedIn, TokenRefused> {
        let tokens = self.access.tokens.as_ref().ok_or(TokenRefused::NotEnabled)?;
        let Token { name, expires_at_ms, .. } = tokens.validate(token, self.now()).await?;
        if !allows(name.as_str()) {
            return Err(TokenRefused::OtherUser);
        }
        let expires_at = TimestampMs(expires_at_ms);
        let (login, now) = (LoggedIn { user: name, proof: Proof::Token { expires_at } }, self.now());
        if now >= expires_at {
            return Err(TokenRefused::Expired);
        }
        if login.holds(&self.image(), now) { Ok(login) } else { Err(TokenRefused::Disabled) }
    }

    /// Returns the login of a client that has shown this certificate (DER) and that TLS has accepted.
    ///
    /// # Errors
    /// See [`CertificateRefused`].
    pub fn certificate_login(&self, certificate: &[u8]) -> Result<LoggedIn, CertificateRefused> {
        self.login_of(certificate, Proof::Certificate)
    }

    /// The same, but only for users of the cluster. The login holds until the user is removed.
    ///
    /// # Errors
    /// See [`CertificateRefused`].
    pub fn known_certificate_login(&self, certificate: &[u8]) -> Result<LoggedIn, CertificateRefused> {
        self.login_of(certificate, Proof::KnownCertificate)
    }

    fn login_of(&self, certificate: &[u8], proof: Proof) -> Result<LoggedIn, CertificateRefused> {
        let user = self.access.certificate_names.name(&distinguished_name(certificate)?)?;
        let image = self.image();
        let is_disabled = image.access().user(user.as_str()).map(|user| user.disabled.is_some());
        match (is_disabled, &proof) {
            (Some(true), _) => Err(CertificateRefused::Disabled),
            (None, Proof::KnownCertificate) => Err(CertificateRefused::Unknown),
            (None | Some(false), _) => Ok(LoggedIn { user, proof }),
        }
    }

    /// Reports whether a login still holds: the user is not disabled, and still has the password. Whether the
    /// credential has expired is another question, except for older passwords and delegation tokens: see
    /// [`Node::login_end`].
    pub fn login_holds(&self, login: &LoggedIn) -> bool {
        login.holds(&self.image(), self.now())
    }

    /// Returns when the credential of a login ends by itself. `None` if it does not. Renewing a delegation
    /// token changes this.
    pub fn login_end(&self, login: &LoggedIn) -> Option<TimestampMs> {
        login.end(&self.image())
    }

    /// Returns the time until the credential of a login ends by itself.
    pub fn login_time_left(&self, login: &LoggedIn) -> Option<Duration> {
        let left = self.login_end(login)?.since(self.now());
        Some(Duration::from_millis(left.try_into().unwrap_or_default()))
    }

    /// Returns the version of users and rules. Whatever was decided by another version may no longer hold.
    pub fn access_version(&self) -> u64 {
        self.image().access().version()
    }

    /// Records a failed login from an address, and returns how long to delay the answer.
    pub fn login_failed(
        &self,
        caller: &Caller,
        mechanism: &'static str,
        reason: &dyn std::fmt::Display,
    ) -> Duration {
        self.record_failed_login(caller, mechanism, reason);
        let access = &self.access;
        match caller.address() {
            Some(address) => access.failed.lock().fail(address.ip(), access.now()),
            None => Duration::ZERO,
        }
    }

    /// Records a failed login that delays nothing.
    pub fn record_failed_login(
        &self,
        caller: &Caller,
        mechanism: &'static str,
        reason: &dyn std::fmt::Display,
    ) {
        self.access.metrics.login(mechanism, false);
        self.access.audit.login_failed(caller, mechanism, reason, self.access.now());
    }

    /// Records a login.
    pub fn login_succeeded(&self, caller: &Caller, mechanism: &'static str) {
        self.access.metrics.login(mechanism, true);
        self.access.audit.login(caller, mechanism, self.access.now());
    }

    /// Returns the key of decoys. All nodes have the same one, as long as there is a user: it comes from the
    /// first user's credential. It changes with that credential.
    pub(super) fn decoy_secret(&self, image: &MetadataImage) -> [u8; super::SECRET_BYTES] {
        let first = image.access().users().find_map(|user| user.credentials.first());
        let key = first.map(|credential| credential.verifier.server_key());
        key.and_then(|key| key.first_chunk().copied()).unwrap_or(self.access.secret)
    }
}

/// Returns all verifiers that count now, of all mechanisms.
fn verifiers_of(user: Option<&StoredUser>, now: TimestampMs) -> Vec<ScramVerifier> {
    let credentials = user.into_iter().flat_map(|user| &user.credentials);
    credentials.flat_map(|credential| credential.verifiers(now)).cloned().collect()
}
