//! Checks of TLS and user settings that depend on each other. The server reads the files they name.

use super::broker::BrokerConfig;
use super::choice::{NatsTls, TlsClientAuth};
use super::error::ConfigError;
use super::keys::broker_key;

/// Refuses settings that would leave a listener without the protection they ask for.
///
/// # Errors
/// A setting lacks another that it needs, or two exclude each other.
pub(super) fn check(config: &BrokerConfig) -> Result<(), ConfigError> {
    check_certificates(config)?;
    check_users(config)?;
    config.tailrace_nats_websocket_origins.iter().try_for_each(|origin| check_origin(origin))
}

fn check_certificates(config: &BrokerConfig) -> Result<(), ConfigError> {
    let wanted = [
        ("tailrace.kafka.tls", "true", config.tailrace_kafka_tls),
        ("tailrace.http.tls", "true", config.tailrace_http_tls),
        ("tailrace.nats.tls", "required", config.tailrace_nats_tls == NatsTls::Required),
    ];
    let has_files =
        !config.tailrace_tls_certificate_file.is_empty() && !config.tailrace_tls_key_file.is_empty();
    if let Some((key, value, _)) = wanted.iter().find(|(_, _, on)| *on && !has_files) {
        return refused(
            key,
            value,
            "tailrace.tls.certificate.file and tailrace.tls.key.file must be set with it",
        );
    }
    if config.tailrace_nats_tls_handshake_first && config.tailrace_nats_tls == NatsTls::Off {
        return refused("tailrace.nats.tls.handshake.first", "true", "it needs tailrace.nats.tls=required");
    }
    let verifies = config.tailrace_tls_client_auth == TlsClientAuth::Required;
    if verifies && config.tailrace_tls_ca_file.is_empty() {
        return refused("tailrace.tls.client.auth", "required", "tailrace.tls.ca.file must be set with it");
    }
    if verifies && wanted.iter().all(|(_, _, on)| !on) {
        let reason = "no listener speaks TLS: set tailrace.kafka.tls, tailrace.http.tls or tailrace.nats.tls";
        return refused("tailrace.tls.client.auth", "required", reason);
    }
    Ok(())
}

fn check_users(config: &BrokerConfig) -> Result<(), ConfigError> {
    let (user, password) = (&config.tailrace_nats_user, &config.tailrace_nats_password);
    if !user.is_empty() && password.is_empty() {
        return refused("tailrace.nats.user", user, "tailrace.nats.password must be set with it");
    }
    if user.is_empty() && !password.is_empty() {
        return refused("tailrace.nats.password", "", "tailrace.nats.user must be set with it");
    }
    let has_users = [user, &config.tailrace_nats_nkey, &config.tailrace_nats_users_file];
    if !config.tailrace_nats_token.is_empty() && has_users.iter().any(|text| !text.is_empty()) {
        return refused("tailrace.nats.token", "", "a token and users exclude each other");
    }
    Ok(())
}

fn check_origin(origin: &str) -> Result<(), ConfigError> {
    let is_legal = |rest: &str| !rest.is_empty() && !rest.contains(['/', '*', ' ', '@', '?', '#']);
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    if origin == "*" || rest.is_some_and(is_legal) {
        return Ok(());
    }
    refused(
        "tailrace.nats.websocket.origins",
        origin,
        "expected *, or http://HOST:PORT or https://HOST:PORT without a path",
    )
}

fn refused(key: &str, value: &str, reason: &str) -> Result<(), ConfigError> {
    Err(broker_key(key)?.invalid(value, reason.to_owned()))
}
