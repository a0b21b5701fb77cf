//! Authentication of NATS clients. A CONNECT becomes a credential, which is compared with the users of the
//! settings and of a file, both read at the start, and then with the users of the cluster.
//!
//! An authenticated client is a [`User`](tailrace_identity::User), and its connection asks its
//! [`Permissions`] from then on. `tailrace_identity` implements users, their secrets and their rules.
//!
//! The users of the cluster, who are also Kafka's, count only if rules decide (`authorizer.class.name`) or if
//! `tailrace.nats.authentication` requires a login: otherwise they would have all permissions here.
//!
//! With an `operator`, users prove who they are by signed claims instead. With a `callout`, an external
//! service decides. With `tailrace.nats.tls.verify.and.map`, the certificate of the connection does.

mod admission;
mod callout;
mod certificate;
mod clock;
mod decisions;
mod error;
mod file;
mod follow;
mod follow_claims;
mod login;
mod operator;
mod permissions;
mod rights;
mod settings;
mod turn;

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use tailrace_config::{AuthorizerClass, BrokerConfig, NatsAuthentication};
use tailrace_env::sync::{Semaphore, oneshot};
use tailrace_env::time::Duration;
use tailrace_env::{random, thread};
use tailrace_identity::acl::Access;
use tailrace_identity::nats_accounts::AccountTable;
use tailrace_identity::nats_accounts::jwt::{Connection, Presented, UserClaims};
use tailrace_identity::{Check, Credential, Denied, SlowCheck, User, UserName, Users};
use tailrace_nats_wire::ConnectOptions;
use tailrace_node::access::{LoggedIn, LoginRefused};
use tailrace_node::{Caller, Node};

use crate::account::{GLOBAL, SYSTEM};

pub(crate) use admission::admit;
pub(crate) use callout::Callouts;
pub use error::AuthError;
pub use follow::follow_access;
pub(crate) use follow_claims::apply as apply_claims;
pub use follow_claims::follow_claims;
use login::given;
pub(crate) use login::{Mechanism, Refused};
use operator::Claimed;
pub(crate) use operator::Operator;
pub(crate) use permissions::Permissions;
pub(crate) use rights::ReplyRight;
use rights::{Images, Source, SubjectRights};
pub(crate) use turn::TurnSubjects;

/// Most slow password checks at the same time. Each runs on a thread of its own, so that tasks that wait for
/// the disk, or for the decompression of a batch, do not wait for strangers.
const CHECKS_AT_ONCE: usize = 2;

/// The users that may connect.
#[derive(Debug)]
pub struct Auth {
    users: Users,
    /// Set if users prove who they are by claims alone.
    operator: Option<Arc<Operator>>,
    system_account: Arc<str>,
    /// The server's keys for questions, if a service may decide about clients.
    callouts: Option<Callouts>,
    /// Whether every client must log in.
    is_login_required: bool,
    /// Whether the rules of the cluster decide what clients may do.
    has_rules: bool,
    /// Slots for slow checks.
    places: Arc<Semaphore>,
    /// The account in which topics live.
    topics_account: Arc<str>,
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
        if config.tailrace_nats_tls_verify_and_map {
            users.map_certificates();
        }
        add_settings(&mut users, config)?;
        if !config.tailrace_nats_users_file.is_empty() {
            file::load(&mut users, PathBuf::from(&config.tailrace_nats_users_file))?;
        }
        let operator = Operator::load(config)?;
        settings::check(config, &users, operator.as_deref())?;
        let callouts = match users.callout().is_some() || operator.is_some() {
            false => None,
            true => Some(Callouts::new(users.callout().cloned()).ok_or(AuthError::NoKeys)?),
        };
        let system_account = match (&*config.tailrace_nats_system_account, &operator) {
            ("", Some(operator)) => {
                operator.system_account().map_or(SYSTEM.into(), |name| name.clone().into())
            }
            ("", None) => SYSTEM.into(),
            (name, _) => name.into(),
        };
        Ok(Self {
            users,
            operator,
            system_account,
            callouts,
            is_login_required: config.tailrace_nats_authentication == NatsAuthentication::Required,
            has_rules: config.authorizer_class_name == AuthorizerClass::Standard,
            places: Arc::new(Semaphore::new(CHECKS_AT_ONCE)),
            topics_account: config.tailrace_nats_topics_account.as_str().into(),
        })
    }

    /// Reports whether clients must present credentials.
    pub fn required(&self) -> bool {
        self.users.is_needed()
            || self.is_login_required
            || self.operator.is_some()
            || self.users.maps_certificates()
    }

    /// The operator, if users prove who they are by claims.
    pub(crate) fn operator(&self) -> Option<&Arc<Operator>> {
        self.operator.as_ref()
    }

    /// The name of the account that hears of events, and may ask about everything.
    pub(crate) fn system_account(&self) -> &str {
        &self.system_account
    }

    /// The server's keys for questions, if a service may decide about clients.
    pub(crate) fn callouts(&self) -> Option<&Callouts> {
        self.callouts.as_ref()
    }

    /// Reports whether an account's clients must not ask the service of a callout themselves.
    pub(crate) fn guards_callout(&self, account: &str) -> bool {
        match &self.operator {
            Some(operator) => operator.has_callout(account),
            None => self.users.callout().is_some(),
        }
    }

    /// Reports whether certificates of connections are looked at.
    pub(crate) fn reads_certificates(&self) -> bool {
        self.users.maps_certificates()
    }

    fn source(&self) -> Source {
        match &self.operator {
            Some(operator) => Source::Claims(Arc::clone(operator)),
            None => Source::File(Arc::clone(self.users.accounts())),
        }
    }

    /// Reports whether the users of the cluster may log in.
    fn lets_cluster_users_in(&self) -> bool {
        (self.has_rules || self.is_login_required) && self.operator.is_none()
    }

    /// Reports whether credentials in a CONNECT are checked, even if none are required.
    pub(crate) fn checks(&self) -> bool {
        self.required() || self.lets_cluster_users_in() || self.users.callout().is_some()
    }

    /// Reports whether a user of the settings or the file has this name.
    pub(crate) fn has_user(&self, name: &str) -> bool {
        self.users.reserves(name)
    }

    /// Reports whether INFO says that credentials are needed: they are, and there is no guest for clients
    /// without.
    pub(crate) fn asks(&self) -> bool {
        self.required() && !self.has_guest()
    }

    /// Reports whether clients that present nothing, not even a CONNECT, are let in.
    pub(crate) fn has_guest(&self) -> bool {
        !self.is_login_required
            && self.operator.is_none()
            && self.users.callout().is_none()
            && !self.users.maps_certificates()
            && (!self.users.is_needed() || self.users.guest().is_some())
    }

    /// The permissions of clients that present nothing, not even a CONNECT. `None` if they are refused.
    pub(crate) fn guest(&self, asker: &Asker) -> Option<Arc<Permissions>> {
        let user = self.users.guest().cloned().unwrap_or_default();
        let is_let_in = self.has_guest() && user.may_connect_by(asker.connection.kind);
        is_let_in.then(|| Arc::new(self.permissions(user, asker, None)))
    }

    /// Makes the permissions of a user. Everybody passes here, so that no way in leaves out the rules.
    fn permissions(&self, user: Arc<User>, asker: &Asker, login: Option<LoggedIn>) -> Permissions {
        // The users of the cluster are Kafka's, and belong where the topics are.
        let account: Arc<str> = match (&login, user.account()) {
            (Some(_), _) => Arc::clone(&self.topics_account),
            (None, Some(account)) => account.clone().into(),
            (None, None) => GLOBAL.into(),
        };
        let images = Images::of(&self.source(), &account, &self.topics_account);
        let rights = self.has_rules.then(|| {
            let client = asker.client.clone();
            let caller =
                user.name().map_or_else(|| client.clone(), |name| client.clone().as_user(name.clone()));
            SubjectRights::new(&asker.node, caller, images.clone())
        });
        Permissions::new(user, rights, login, account).with_topics(&asker.node, images)
    }

    /// The accounts of the users file, or of the operator.
    pub(crate) fn accounts(&self) -> Arc<AccountTable> {
        self.source().table()
    }

    /// Reports whether INFO must contain a nonce to be signed.
    pub(crate) fn wants_nonce(&self) -> bool {
        self.users.has_keys() || self.operator.is_some()
    }

    /// Authenticates a client by its CONNECT. `nonce` is the one in this connection's INFO.
    ///
    /// May take a good part of a second if a password is stored as a bcrypt hash. The check runs on another
    /// thread, and takes longer if many wait. The caller bounds the wait by the authentication timeout.
    ///
    /// # Errors
    /// See [`Refused`].
    pub(crate) async fn authenticate(
        &self,
        connect: &ConnectOptions,
        nonce: &str,
        asker: &Asker,
    ) -> Result<Arc<Permissions>, Refused> {
        if !self.checks() {
            return Ok(Arc::new(self.permissions(Arc::default(), asker, None)));
        }
        let mechanism = self.mechanism(connect);
        if let Some(operator) = &self.operator {
            return self.admit_by_claims(operator, connect, nonce, asker);
        }
        if mechanism == Mechanism::Certificate {
            return self.admit_by_certificate(connect, asker).await;
        }
        let refused = |denied: Denied| Refused::of(connect, mechanism, denied);
        if let Some((user, password)) = self.cluster_login(connect) {
            let login = asker.log_in(user, password).await;
            let login = login.map_err(|reason| Refused::of(connect, mechanism, reason))?;
            return Ok(self.cluster_user(login, mechanism, asker));
        }
        let credential = self.credential(connect, nonce).map_err(refused)?;
        let Some(credential) = credential else {
            return self.guest(asker).ok_or_else(|| refused(Denied::NoCredentials));
        };
        let user = self.finished(self.users.check(&credential)).await.map_err(refused)?;
        // Asked last, so that the answer tells nothing about a wrong password.
        if !user.may_connect_by(asker.connection.kind) {
            return Err(refused(Denied::ConnectionKind));
        }
        Ok(Arc::new(self.permissions(user, asker, None).proved_by(mechanism)))
    }

    /// Returns how a client with this CONNECT logs in, if the server decides about it itself.
    pub(crate) fn mechanism(&self, connect: &ConnectOptions) -> Mechanism {
        let has_key = given(&connect.nkey).is_some() && self.users.has_keys();
        match () {
            () if self.operator.is_some() => Mechanism::Jwt,
            () if has_key => Mechanism::Nkey,
            () if self.users.maps_certificates() => Mechanism::Certificate,
            () if self.users.has_token() && given(&connect.auth_token).is_some() => Mechanism::Token,
            () => Mechanism::Password,
        }
    }

    fn cluster_user(&self, login: LoggedIn, mechanism: Mechanism, asker: &Asker) -> Arc<Permissions> {
        let user = Arc::new(User::without_lists(login.user()));
        Arc::new(self.permissions(user, asker, Some(login)).proved_by(mechanism))
    }

    /// Lets a client in by its claims.
    fn admit_by_claims(
        &self,
        operator: &Operator,
        connect: &ConnectOptions,
        nonce: &str,
        asker: &Asker,
    ) -> Result<Arc<Permissions>, Refused> {
        let Some(token) = given(&connect.jwt).or_else(|| operator.sentinel()) else {
            return Err(Refused::new(Mechanism::Jwt, Denied::NoCredentials));
        };
        let claims = UserClaims::read(token).map_err(|reason| Refused::new(Mechanism::Jwt, reason))?;
        let presented = Presented { nonce, signature: connect.sig.as_deref() };
        let claimed: Claimed = operator.admit(&claims, presented, asker.connection).map_err(|reason| {
            let who = format_args!("user {}/{}: {reason}", claims.account(), claims.subject());
            Refused::new(Mechanism::Jwt, who)
        })?;
        let permissions = self.permissions(Arc::clone(&claimed.user.user), asker, None);
        Ok(Arc::new(permissions.with_claims(claimed).proved_by(Mechanism::Jwt)))
    }

    /// Returns the name and password in a CONNECT, if they can only be those of a user of the cluster.
    fn cluster_login<'a>(&self, connect: &'a ConnectOptions) -> Option<(&'a str, &'a str)> {
        let user = given(&connect.user).filter(|_| self.lets_cluster_users_in())?;
        let has_other =
            given(&connect.nkey).is_some() && self.users.has_keys() || given(&connect.auth_token).is_some();
        let password = given(&connect.pass).unwrap_or_default();
        (!has_other && !self.users.has(user)).then_some((user, password))
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

    /// Waits for a check, if it is slow.
    async fn finished(&self, check: Check) -> Result<Arc<User>, Denied> {
        match check {
            Check::Done(user) => user,
            Check::Slow(check) => self.run(check).await,
        }
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

/// Who asks to be let in, and the node that knows the users of the cluster. A weak reference, because caches
/// of threads keep connections longer than the server.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) node: Weak<Node>,
    /// The client, of whom only the address is known.
    pub(crate) client: Caller,
    pub(crate) connection: Connection,
    /// The certificate that it shows (DER), if certificates are looked at.
    pub(crate) certificate: Option<Arc<[u8]>>,
}

impl Asker {
    /// Checks the password of a user of the cluster.
    async fn log_in(&self, user: &str, password: &str) -> Result<LoggedIn, LoginRefused> {
        let node = self.node.upgrade().ok_or(LoginRefused::WrongCredential)?;
        let name = UserName::new(user).map_err(|_| LoginRefused::WrongCredential)?;
        node.check_password(name, password).await
    }

    /// Records a login. Guests have not logged in.
    pub(crate) fn succeeded(&self, permissions: &Permissions) {
        let (Some(node), Some(mechanism)) = (self.node.upgrade(), permissions.mechanism()) else { return };
        let client = self.client.clone();
        let caller = match permissions.user().name() {
            Some(name) => client.as_user(Arc::clone(name)),
            None => client,
        };
        node.login_succeeded(&caller, mechanism.name());
    }

    /// Records a login whose account has as many connections as it may have.
    pub(crate) fn found_no_room(&self, permissions: &Permissions) {
        let (Some(node), Some(mechanism)) = (self.node.upgrade(), permissions.mechanism()) else { return };
        let user = permissions.user().name().map_or("", |name| name);
        let user = user.escape_debug();
        let reason = format_args!("user {user}: its account has as many connections as it may have");
        node.record_failed_login(&self.client, mechanism.name(), &reason);
    }

    /// Records a failed login. Returns how long to delay the answer, which is longer after each failure of
    /// the same address. Where the users of the cluster cannot log in, nothing is delayed.
    pub(crate) fn failed(&self, auth: &Auth, refused: &Refused) -> Duration {
        let Some(node) = self.node.upgrade() else { return Duration::ZERO };
        let mechanism = refused.mechanism.name();
        if auth.lets_cluster_users_in() {
            return node.login_failed(&self.client, mechanism, refused);
        }
        node.record_failed_login(&self.client, mechanism, refused);
        Duration::ZERO
    }

    /// Records a login that was not decided in time.
    pub(crate) fn late(&self, auth: &Auth, connect: &ConnectOptions) {
        let mechanism = match auth.users.callout() {
            Some(_) => Mechanism::Callout,
            None => auth.mechanism(connect),
        };
        let reason = "nothing was decided within tailrace.nats.auth.timeout.ms";
        self.failed(auth, &Refused::of(connect, mechanism, reason));
    }

    /// Records that a user's own permissions do not allow what the client asks for.
    pub(crate) fn not_permitted(&self, caller: &Caller, access: Access, subject: &[u8]) {
        if let Some(node) = self.node.upgrade() {
            node.not_permitted(caller, access, subject);
        }
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

/// Returns a challenge: 128 random bits as text.
pub(crate) fn nonce() -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random::bytes16())
}

#[cfg(test)]
mod tests;
