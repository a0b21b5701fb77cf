//! A signed token: header, claims, signature.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::keys::{KeyKind, Nkey, NkeyError};

/// Maximum length of a header as text. The usual one has 48 characters.
const HEADER_TEXT_MAX: usize = 512;

/// Maximum length of the tokens of operators, accounts and activations, as in nats-server.
pub const TOKEN_BYTES_MAX: usize = 1 << 20;

/// Maximum length of a user's token, which is read before the login. A real one has about one KiB.
/// Reading one of this length takes less than 1 MiB of memory.
pub(super) const USER_TOKEN_BYTES_MAX: usize = 64 << 10;

/// What is wrong with a token. Tokens are not shown: a user's may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Too long.
    #[error("a token has at most {max} bytes here, not {found}")]
    TooLong {
        /// The length found, in bytes.
        found: usize,
        /// The highest length.
        max: usize,
    },
    /// Not three parts.
    #[error("a token has three parts with dots in between")]
    Parts,
    /// A part is not base64 of the kind for URLs, without padding.
    #[error("the {part} of the token is not base64")]
    Base64 {
        /// The part.
        part: &'static str,
    },
    /// The header is not that of a token.
    #[error("the header of the token is not {{\"typ\": \"JWT\", \"alg\": \"ed25519-nkey\"}}")]
    Header,
    /// The algorithm of version 1, which signs the claims without the header.
    #[error(
        "the token is of version 1 (alg ed25519), which is not accepted: create it again with current tools"
    )]
    Old,
    /// The claims are not the JSON that is expected.
    #[error("the claims of the token cannot be read: {reason}")]
    Claims {
        /// What is wrong, without values.
        reason: String,
    },
    /// Another version of claims.
    #[error("the claims are of version {found}, not 2")]
    Version {
        /// The version found.
        found: i64,
    },
    /// Another type of claims.
    #[error("expected the claims of type {expected}")]
    Type {
        /// The expected type.
        expected: &'static str,
    },
    /// The issuer or the subject is no key, or of the wrong kind.
    #[error("the token's {field}: {error}")]
    Key {
        /// The field.
        field: &'static str,
        /// What is wrong.
        error: NkeyError,
    },
    /// The signature is not that of the issuer.
    #[error("the signature is not that of the token's issuer")]
    Signature,
}

/// What is expected of a token.
#[derive(Clone, Copy)]
pub(in crate::nats_accounts) struct Expected {
    /// Its `type`.
    pub(super) kind: &'static str,
    /// The kinds of key that may sign it.
    pub(super) issuers: &'static [KeyKind],
    /// The kind of key that it is about. `None` for any text.
    pub(super) subject: Option<KeyKind>,
    pub(super) bytes_max: usize,
}

impl Expected {
    pub(super) const OPERATOR: Self = Self {
        kind: "operator",
        issuers: &[KeyKind::Operator],
        subject: Some(KeyKind::Operator),
        bytes_max: TOKEN_BYTES_MAX,
    };
    /// Accounts may sign themselves, but that is never trusted here.
    pub(super) const ACCOUNT: Self = Self {
        kind: "account",
        issuers: &[KeyKind::Operator],
        subject: Some(KeyKind::Account),
        bytes_max: TOKEN_BYTES_MAX,
    };
    pub(super) const USER: Self = Self {
        kind: "user",
        issuers: &[KeyKind::Account],
        subject: Some(KeyKind::User),
        bytes_max: USER_TOKEN_BYTES_MAX,
    };
    pub(super) const ACTIVATION: Self = Self {
        kind: "activation",
        issuers: &[KeyKind::Account],
        subject: Some(KeyKind::Account),
        bytes_max: USER_TOKEN_BYTES_MAX,
    };
    /// A request to delete accounts.
    pub(super) const GENERIC: Self = Self {
        kind: "generic",
        issuers: &[KeyKind::Operator],
        subject: Some(KeyKind::Operator),
        bytes_max: TOKEN_BYTES_MAX,
    };
    pub(in crate::nats_accounts) const CALLOUT_RESPONSE: Self = Self {
        kind: "authorization_response",
        issuers: &[KeyKind::Account],
        subject: Some(KeyKind::User),
        // It holds the token of a user.
        bytes_max: 2 * USER_TOKEN_BYTES_MAX,
    };
}

/// When claims are valid, in seconds since 1970. 0 is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::nats_accounts) struct Times {
    pub(in crate::nats_accounts) issued_at_s: i64,
    pub(in crate::nats_accounts) expires_at_s: i64,
    pub(in crate::nats_accounts) not_before_s: i64,
}

impl Times {
    /// Reports whether it has ended. There is no tolerance.
    pub(in crate::nats_accounts) fn is_expired(self, now_s: i64) -> bool {
        self.expires_at_s != 0 && self.expires_at_s <= now_s
    }

    /// Reports whether it has not begun.
    pub(in crate::nats_accounts) fn is_early(self, now_s: i64) -> bool {
        self.not_before_s != 0 && self.not_before_s > now_s
    }

    /// Returns when it ends. `None` for never.
    pub(in crate::nats_accounts) fn expires(self) -> Option<i64> {
        (self.expires_at_s != 0).then_some(self.expires_at_s)
    }
}

/// Claims whose signature is that of their issuer. Whether the issuer is trusted is another question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::nats_accounts) struct Token<T> {
    pub(in crate::nats_accounts) issuer: String,
    pub(in crate::nats_accounts) subject: String,
    pub(in crate::nats_accounts) audience: String,
    pub(in crate::nats_accounts) name: String,
    pub(in crate::nats_accounts) times: Times,
    pub(in crate::nats_accounts) body: T,
}

/// What must be known before the signature is checked.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    iss: String,
    /// Version 1 has it here.
    #[serde(default, rename = "type")]
    old_type: Option<String>,
    #[serde(default)]
    nats: HeadBody,
}

#[derive(Default, Deserialize)]
struct HeadBody {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    version: i64,
}

#[derive(Deserialize)]
struct Claims<T> {
    #[serde(default)]
    aud: String,
    #[serde(default)]
    exp: i64,
    #[serde(default)]
    iat: i64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    nbf: i64,
    #[serde(default)]
    sub: String,
    nats: T,
}

#[derive(Deserialize)]
struct Header {
    typ: String,
    alg: String,
}

/// Reads a token, and checks its signature.
///
/// # Errors
/// It is too long, not a token, not of the expected type, or the signature is not that of its issuer.
pub(in crate::nats_accounts) fn read<T: DeserializeOwned>(
    token: &str,
    expected: Expected,
) -> Result<Token<T>, TokenError> {
    let (found, max) = (token.len(), expected.bytes_max);
    if found > max {
        return Err(TokenError::TooLong { found, max });
    }
    let mut parts = token.split('.');
    let (Some(header), Some(payload), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenError::Parts);
    };
    check_header(header)?;
    let claims = decode(payload, "payload")?;
    let head: Head = parse(&claims)?;
    let issuer = check_head(&head, expected)?;
    let signed = &token[..header.len() + 1 + payload.len()];
    if !issuer.verifies(signed.as_bytes(), &decode(signature, "signature")?) {
        return Err(TokenError::Signature);
    }
    let claims: Claims<T> = parse(&claims)?;
    if let Some(kind) = expected.subject {
        Nkey::parse_as(kind, &claims.sub).map_err(|error| TokenError::Key { field: "sub", error })?;
    }
    let times = Times { issued_at_s: claims.iat, expires_at_s: claims.exp, not_before_s: claims.nbf };
    let Claims { aud: audience, name, sub: subject, nats: body, .. } = claims;
    Ok(Token { issuer: head.iss, subject, audience, name, times, body })
}

fn check_header(text: &str) -> Result<(), TokenError> {
    if text.len() > HEADER_TEXT_MAX {
        return Err(TokenError::Header);
    }
    let header: Header =
        serde_json::from_slice(&decode(text, "header")?).map_err(|_error| TokenError::Header)?;
    if !header.typ.eq_ignore_ascii_case("JWT") {
        return Err(TokenError::Header);
    }
    match header.alg.to_ascii_lowercase().as_str() {
        "ed25519-nkey" => Ok(()),
        "ed25519" => Err(TokenError::Old),
        _ => Err(TokenError::Header),
    }
}

/// Returns the issuer, if type and version are as expected.
fn check_head(head: &Head, expected: Expected) -> Result<Nkey, TokenError> {
    if head.old_type.is_some() {
        return Err(TokenError::Old);
    }
    // The tools write no type into generic claims.
    let is_untyped = expected.kind == "generic" && head.nats.kind.is_empty();
    if head.nats.kind != expected.kind && !is_untyped {
        return Err(TokenError::Type { expected: expected.kind });
    }
    if head.nats.version != 2 {
        return Err(TokenError::Version { found: head.nats.version });
    }
    let key_error = |error| TokenError::Key { field: "iss", error };
    let issuer = Nkey::parse(&head.iss).map_err(key_error)?;
    match (expected.issuers.contains(&issuer.kind()), expected.issuers.first()) {
        (true, _) | (false, None) => Ok(issuer),
        (false, Some(expected)) => Err(key_error(NkeyError::Kind { expected: *expected })),
    }
}

fn decode(text: &str, part: &'static str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_error| TokenError::Base64 { part })
}

/// serde's errors may show values, so only their place is told.
fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, TokenError> {
    serde_json::from_slice(json).map_err(|error| TokenError::Claims {
        reason: format!("{:?} error at column {} of the JSON", error.classify(), error.column()),
    })
}
