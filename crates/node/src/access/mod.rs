//! Who may connect to this node, and what they may do: the users and rules of the metadata, applied.
//!
//! Rules come with the metadata, so a change holds on a node as soon as the node has applied it. Nothing here
//! is asked over the network: a node that cannot hear the controller continues with the rules it knows.
//!
//! A front authenticates its clients ([`LoggedIn`]) and asks for their [`Rights`] before it carries out a
//! request. `identity` decides; this room keeps what is needed between two questions, logs and counts.

mod audit;
mod audit_bounds;
mod audit_file;
mod audit_queue;
mod audit_topic;
mod bindings;
mod buckets;
mod changes;
mod charge;
mod commands;
mod decide;
mod delegation;
mod expiry;
mod explain;
mod first_user;
mod key_endpoint;
mod key_file;
mod login;
mod metrics;
mod own_users;
mod passwords;
mod pending;
mod quotas;
mod recent;
mod subjects;
mod token_keys;
mod token_logins;
mod tokens;
mod topic_index;

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tailrace_config::{AuthorizerClass, BrokerConfig};
use tailrace_env::random;
use tailrace_env::time::{Duration, Instant, sleep};
use tailrace_identity::FailedLogins;
use tailrace_identity::acl::{Acls, Authorizer, SuperUsers};
use tailrace_identity::certificate_names::{CertificateNames, RuleError};
use tailrace_metadata::MetadataImage;

use self::audit::Audit;
pub use self::audit::AuditFileError;
pub(crate) use self::audit_topic::{fill_audit_topic, finish_audit_topic, flush_audit_topic};
pub(crate) use self::changes::end_change;
pub use self::changes::{ChangeEnd, OpenChange};
pub(crate) use self::commands::ClientCheck;
pub use self::decide::{DescribableTopics, Rights};
use self::delegation::Delegation;
pub(crate) use self::expiry::remove_expired;
pub use self::explain::{Explained, Explanation, Question};
pub(crate) use self::first_user::{check_first_user, create_first_user};
pub use self::login::{CertificateRefused, LoggedIn, LoginRefused, ScramUser, TokenRefused};
pub(crate) use self::metrics::AccessMetrics;
pub use self::own_users::OwnUsers;
use self::passwords::Passwords;
use self::pending::Doors;
pub use self::pending::PendingLogin;
use self::quotas::ClientQuotas;
pub use self::quotas::Delivery;
pub use self::subjects::SubjectVersions;
pub use self::token_keys::TokenKeysError;
pub use self::tokens::TokenFault;
use self::tokens::Tokens;
use self::topic_index::Indexed;

/// Length of the secrets of this process.
const SECRET_BYTES: usize = 32;

/// Why clients could not log in with these settings.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Tokens cannot be validated.
    #[error(transparent)]
    TokenKeys(#[from] TokenKeysError),
    /// The rules for the names in certificates are malformed.
    #[error("configuration: ssl.principal.mapping.rules: {0}")]
    CertificateNames(#[from] RuleError),
    /// The file of the audit log cannot be opened.
    #[error(transparent)]
    AuditFile(#[from] AuditFileError),
    /// The first user has no password.
    #[error(
        "configuration: tailrace.first.user is set, and there are no users yet: tailrace.first.password must be set \
         with it (TAILRACE_FIRST_PASSWORD in the environment)"
    )]
    NoFirstPassword,
}

/// The state of this room.
pub(crate) struct Access {
    /// Whether rules decide at all. Fixed at the start.
    has_rules: bool,
    /// Made from the metadata, and replaced when they change.
    authorizer: ArcSwap<Authorizer>,
    /// The topics by subject. Made from the metadata when a NATS client asks, and replaced when they change.
    topics: ArcSwap<Indexed>,
    /// Held while one of these is replaced.
    replacing: Mutex<()>,
    failed: Mutex<FailedLogins>,
    pending: Doors,
    passwords: Passwords,
    /// `None` if clients may not log in with tokens.
    tokens: Option<Arc<Tokens>>,
    delegation: Delegation,
    certificate_names: CertificateNames,
    /// For decoys, as long as there is no user.
    secret: [u8; SECRET_BYTES],
    pub(crate) audit: Audit,
    quotas: ClientQuotas,
    metrics: Arc<AccessMetrics>,
    opened: Instant,
}

impl Access {
    /// Makes the room for the settings of the start. Reads the file with the keys of tokens, if there is one.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub(crate) fn open(config: &BrokerConfig, metrics: Arc<AccessMetrics>) -> Result<Self, AccessError> {
        let secret = || {
            let mut secret = [0; SECRET_BYTES];
            secret.chunks_exact_mut(16).for_each(|bytes| bytes.copy_from_slice(&random::bytes16()));
            secret
        };
        // The settings have been checked.
        let super_users = SuperUsers::parse(&config.super_users).unwrap_or_default();
        let allow_everyone = config.allow_everyone_if_no_acl_found;
        let authorizer = Authorizer::new(Acls::default(), super_users, allow_everyone, 0);
        Ok(Self {
            has_rules: config.authorizer_class_name == AuthorizerClass::Standard,
            authorizer: ArcSwap::from_pointee(authorizer),
            topics: ArcSwap::from_pointee(Indexed::empty()),
            replacing: Mutex::default(),
            failed: Mutex::new(FailedLogins::new(Duration::from_millis(
                config.connection_failed_authentication_delay_ms,
            ))),
            pending: Doors::new(config),
            passwords: Passwords::new(&secret()),
            tokens: Tokens::load(config, Arc::clone(&metrics))?,
            delegation: Delegation::new(config),
            certificate_names: CertificateNames::parse(&config.ssl_principal_mapping_rules)?,
            secret: secret(),
            audit: Audit::open(config, &metrics)?,
            quotas: ClientQuotas::default(),
            metrics,
            opened: Instant::now(),
        })
    }

    /// Returns the work of keeping the keys of tokens current. It never ends.
    pub(crate) fn watch_token_keys(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        self.tokens.clone().map(Tokens::watch)
    }

    /// Writes counts of what the audit log left out. Never returns.
    pub(crate) async fn sweep_audit(&self) {
        loop {
            sleep(audit::WINDOW).await;
            self.audit.sweep(self.now());
        }
    }

    /// Returns the rules of these metadata, or of later ones.
    fn authorizer(&self, image: &MetadataImage) -> Arc<Authorizer> {
        let version = image.access().version();
        let known = self.authorizer.load();
        if known.version() >= version {
            return Arc::clone(&known);
        }
        let _guard = self.replacing.lock();
        let known = self.authorizer.load_full();
        if known.version() >= version {
            return known;
        }
        let authorizer = Arc::new(known.with_acls(image.access().rules().clone(), version));
        self.authorizer.store(Arc::clone(&authorizer));
        authorizer
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    /// The time for quotas, in milliseconds.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX)
    }
}
