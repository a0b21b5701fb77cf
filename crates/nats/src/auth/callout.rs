//! Auth callout: an external service decides about clients, except for its own users.

use std::sync::Arc;

use tailrace_env::random;
use tailrace_identity::nats_accounts::CalloutSettings;
use tailrace_identity::nats_accounts::callout::CurveKey;
use tailrace_identity::nats_accounts::jwt::{AccountClaims, KeyKind, SigningKey};

use super::login::Refused;
use super::operator::Operator;
use super::permissions::Permissions;

/// The server's keys for the conversation with services, and the configured service.
pub(crate) struct Callouts {
    /// `None` with an operator: the claims of an account name its service.
    settings: Option<CalloutSettings>,
    pub(super) key: SigningKey,
    pub(super) curve_key: CurveKey,
}

/// Who is asked about a client.
pub(super) enum Service<'a> {
    /// The service of the users file.
    Configured(&'a CalloutSettings),
    /// The service that the claims of an account name.
    OfAccount(Arc<AccountClaims>, &'a Operator),
}

impl Service<'_> {
    /// `None` if the account has no callout.
    pub(super) fn settings(&self) -> Option<&CalloutSettings> {
        match self {
            Self::Configured(settings) => Some(settings),
            Self::OfAccount(claims, _) => claims.definition().callout.as_ref(),
        }
    }
}

impl std::fmt::Debug for Callouts {
    /// Omits the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let account = self.settings.as_ref().map(|settings| &settings.account);
        f.debug_struct("Callouts").field("account", &account).finish_non_exhaustive()
    }
}

impl Callouts {
    /// Makes the keys. `None` if that fails, which is a bug or a broken source of randomness.
    pub(super) fn new(settings: Option<CalloutSettings>) -> Option<Self> {
        let key = SigningKey::new(KeyKind::Server, &seed())?;
        Some(Self { settings, key, curve_key: CurveKey::new(seed())? })
    }

    /// The public key of the server, which is its id.
    pub(crate) fn server_id(&self) -> &str {
        self.key.public()
    }

    /// Returns the service that decides about a client in the end. Without an operator, it is asked about
    /// those, too, whom the server knows, or has refused. With one, a client must have claims of the
    /// service's account first.
    pub(super) fn service<'a>(
        &'a self,
        operator: Option<&'a Operator>,
        known: &Result<Arc<Permissions>, Refused>,
    ) -> Option<Service<'a>> {
        let known = known.as_ref().ok();
        if let Some(operator) = operator {
            let asked = operator.asked_about(known?.claimed()?)?;
            return Some(Service::OfAccount(asked, operator));
        }
        let settings = self.settings.as_ref()?;
        let user = known.and_then(|permissions| permissions.user().name());
        settings.is_asked_about(user.map(|name| &**name)).then_some(Service::Configured(settings))
    }
}

/// Makes the seed of a key.
pub(super) fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    seed.chunks_exact_mut(16).for_each(|bytes| bytes.copy_from_slice(&random::bytes16()));
    seed
}
