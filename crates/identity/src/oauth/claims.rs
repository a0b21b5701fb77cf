//! The claims of a token (RFC 7519, section 4), after its signature was verified.

use std::collections::BTreeSet;

use super::json::{Json, Object, beginning};
use super::settings::TokenSettings;
use crate::names::{UserName, UserNameError};

/// Maximum number of scopes.
const SCOPES_MAX: usize = 256;

/// The latest time that a claim may name, in seconds since 1970: the end of the year 9999.
const SECONDS_MAX: f64 = 253_402_300_799.0;

/// What a valid token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The user, with the prefix of the settings.
    pub name: UserName,
    /// When the token expires, and the session with it, in milliseconds since 1970. It may be up to the clock
    /// skew in the past.
    pub expires_at_ms: i64,
    /// The scopes. At most 256.
    pub scopes: BTreeSet<String>,
}

/// Which claim of a token is wrong. The name of the user is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// A claim that must be there is not.
    #[error("it has no claim {claim:?}")]
    Missing {
        /// The claim's name.
        claim: String,
    },
    /// A claim is of a wrong type.
    #[error("its claim {claim:?} is {found}, not {expected}")]
    Type {
        /// The claim's name.
        claim: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A time before 1970, or after the year 9999.
    #[error("its claim {claim:?} is not a time between the years 1970 and 9999, in seconds")]
    Time {
        /// The claim's name.
        claim: String,
    },
    /// The token has expired.
    #[error("it expired at {at_ms} ms since 1970")]
    Expired {
        /// When, in milliseconds since 1970.
        at_ms: i64,
    },
    /// The token is not valid yet.
    #[error("it is not valid before {from_ms} ms since 1970")]
    NotYet {
        /// From when on it is, in milliseconds since 1970.
        from_ms: i64,
    },
    /// The token was issued in the future, so one of two clocks is wrong.
    #[error("it was issued at {at_ms} ms since 1970, which is in the future")]
    IssuedInFuture {
        /// When, in milliseconds since 1970.
        at_ms: i64,
    },
    /// Another issuer.
    #[error("its issuer is {found:?}")]
    Issuer {
        /// The beginning of the issuer's name.
        found: String,
    },
    /// None of the expected audiences.
    #[error("it is for another audience")]
    Audience,
    /// The name is blank.
    #[error("its claim {claim:?} is blank")]
    BlankName {
        /// The claim's name.
        claim: String,
    },
    /// No user may have this name.
    #[error("it names a user who must not exist: {0}")]
    Name(#[from] UserNameError),
    /// A scope is empty.
    #[error("one of its scopes is blank")]
    BlankScope,
    /// A scope is listed twice.
    #[error("one of its scopes is listed twice")]
    ScopeTwice,
    /// Too many scopes.
    #[error("it has more than {SCOPES_MAX} scopes")]
    TooManyScopes,
}

/// Checks all claims, at a time in milliseconds since 1970.
pub(super) fn check(claims: &Object, settings: &TokenSettings, now_ms: i64) -> Result<Token, ClaimError> {
    let expires_at_ms = check_times(claims, settings.clock_skew_ms, now_ms)?;
    check_issuer(claims, settings)?;
    check_audience(claims, settings)?;
    let name = name(claims, settings)?;
    Ok(Token { name, expires_at_ms, scopes: scopes(claims, &settings.scope_claim)? })
}

/// Checks the times, and returns when the token expires.
fn check_times(claims: &Object, skew_ms: i64, now_ms: i64) -> Result<i64, ClaimError> {
    let expires_at_ms = time_ms(claims, "exp")?;
    let issued_at_ms = time_ms(claims, "iat")?;
    if now_ms.saturating_sub(skew_ms) >= expires_at_ms {
        return Err(ClaimError::Expired { at_ms: expires_at_ms });
    }
    let latest_ms = now_ms.saturating_add(skew_ms);
    if claims.contains_key("nbf") {
        let from_ms = time_ms(claims, "nbf")?;
        if latest_ms < from_ms {
            return Err(ClaimError::NotYet { from_ms });
        }
    }
    if latest_ms < issued_at_ms {
        return Err(ClaimError::IssuedInFuture { at_ms: issued_at_ms });
    }
    Ok(expires_at_ms)
}

/// Returns a time in milliseconds. In tokens it is in seconds, which may have a fraction.
fn time_ms(claims: &Object, claim: &str) -> Result<i64, ClaimError> {
    match get(claims, claim)? {
        Json::Number(seconds) if (0.0..=SECONDS_MAX).contains(seconds) => Ok((seconds * 1_000.0) as i64),
        Json::Number(_) => Err(ClaimError::Time { claim: claim.to_owned() }),
        other => Err(wrong_type(claim, "a number", other)),
    }
}

fn check_issuer(claims: &Object, settings: &TokenSettings) -> Result<(), ClaimError> {
    let found = text(claims, "iss")?;
    if found == settings.issuer { Ok(()) } else { Err(ClaimError::Issuer { found: beginning(found) }) }
}

fn check_audience(claims: &Object, settings: &TokenSettings) -> Result<(), ClaimError> {
    let claim = get(claims, "aud")?;
    let found = texts(claim).ok_or_else(|| wrong_type("aud", "a text or a list of texts", claim))?;
    let is_expected = |audience: &&str| settings.audiences.iter().any(|expected| expected == audience);
    if found.iter().any(is_expected) { Ok(()) } else { Err(ClaimError::Audience) }
}

fn name(claims: &Object, settings: &TokenSettings) -> Result<UserName, ClaimError> {
    let claim = &settings.subject_claim;
    let subject = text(claims, claim)?;
    if subject.trim().is_empty() {
        return Err(ClaimError::BlankName { claim: claim.clone() });
    }
    Ok(UserName::new(&format!("{}{subject}", settings.name_prefix))?)
}

/// Returns the scopes: a list, or a text with blanks in between (RFC 9068, section 2.2.3). A token without
/// the claim, or with an empty one, has none.
fn scopes(claims: &Object, claim: &str) -> Result<BTreeSet<String>, ClaimError> {
    let Some(value) = claims.get(claim) else { return Ok(BTreeSet::new()) };
    let list = match value {
        Json::Text(text) if text.is_empty() => Vec::new(),
        Json::Text(text) => text.split(' ').collect(),
        other => texts(other).ok_or_else(|| wrong_type(claim, "a text or a list of texts", other))?,
    };
    if list.len() > SCOPES_MAX {
        return Err(ClaimError::TooManyScopes);
    }
    let mut scopes = BTreeSet::new();
    for scope in list {
        if scope.trim().is_empty() {
            return Err(ClaimError::BlankScope);
        }
        if !scopes.insert(scope.to_owned()) {
            return Err(ClaimError::ScopeTwice);
        }
    }
    Ok(scopes)
}

/// Returns the texts in a text or a list.
fn texts(value: &Json) -> Option<Vec<&str>> {
    match value {
        Json::Text(text) => Some(vec![text]),
        Json::List(list) => list.iter().map(Json::text).collect(),
        _ => None,
    }
}

fn text<'a>(claims: &'a Object, claim: &str) -> Result<&'a str, ClaimError> {
    let value = get(claims, claim)?;
    value.text().ok_or_else(|| wrong_type(claim, "a text", value))
}

fn get<'a>(claims: &'a Object, claim: &str) -> Result<&'a Json, ClaimError> {
    claims.get(claim).ok_or_else(|| ClaimError::Missing { claim: claim.to_owned() })
}

fn wrong_type(claim: &str, expected: &'static str, found: &Json) -> ClaimError {
    ClaimError::Type { claim: claim.to_owned(), expected, found: found.kind() }
}
