//! Decisions about delegation tokens (KIP-48). The order of refusals is that of Kafka 4.3.1.

use tailrace_types::TimestampMs;

use super::access_error::AccessError;
use super::command::TokenEnd;
use super::decision::Records;
use crate::access::StoredToken;
use crate::access::bounds::{NAME_BYTES_MAX, RENEWERS_MAX, TOKENS_MAX, TOKENS_PER_USER_MAX};
use crate::image::MetadataImage;
use crate::record::MetadataRecord;

/// What a principal starts with. Only users have tokens.
const USER_TYPE: &str = "User:";

/// The length of an id: 128 random bits in base64.
const ID_BYTES: usize = 22;

/// A token that is asked for.
pub(super) struct Wanted<'a> {
    pub(super) id: &'a str,
    pub(super) owner: &'a str,
    pub(super) renewers: &'a [String],
    pub(super) max_lifetime_ms: i64,
    pub(super) by: &'a str,
    pub(super) now: TimestampMs,
}

pub(super) fn create(image: &MetadataImage, wanted: &Wanted<'_>) -> Records {
    let Wanted { id, owner, renewers, max_lifetime_ms, by, now } = *wanted;
    let requester = user_of(by)?;
    check_id(image, id)?;
    if renewers.len() > RENEWERS_MAX {
        return Err(AccessError::TooManyRenewers { max: RENEWERS_MAX }.into());
    }
    for name in renewers.iter().map(String::as_str).chain([owner, requester]) {
        check_name(name)?;
    }
    // Those that have expired only wait to be removed.
    let valid = || image.access.tokens().filter(|token| !token.is_expired(now));
    if valid().count() >= TOKENS_MAX {
        return Err(AccessError::TooManyTokens { max: TOKENS_MAX }.into());
    }
    for user in [owner, requester] {
        if valid().filter(|token| token.is_of(user)).count() >= TOKENS_PER_USER_MAX {
            return Err(AccessError::TooManyTokensOfUser { max: TOKENS_PER_USER_MAX }.into());
        }
    }
    let broker = &image.broker;
    let max_at = after(now, at_most(max_lifetime_ms, broker.delegation_token_max_lifetime_ms));
    let expires_at = max_at.min(after(now, broker.delegation_token_expiry_time_ms));
    let mut renewers = renewers.to_vec();
    renewers.sort();
    renewers.dedup();
    let token = StoredToken {
        id: id.to_owned(),
        owner: owner.to_owned(),
        requester: requester.to_owned(),
        renewers,
        issued_at: now,
        max_at,
        expires_at,
    };
    let mut records = expired(image, now);
    records.push(MetadataRecord::Token(token));
    Ok(records)
}

pub(super) fn extend(image: &MetadataImage, id: &str, end: TokenEnd, by: &str, now: TimestampMs) -> Records {
    let user = user_of(by)?;
    let token = image.access.token(id).ok_or(AccessError::UnknownToken)?;
    let check_user = || {
        if token.is_renewable_by(user) { Ok(()) } else { Err(AccessError::TokenOwnerMismatch) }
    };
    let check_valid = || if token.is_expired(now) { Err(AccessError::TokenExpired) } else { Ok(()) };
    let period_ms = match end {
        TokenEnd::Renewed { period_ms } => {
            check_valid()?;
            check_user()?;
            at_most(period_ms, image.broker.delegation_token_expiry_time_ms)
        }
        TokenEnd::Expires { period_ms } if period_ms < 0 => {
            check_user()?;
            return Ok(vec![MetadataRecord::TokenRemoved { id: id.to_owned() }]);
        }
        TokenEnd::Expires { period_ms } => {
            check_user()?;
            check_valid()?;
            period_ms
        }
    };
    let expires_at = token.max_at.min(after(now, period_ms));
    if expires_at == token.expires_at {
        return Ok(Vec::new());
    }
    Ok(vec![MetadataRecord::Token(StoredToken { expires_at, ..StoredToken::clone(token) })])
}

/// Removes the tokens that have expired.
pub(super) fn expired(image: &MetadataImage, now: TimestampMs) -> Vec<MetadataRecord> {
    removed(image, |token| token.is_expired(now))
}

/// Removes the tokens of a user who is removed: those that stand for it, and those that it has asked for,
/// whose secret it knows.
pub(super) fn of_removed_user(image: &MetadataImage, user: &str) -> Vec<MetadataRecord> {
    removed(image, |token| token.is_of(user))
}

fn removed(image: &MetadataImage, is_removed: impl Fn(&StoredToken) -> bool) -> Vec<MetadataRecord> {
    let tokens = image.access.tokens().filter(|token| is_removed(token));
    tokens.map(|token| MetadataRecord::TokenRemoved { id: token.id.clone() }).collect()
}

fn user_of(principal: &str) -> Result<&str, AccessError> {
    principal.strip_prefix(USER_TYPE).ok_or(AccessError::TokenPrincipalType)
}

fn check_id(image: &MetadataImage, id: &str) -> Result<(), AccessError> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if id.len() != ID_BYTES || !id.bytes().all(is_word) || image.access.token(id).is_some() {
        return Err(AccessError::TokenId);
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), AccessError> {
    let refused = |reason| Err(AccessError::InvalidTokenUser { reason });
    match name {
        "" => refused("be empty"),
        "*" | "ANONYMOUS" => refused("be * or ANONYMOUS, which stand for others"),
        _ if name.len() > NAME_BYTES_MAX => refused("have more than 255 bytes"),
        _ if name.contains(char::is_control) => refused("contain control characters"),
        _ => Ok(()),
    }
}

/// The period that is asked for, unless it is above the maximum or not above 0.
fn at_most(period_ms: i64, max_ms: i64) -> i64 {
    if period_ms > 0 { period_ms.min(max_ms) } else { max_ms }
}

fn after(now: TimestampMs, period_ms: i64) -> TimestampMs {
    TimestampMs(now.0.saturating_add(period_ms))
}
