//! What `tailrace.nats.tls.verify.and.map` needs, and excludes.

use tailrace_config::{BrokerConfig, NatsTls, TlsClientAuth};
use tailrace_identity::Users;

use super::error::AuthError;

/// Its key.
pub(super) const SETTING: &str = "tailrace.nats.tls.verify.and.map";

/// Checks the settings that this one needs or excludes. An operator is excluded elsewhere.
pub(super) fn check(config: &BrokerConfig, users: &Users) -> Result<(), AuthError> {
    if !users.maps_certificates() {
        return Ok(());
    }
    let needs = |other| AuthError::Alone { key: SETTING, other };
    if config.tailrace_tls_client_auth != TlsClientAuth::Required {
        return Err(needs("tailrace.tls.client.auth=required"));
    }
    if config.nats_address().is_some() && config.tailrace_nats_tls != NatsTls::Required {
        return Err(needs("tailrace.nats.tls=required"));
    }
    if users.has_token() {
        return Err(AuthError::Excludes { key: SETTING, other: "tailrace.nats.token" });
    }
    match users.guest() {
        Some(_) => Err(AuthError::Excludes { key: SETTING, other: "no_auth_user" }),
        None => Ok(()),
    }
}
