//! Checks settings that need or exclude each other.

use tailrace_config::{BrokerConfig, NatsTls, TlsClientAuth};
use tailrace_identity::Users;
use tailrace_identity::nats_accounts::AccountName;
use tailrace_identity::nats_accounts::jwt::{KeyKind, Nkey};

use super::error::AuthError;
use super::operator::Operator;
use crate::account::GLOBAL;

const TOPICS: &str = "tailrace.nats.topics.account";
const OPERATOR: &str = "tailrace.nats.operator.file";
const VERIFY_AND_MAP: &str = "tailrace.nats.tls.verify.and.map";

/// Checks all of them. Warns about what is allowed and hardly meant.
pub(super) fn check(
    config: &BrokerConfig,
    users: &Users,
    operator: Option<&Operator>,
) -> Result<(), AuthError> {
    check_accounts(config, users, operator)?;
    if let Some(warning) = operator.and_then(|_| unreachable_topics(config)) {
        tracing::warn!("{warning}");
    }
    check_certificates(config, users)
}

/// Checks the settings that name accounts, and those that an operator excludes.
fn check_accounts(
    config: &BrokerConfig,
    users: &Users,
    operator: Option<&Operator>,
) -> Result<(), AuthError> {
    let topics = config.tailrace_nats_topics_account.as_str();
    let wrong = |reason: String| AuthError::Account { key: TOPICS, reason };
    AccountName::new(topics).map_err(|reason| wrong(reason.to_string()))?;
    if operator.is_none() {
        if !config.tailrace_nats_websocket_jwt_cookie.is_empty() {
            let key = "tailrace.nats.websocket.jwt.cookie";
            return Err(AuthError::Alone { key, other: OPERATOR });
        }
        let is_known = topics == GLOBAL || users.accounts().account(topics).is_some();
        return is_known.then_some(()).ok_or_else(|| wrong(format!("there is no account {topics}")));
    }
    let excluded = [
        ("tailrace.nats.token", config.tailrace_nats_token.is_empty()),
        ("tailrace.nats.user", config.tailrace_nats_user.is_empty()),
        ("tailrace.nats.nkey", config.tailrace_nats_nkey.is_empty()),
        ("tailrace.nats.users.file", config.tailrace_nats_users_file.is_empty()),
        (VERIFY_AND_MAP, !config.tailrace_nats_tls_verify_and_map),
    ];
    match excluded.iter().find(|(_, is_empty)| !is_empty) {
        None => Ok(()),
        Some((other, _)) => Err(AuthError::WithOperator { key: OPERATOR, other }),
    }
}

/// Returns a warning if, with an operator, no NATS client can be in the account that has the topics: with
/// one, accounts have public keys for names.
pub(super) fn unreachable_topics(config: &BrokerConfig) -> Option<String> {
    let topics = config.tailrace_nats_topics_account.as_str();
    Nkey::parse_as(KeyKind::Account, topics).is_err().then(|| {
        format!(
            "no NATS client can reach topics: with tailrace.nats.operator.file, tailrace.nats.topics.account must \
             be the public key of an account (A...), and not {topics:?}"
        )
    })
}

/// Checks the settings that `verify.and.map` needs or excludes.
fn check_certificates(config: &BrokerConfig, users: &Users) -> Result<(), AuthError> {
    if !users.maps_certificates() {
        return Ok(());
    }
    let needs = |other| AuthError::Alone { key: VERIFY_AND_MAP, other };
    if config.tailrace_tls_client_auth != TlsClientAuth::Required {
        return Err(needs("tailrace.tls.client.auth=required"));
    }
    if config.nats_address().is_some() && config.tailrace_nats_tls != NatsTls::Required {
        return Err(needs("tailrace.nats.tls=required"));
    }
    if users.has_token() {
        return Err(AuthError::Excludes { key: VERIFY_AND_MAP, other: "tailrace.nats.token" });
    }
    match users.guest() {
        Some(_) => Err(AuthError::Excludes { key: VERIFY_AND_MAP, other: "no_auth_user" }),
        None => Ok(()),
    }
}
