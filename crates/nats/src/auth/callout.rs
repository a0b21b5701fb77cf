//! Auth callout: an external service decides about every client, except for its own users.

use std::sync::Arc;

use tailrace_env::random;
use tailrace_identity::Denied;
use tailrace_identity::nats_accounts::CalloutSettings;
use tailrace_identity::nats_accounts::callout::CurveKey;
use tailrace_identity::nats_accounts::jwt::{KeyKind, SigningKey};

use super::permissions::Permissions;

/// The service, and the server's keys for the conversation with it.
pub(crate) struct Callout {
    pub(super) settings: CalloutSettings,
    pub(super) key: SigningKey,
    pub(super) curve_key: Option<CurveKey>,
}

impl std::fmt::Debug for Callout {
    /// Omits the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callout").field("account", &self.settings.account).finish_non_exhaustive()
    }
}

impl Callout {
    /// Makes the keys. `None` if that fails, which is a bug or a broken source of randomness.
    pub(super) fn new(settings: CalloutSettings) -> Option<Self> {
        let key = SigningKey::new(KeyKind::Server, &seed())?;
        let curve_key = match settings.xkey {
            Some(_) => Some(CurveKey::new(seed())?),
            None => None,
        };
        Some(Self { settings, key, curve_key })
    }

    /// The public key of the server, which is its id.
    pub(crate) fn server_id(&self) -> &str {
        self.key.public()
    }

    /// Reports whether the service decides about a user whom the server knows, and who has proved it, or
    /// about a client who has not.
    pub(super) fn is_asked_about(&self, known: &Result<Arc<Permissions>, Denied>) -> bool {
        let user = known.as_ref().ok().and_then(|permissions| permissions.user().name());
        self.settings.is_asked_about(user.map(|name| &**name))
    }
}

/// Makes the seed of a key.
pub(super) fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    seed.chunks_exact_mut(16).for_each(|bytes| bytes.copy_from_slice(&random::bytes16()));
    seed
}
