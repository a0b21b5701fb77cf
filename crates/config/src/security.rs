//! Checks of TLS and user settings that depend on each other. The server reads the files they name.

use super::broker::BrokerConfig;
use super::choice::{AuthorizerClass, KafkaAuthentication, NatsTls, TlsClientAuth};
use super::error::ConfigError;
use super::keys::broker_key;

/// Refuses settings that would leave a listener without the protection they ask for.
///
/// # Errors
/// A setting lacks another that it needs, or two exclude each other.
pub(super) fn check(config: &BrokerConfig) -> Result<(), ConfigError> {
    check_certificates(config)?;
    check_users(config)?;
    check_rights(config)?;
    check_tokens(config)?;
    config.tailrace_nats_websocket_origins.iter().try_for_each(|origin| check_origin(origin))
}

fn check_certificates(config: &BrokerConfig) -> Result<(), ConfigError> {
    let (kafka_key, kafka_value) = config.kafka_tls_setting();
    let wanted = [
        (kafka_key, kafka_value.as_str(), config.kafka_uses_tls()),
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
        let reason = "no listener speaks TLS: set tailrace.kafka.tls, tailrace.http.tls or tailrace.nats.tls, \
                      or one with TLS in listeners";
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

/// Fewest bytes of the key of delegation tokens.
const TOKEN_KEY_BYTES_MIN: usize = 16;

/// The prefix of a user in `super.users`.
const USER: &str = "User:";

/// Returns the names in `super.users`, and refuses what is not `User:NAME`.
fn super_users(text: &str) -> Result<Vec<&str>, String> {
    let users = text.split(';').map(str::trim).filter(|user| !user.is_empty());
    let name = |user: &'_ str| -> Result<(), String> {
        let is_one = user.strip_prefix(USER).is_some_and(|name| !name.is_empty() && name != "*");
        if is_one { Ok(()) } else { Err(format!("'{user}' is not a user: expected User:NAME;User:NAME")) }
    };
    users.map(|user| name(user).map(|()| &user[USER.len()..])).collect()
}

fn check_rights(config: &BrokerConfig) -> Result<(), ConfigError> {
    let supers = match super_users(&config.super_users) {
        Ok(supers) => supers,
        Err(reason) => return refused("super.users", &config.super_users, &reason),
    };
    if config.authorizer_class_name == AuthorizerClass::Standard && supers.is_empty() {
        let reason = "super.users must be set with it: otherwise nobody could add the first rule";
        return refused("authorizer.class.name", AuthorizerClass::NAMES[1], reason);
    }
    if config.tailrace_audit_log_topic && config.authorizer_class_name != AuthorizerClass::Standard {
        let reason = "authorizer.class.name must be set with it: otherwise everybody could read the topic";
        return refused("tailrace.audit.log.topic", "true", reason);
    }
    // The other way round, the password may be missing after the first start. The node knows.
    if config.tailrace_first_user.is_empty() && !config.tailrace_first_password.is_empty() {
        return refused("tailrace.first.password", "", "tailrace.first.user must be set with it");
    }
    let key = config.delegation_token_secret_key.expose();
    if (1..TOKEN_KEY_BYTES_MIN).contains(&key.len()) {
        let reason = "it must have at least 16 bytes: everybody with a token can guess it at leisure";
        return refused("delegation.token.secret.key", "[hidden]", reason);
    }
    let authentication = config.tailrace_kafka_authentication;
    let has_logins = !config.sasl_enabled_mechanisms.is_empty() || config.names_certificates();
    if authentication != KafkaAuthentication::None && !has_logins {
        let reason = "sasl.enabled.mechanisms must be set with it";
        return refused("tailrace.kafka.authentication", "required", reason);
    }
    Ok(())
}

/// The mechanism of logins with a token.
const OAUTHBEARER: &str = "OAUTHBEARER";

fn check_tokens(config: &BrokerConfig) -> Result<(), ConfigError> {
    let url = &config.sasl_oauthbearer_jwks_endpoint_url;
    if let Err(reason) = token_keys(url) {
        return refused("sasl.oauthbearer.jwks.endpoint.url", url, reason);
    }
    let (first, longest) = (
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
    );
    if first > longest {
        let reason = "it must not be longer than sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms";
        return refused("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", &first.to_string(), reason);
    }
    let keep = config.tailrace_oauthbearer_jwks_keep_ms;
    if keep <= config.sasl_oauthbearer_jwks_endpoint_refresh_ms {
        let reason = "it must be longer than sasl.oauthbearer.jwks.endpoint.refresh.ms";
        return refused("tailrace.oauthbearer.jwks.keep.ms", &keep.to_string(), reason);
    }
    if !config.accepts_tokens() {
        return Ok(());
    }
    let missing = [
        (url.is_empty(), "sasl.oauthbearer.jwks.endpoint.url must be set with OAUTHBEARER"),
        (
            config.sasl_oauthbearer_expected_issuer.trim().is_empty(),
            "sasl.oauthbearer.expected.issuer must be set with OAUTHBEARER: otherwise any issuer would do",
        ),
        (
            config.sasl_oauthbearer_expected_audience.is_empty(),
            "sasl.oauthbearer.expected.audience must be set with OAUTHBEARER: otherwise a token for another \
             service would do",
        ),
    ];
    match missing.into_iter().find(|(is_missing, _)| *is_missing) {
        Some((_, reason)) => refused("sasl.enabled.mechanisms", OAUTHBEARER, reason),
        None => Ok(()),
    }
}

/// Where the keys that verify tokens come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKeys<'a> {
    /// A file, by its path.
    File(&'a str),
    /// A web server, by the address of the keys. It may still be malformed.
    Web(&'a str),
}

/// Returns where the keys come from, `None` if nothing is set.
fn token_keys(url: &str) -> Result<Option<TokenKeys<'_>>, &'static str> {
    if url.is_empty() {
        return Ok(None);
    }
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(Some(TokenKeys::Web(url)));
    }
    let path = url.strip_prefix("file://").filter(|path| path.starts_with('/') && path.len() > 1);
    let path = path.ok_or("expected https://HOST/PATH or file:///PATH")?;
    if path.contains(['%', '?', '#', '\0']) {
        return Err("the path must not have %, ? or #, which mean something else in a URL");
    }
    Ok(Some(TokenKeys::File(path)))
}

impl BrokerConfig {
    /// Reports whether Kafka clients may log in with a token, on one listener at least.
    pub fn accepts_tokens(&self) -> bool {
        let mut mechanisms = self.kafka_listeners().iter().flat_map(|listener| &listener.mechanisms);
        mechanisms.any(|mechanism| mechanism == OAUTHBEARER)
    }

    /// Reports whether a Kafka listener uses TLS.
    pub fn kafka_uses_tls(&self) -> bool {
        self.kafka_listeners().iter().any(|listener| listener.protocol.uses_tls())
    }

    /// Returns where the keys that verify tokens come from. `None` if nothing is set.
    pub fn token_keys(&self) -> Option<TokenKeys<'_>> {
        // Checked when the configuration was resolved.
        token_keys(&self.sasl_oauthbearer_jwks_endpoint_url).unwrap_or_default()
    }

    /// Reports whether Kafka clients show a certificate, which names the user.
    pub fn names_certificates(&self) -> bool {
        self.tailrace_kafka_tls && self.tailrace_tls_client_auth == TlsClientAuth::Required
    }
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
